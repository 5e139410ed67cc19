"""Benchmarks of the simulator, the tasks and training: `ahac bench`, or `make bench`."""
