"""How fast it is on this machine: `ahac bench`, or `make bench`."""
