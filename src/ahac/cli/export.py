"""`ahac export`: write a trained policy to a file that runs without this library."""

from __future__ import annotations

import sys
from pathlib import Path

from ahac.cli.parser import Parser, one_of

__all__ = ["export"]

ABOUT = (
    "Export a trained policy to one file, from observations to actions and controls, and describe it in a JSON file of "
    "the same name: observation terms, actuators, gains, rates.\n\n"
    "The file is run on random observations and compared with the policy before anything is written. ONNX needs "
    "`pip install 'ahac[export]'`."
)


def export(arguments: list[str]) -> int:
    """Run `ahac export`."""
    parser = Parser("ahac export", "RUN [options]", ABOUT)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument(
        "--format",
        type=one_of("onnx", "torchscript"),
        default="onnx",
        metavar="{onnx,torchscript}",
        help="file format (default: onnx)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="file to write (default: policy.onnx or policy.pt in the run folder)"
    )
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="last, best or iteration-NNNNNN (default: last)"
    )
    options = parser.parse(arguments)

    from ahac.deployment import export as export_policy

    path = export_policy(options.run, options.out, options.format, options.checkpoint)
    sys.stdout.write(f"{path}\n{path.with_suffix('.json')}\n")
    return 0
