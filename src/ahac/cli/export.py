"""`ahac export`: write a trained policy to a file that runs without this library, or pack it in a small run folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ahac.cli.parser import Parser, one_of
from ahac.cli.pretrained import add_pretrained_option, add_trust_option, run_folder

__all__ = ["export"]

ABOUT = (
    "Export a trained policy to one file, from observations to actions and controls, and describe it in a JSON file of "
    "the same name: observation terms, actuators, gains, rates.\n\n"
    "The file is run on random observations and compared with the policy before anything is written. ONNX needs "
    "`pip install 'ahac[export]'`.\n\n"
    "--format pretrained writes a small run folder for this library instead, without what only training needs, like "
    "those that come with the package."
)


def export(arguments: list[str]) -> int:
    """Run `ahac export`."""
    parser = Parser("ahac export", "RUN [options]", ABOUT)
    parser.add_argument("run", metavar="RUN", help="run folder; with --pretrained, name of a task")
    add_pretrained_option(parser)
    parser.add_argument(
        "--format",
        type=one_of("onnx", "torchscript", "pretrained"),
        metavar="{onnx,torchscript,pretrained}",
        help="file format (default: that of the suffix of --out, .onnx or .pt; onnx without --out)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="file to write; with --format pretrained, a new folder (default: policy.onnx, policy.pt or pretrained in "
        "the run folder; with --pretrained TASK.onnx or TASK.pt in the current folder)",
    )
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="last, best or iteration-NNNNNN (default: last)"
    )
    add_trust_option(parser)
    options = parser.parse(arguments)
    options.run = run_folder(options.run, options.pretrained)
    for path in (_pack if options.format == "pretrained" else _export)(options):
        sys.stdout.write(f"{path}\n")
    return 0


def _export(options: argparse.Namespace) -> list[Path]:
    """Write a policy file and its description."""
    from ahac.deployment import export as export_policy

    path = export_policy(options.run, options.out, options.format, options.checkpoint, trust=options.trust)
    return [path, path.with_suffix(".json")]


def _pack(options: argparse.Namespace) -> list[Path]:
    """Write a small run folder."""
    from ahac.core.errors import InputError
    from ahac.deployment.api import FORMATS
    from ahac.training.pretrained import pack

    if options.out is not None and any(options.out.suffix.lower() in known.suffixes for known in FORMATS.values()):
        raise InputError(
            f"{str(options.out)!r} has the suffix of a file, but --format pretrained writes a folder; change the name, "
            "or omit --format"
        )
    return [pack(options.run, options.out or Path(options.run) / "pretrained", options.checkpoint)]
