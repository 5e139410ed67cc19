"""`python -m ahac`: the command line."""

import sys

from ahac.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
