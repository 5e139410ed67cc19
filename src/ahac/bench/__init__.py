"""Speed of the simulator on this machine: `python -m ahac.bench`, or `make bench`."""
