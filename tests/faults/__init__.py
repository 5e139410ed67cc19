"""Fault injection: kill training runs, damage their files, mutate robot files; count what goes wrong.

`make faults` runs it (docs/faults.md). A trial passes if the run ends with the same bits as one that nothing happened
to, or if the program says in one line what is wrong.
"""
