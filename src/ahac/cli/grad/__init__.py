"""`ahac grad`: study, plot and check gradients through contact."""

from __future__ import annotations

from ahac.cli.grad.check import check
from ahac.cli.grad.gait import gait
from ahac.cli.grad.studies import landscape, study
from ahac.cli.parser import Commands, run_command

__all__ = ["grad"]

COMMANDS: Commands = {
    "study": ("compare first- and zeroth-order gradients by number of samples and horizon", study),
    "landscape": ("plot the return along a direction, with both gradients as slopes", landscape),
    "check": ("check the gradients of a task or robot against finite differences", check),
    "gait": ("train SHAC with many horizons and measure the resulting gaits", gait),
}


def grad(arguments: list[str]) -> int:
    """Run `ahac grad`."""
    return run_command("ahac grad", "Study, plot and check gradients through contact.", COMMANDS, arguments)
