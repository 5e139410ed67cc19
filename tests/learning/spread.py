"""Spread of training results over seeds and roundings, and their distance from the tests' limits.

    PYTHONPATH=src:tests .venv/bin/python -m learning.spread --seeds 20
    PYTHONPATH=src:tests .venv/bin/python -m learning.spread --cases "pole, sac" "rail, ppo" --out spread.jsonl

Every case is trained with every seed under every rounding of `rounding.py`, each rounding in a separate process. On
one core all of it takes hours; --others trains fewer seeds under the roundings of other machines. With --out, results
are kept in a file, and a later call trains only what is missing there.

The table has a row for every limit: median and worst of what was measured, robust standard deviation of its logarithm
(1.4826 times the median absolute deviation) and the distance from median to limit in such deviations. Where a test
compares the median over k seeds, all of this is said of such medians, drawn from the single results; "beyond" counts
single results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch

from learning import test_cartpole, test_double_integrator, test_fits
from learning.cases import Case, Limit
from support import rounding

CASES: dict[str, Case] = {**test_double_integrator.CASES, **test_cartpole.CASES, **test_fits.CASES}
DRAWS = 4000
"""Medians over a test's seeds that are drawn from the single results."""
Key = tuple[str, str, int]
"""Case, rounding, seed."""


def missing(names: Iterable[str], seeds: Mapping[str, int], known: set[Key]) -> dict[str, list[Key]]:
    """Return the cases still to be trained, by rounding, for the number of seeds of each rounding."""
    todo: dict[str, list[Key]] = {}
    for name in names:
        for kind, count in seeds.items():
            if CASES[name].compiled or kind in (rounding.HERE, rounding.PLAIN_TORCH):
                keys = [(name, kind, seed) for seed in range(count)]
                todo.setdefault(kind, []).extend(key for key in keys if key not in known)
    return {kind: keys for kind, keys in todo.items() if keys}


def train(keys: list[Key], out: Path) -> None:
    """Train in this process, all with the same rounding, and append the results to a file."""
    rounding.use(keys[0][1])
    torch.set_num_threads(1)
    for name, kind, seed in keys:
        actual = dict(CASES[name].train(seed))
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, kind, seed, actual]) + "\n")


def results(out: Path) -> dict[Key, dict[str, float]]:
    """Read the results in a file."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return {(name, kind, seed): actual for name, kind, seed, actual in map(json.loads, lines)}


def row(values: np.ndarray, limit: Limit, seeds: int) -> list[str]:
    """Return median, deviation, worst, margin of medians over `seeds` seeds, and single results beyond the limit."""
    logs = np.log(values)
    if seeds > 1:
        logs = np.median(np.random.default_rng(0).choice(logs, (DRAWS, seeds)), axis=1)
    middle = float(np.median(logs))
    deviation = 1.4826 * float(np.median(np.abs(logs - middle)))
    bounds = [(bound, sign) for bound, sign in ((limit.below, 1.0), (limit.above, -1.0)) if bound is not None]
    margins = {bound: sign * (np.log(bound) - middle) / max(deviation, 1e-12) for bound, sign in bounds}
    nearest = min(margins, key=margins.__getitem__)
    sign = dict(bounds)[nearest]
    worst = np.exp(sign * (sign * logs).max())
    beyond = sum(int((sign * np.log(values) >= sign * np.log(bound)).sum()) for bound, sign in bounds)
    side = "<" if sign > 0.0 else ">"
    return [
        f"{np.exp(middle):.4g}",
        f"{deviation:.3f}",
        f"{worst:.4g}",
        f"{side} {nearest:g}",
        f"{margins[nearest]:.1f}",
        f"{beyond}/{len(values)}",
    ]


def table(actual: dict[Key, dict[str, float]], names: Iterable[str], by_rounding: bool) -> str:
    """All limits, over all roundings together, and over each of them."""
    heads = ["case", "measured", "rounding", "seeds", "median", "deviation", "worst", "limit", "margin", "beyond"]
    lines = [heads]
    for name in names:
        case = CASES[name]
        kinds = sorted({kind for other, kind, _ in actual if other == name})
        for number, limit in case.limits.items():
            for kind in ["all", *(kinds if by_rounding else [])]:
                chosen = [x[number] for (other, k, _), x in actual.items() if other == name and kind in ("all", k)]
                if chosen:
                    lines.append([name, number, kind, str(case.seeds), *row(np.array(chosen), limit, case.seeds)])
    widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
    return "\n".join(" | ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--roundings", nargs="*", choices=rounding.ROUNDINGS, default=list(rounding.ROUNDINGS))
    parser.add_argument("--seeds", type=int, default=20, help="from 0 on (default: 20)")
    parser.add_argument("--others", type=int, help="seeds under the roundings of other machines (default: as many)")
    parser.add_argument("--out", type=Path, help="file of results, one per line")
    parser.add_argument("--each", action="store_true", help="a row for each rounding, too")
    parser.add_argument("--train", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train is not None:
        train([(name, kind, seed) for name, kind, seed in chosen.train], chosen.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        out = chosen.out or Path(folder) / "spread.jsonl"
        others = chosen.seeds if chosen.others is None else chosen.others
        seeds = {kind: chosen.seeds if kind == rounding.HERE else others for kind in chosen.roundings}
        for keys in missing(chosen.cases, seeds, set(results(out))).values():
            order = ["-m", "learning.spread", "--train", json.dumps(keys), "--out", str(out)]
            subprocess.run([sys.executable, *order], check=True)
        sys.stdout.write(table(results(out), chosen.cases, chosen.each) + "\n")


if __name__ == "__main__":
    main()
