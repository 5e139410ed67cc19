"""`ahac grad`: study, plot and check gradients through contact."""

from __future__ import annotations

from ahac.cli.grad.check import check
from ahac.cli.grad.gait import gait
from ahac.cli.grad.studies import landscape, study
from ahac.cli.parser import Commands, run_command

__all__ = ["grad"]

COMMANDS: Commands = {
    "study": ("compare first- and zeroth-order gradient estimates", study),
    "landscape": ("plot the return along a direction in parameter space", landscape),
    "check": ("check gradients against finite differences", check),
    "gait": ("train SHAC with several horizons and measure the gaits", gait),
}


def grad(arguments: list[str]) -> int:
    """Run `ahac grad`."""
    return run_command("ahac grad", "Study, plot and check gradients through contact.", COMMANDS, arguments)
