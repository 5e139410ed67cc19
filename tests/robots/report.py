"""Findings as CSV, and as Markdown tables that are made from the CSV."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "read_csv", "tables", "write_csv"]

COLUMNS = (
    "package", "version", "file", "kind", "mujoco", "mujoco_error", "articulated", "loaded", "ignorable", "features",
    "refusals", "notes", "nv", "nu", "points", "acceleration_error", "linear_stable", "unstable", "free_stable",
    "free_fastest", "contact_stable", "contact_fastest", "free_operations", "contact_operations",
    "backward_operations", "gradient", "load_seconds", "seconds", "problem",
)  # fmt: skip
TOLERANCE = 1e-8
"""Largest relative difference from MuJoCo's acceleration that counts as a match."""
LARGEST_GRADIENT = 1e6
"""Largest norm of a gradient that counts as finite: larger ones are of no use."""
SEPARATOR = " | "

Row = Mapping[str, str]


def write_csv(path: Path, findings: Iterable[Mapping[str, Any]]) -> None:
    """Write one row per file, sorted by package and name."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for found in sorted(findings, key=lambda found: (found["package"], found["file"])):
            writer.writerow({name: _cell(found.get(name, "")) for name in COLUMNS})


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read what `write_csv` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tables(rows: Sequence[Row]) -> str:
    """Return the tables by package, by kind of file, and of what refuses files, in Markdown."""
    packages = list(dict.fromkeys(row["package"] for row in rows))
    groups = {f"{p} {_version(rows, p)}".strip(): [row for row in rows if row["package"] == p] for p in packages}
    kinds = {kind: [row for row in rows if row["kind"] == kind.lower()] for kind in ("MJCF", "URDF")}
    by_package = [(name, *_counts(group)) for name, group in (*groups.items(), *kinds.items(), ("all", rows))]
    parts = [_markdown(("package", *COUNTED), by_package)]
    if reasons := _reasons(rows):
        parts.append(_markdown(("feature that refuses", "files that have it", "only obstacle"), reasons))
    return "\n\n".join(parts)


def _version(rows: Sequence[Row], package: str) -> str:
    return next((row["version"] for row in rows if row["package"] == package), "")


def _true(name: str) -> Callable[[Row], bool]:
    return lambda row: row[name] == "yes"


def _below(name: str, bound: float) -> Callable[[Row], bool]:
    return lambda row: row[name] != "" and float(row[name]) < bound


def _stable(row: Row) -> bool:
    return all(row[f"{name}_stable"] == "yes" for name in ("linear", "free", "contact"))


COUNTED: dict[str, Callable[[Row], bool]] = {
    "files": lambda row: True,
    "articulated": _true("articulated"),
    "loaded": _true("loaded"),
    "refused": lambda row: row["loaded"] == "no",
    "of these load with `ignore`": _true("ignorable"),
    "match MuJoCo": _below("acceleration_error", TOLERANCE),
    "stable": _stable,
    "finite gradient": _below("gradient", LARGEST_GRADIENT),
    "crashed or too slow": lambda row: row["problem"] != "",
}


SIMULATED = ("stable", "finite gradient")
"""Columns that stay empty if files were only loaded."""


def _counts(rows: Sequence[Row]) -> list[str]:
    simulated = any(row["gradient"] for row in rows) or not any(map(COUNTED["loaded"], rows))
    return [
        str(sum(map(counted, rows))) if simulated or name not in SIMULATED else "–" for name, counted in COUNTED.items()
    ]


def _reasons(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    features = [row["features"].split(SEPARATOR) for row in rows if row["features"]]
    having = Counter(feature for names in features for feature in names)
    alone = Counter(names[0] for names in features if len(names) == 1)
    return [(name, str(count), str(alone[name] or "–")) for name, count in having.most_common()]


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "inf"
    if isinstance(value, list):
        return SEPARATOR.join(map(str, value))
    return str(value)
