"""A command of the command line under a hook: `python -m faults.child HOOK COMMAND ...`; HOOK is JSON, or `-`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from faults.moments import Hook, install

__all__ = ["run"]


def run(hook: Hook | None, command: Sequence[str]) -> int:
    """Run it in this process; its exit status."""
    from ahac.cli.main import main

    if hook is not None:
        install(hook)
    return main(list(command))


if __name__ == "__main__":
    sys.exit(run(None if sys.argv[1] == "-" else Hook.from_json(sys.argv[1]), sys.argv[2:]))
