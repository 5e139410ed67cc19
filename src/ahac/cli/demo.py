"""`ahac demo`: watch a pretrained policy."""

from __future__ import annotations

from ahac.cli.parser import Parser
from ahac.cli.play import add_play_options, show

__all__ = ["demo"]

TASK = "go1"
ABOUT = (
    "Watch a policy that comes with the package; `ahac list pretrained` lists them. Same as "
    "`ahac play TASK --pretrained`.\n\n"
    "A viewer opens in the browser; Ctrl-C closes it. It needs `pip install 'ahac[view]'`. Without it, --record "
    "demo.html writes a page that plays offline. The first use of a task compiles its kernels."
)


def demo(arguments: list[str]) -> int:
    """Run `ahac demo`."""
    parser = Parser("ahac demo", "[TASK] [options]", ABOUT)
    parser.add_argument("what", metavar="TASK", nargs="?", default=TASK, help=f"name of the task (default: {TASK})")
    parser.set_defaults(pretrained=True, newest=False, trust=False)
    add_play_options(parser)
    return show(parser.parse(arguments))
