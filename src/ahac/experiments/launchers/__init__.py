"""Launchers: where the runs of a sweep train. `local` on this machine, `ray` and `slurm` on clusters."""
