"""The command line: `ahac --help`."""
