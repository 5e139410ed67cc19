"""Run the command line with `python -m ahac`."""

import sys

from ahac.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
