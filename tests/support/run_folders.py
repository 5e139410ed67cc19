"""Run folders without training: the files that comparisons and reports read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["MANIFEST", "write_run"]

MANIFEST = {
    "host": "box",
    "platform": "Linux",
    "cores": 4,
    "gpu": None,
    "device": "cpu",
    "python": "3.11.2",
    "versions": {"ahac": "0.1.0", "torch": "2.11.0", "warp-lang": "1.19.0", "mujoco": "3.6.0", "numpy": "2.0.0"},
    "git": {"commit": "0123456789abcdef", "changed": True},
}


def write_run(
    folder: Path,
    seed: int = 0,
    returns: Sequence[float | None] = (1.0, 2.0, 3.0),
    *,
    task: str = "ant",
    algo: str = "shac",
    score: float | None = None,
    manifest: Mapping[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 - any setting
) -> Path:
    """Write a run of 100 environment steps and two seconds per iteration; three iterations make it complete."""
    folder.mkdir(parents=True)
    config = {"task": task, "algo": algo, "preset": "default", "iterations": 3, "seed": seed, **settings}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    lines = [f"{k},{100 * k},{2.0 * k},{'' if x is None else x}" for k, x in enumerate(returns, start=1)]
    text = "\n".join(["iteration,env_steps,seconds,episode_return", *lines, ""])
    (folder / "metrics.csv").write_text(text, encoding="utf-8")
    if score is not None:
        evaluation = {
            "iteration": len(returns), "episodes": 8, "mean": score, "iqm": score, "interval": [score - 1, score + 1],
            "length": 1000.0,
        }  # fmt: skip
        (folder / "evaluation.json").write_text(json.dumps(evaluation), encoding="utf-8")
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
