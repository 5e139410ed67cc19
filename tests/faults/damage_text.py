"""Damage to text files: JSON and CSV that can be read, but hold something else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

from faults.damage_files import Damage, Scene, rewrite

__all__ = ["DICTIONARY", "EVALUATION", "TABLE"]

ODD_VALUES: tuple[Any, ...] = (None, "x", -1, 0.5, [], {}, float("nan"), True, "", [[1]], 10**400)


def _json(change: Callable[[dict[str, Any], Random], str]) -> Damage:
    def act(scene: Scene) -> str:
        content = json.loads(scene.path.read_text(encoding="utf-8"))
        said = change(content, scene.rng)
        scene.path.write_text(json.dumps(content), encoding="utf-8")
        return said

    return act


def _place(content: dict[str, Any], rng: Random) -> tuple[dict[str, Any], str, str]:
    """A dictionary in a dictionary, a key of it, and the names that lead there."""
    names, here = [], content
    while True:
        name = rng.choice(sorted(here))
        names.append(name)
        if not isinstance(here[name], dict) or not here[name]:
            return here, name, ".".join(names)
        here = here[name]


def _odd_value(content: dict[str, Any], rng: Random) -> str:
    here, name, shown = _place(content, rng)
    here[name] = rng.choice([x for x in ODD_VALUES if x != here[name]])
    return f"{shown} is {here[name]!r}"


def _without_key(content: dict[str, Any], rng: Random) -> str:
    here, name, shown = _place(content, rng)
    del here[name]
    return f"{shown} is missing"


def _renamed_key(content: dict[str, Any], rng: Random) -> str:
    here, name, shown = _place(content, rng)
    here[f"{name}x"] = here.pop(name)
    return f"{shown} is called {name}x"


def _not_a_dictionary(scene: Scene) -> str:
    text = scene.rng.choice(("[]", "3", '"text"', "null", "[{}]"))
    scene.path.write_text(text, encoding="utf-8")
    return f"it holds {text}"


def _nested(scene: Scene) -> str:
    scene.path.write_text('{"task": ' + "[" * 100_000 + "]" * 100_000 + "}", encoding="utf-8")
    return "it is nested more deeply than a parser can recurse"


def _short_evaluation(scene: Scene) -> str:
    scene.path.write_text('{"iteration": 7}', encoding="utf-8")
    return "it holds iteration alone"


def _csv(change: Callable[[list[list[str]], Random], str]) -> Damage:
    def act(scene: Scene) -> str:
        with scene.path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        said = change(rows, scene.rng)
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        scene.path.write_bytes(text.getvalue().encode())
        return said

    return act


def _without_row(rows: list[list[str]], rng: Random) -> str:
    row = rng.randrange(1, len(rows) - 1)
    del rows[row]
    return f"row {row} is missing"


def _row_twice(rows: list[list[str]], rng: Random) -> str:
    row = rng.randrange(1, len(rows))
    rows.insert(row, rows[row])
    return f"row {row} is there twice"


def _rows_swapped(rows: list[list[str]], rng: Random) -> str:
    one, other = rng.sample(range(1, len(rows)), 2)
    rows[one], rows[other] = rows[other], rows[one]
    return f"rows {one} and {other} are swapped"


def _cell(*values: str) -> Callable[[list[list[str]], Random], str]:
    def act(rows: list[list[str]], rng: Random) -> str:
        column = rng.choice(("iteration", "env_steps", "seconds", "episode_return"))
        row = rng.randrange(1, len(rows))
        place = rows[0].index(column)
        value = rng.choice(values)
        rows[row][place] = value
        return f"{column} of row {row} is {value!r}"

    return act


def _column_renamed(rows: list[list[str]], rng: Random) -> str:
    column = rng.choice(("iteration", "iteration", "env_steps", "seconds"))
    rows[0][rows[0].index(column)] = "itdration"
    return f"column {column} is called itdration"


def _header_alone(rows: list[list[str]], rng: Random) -> str:
    del rows[1:]
    return "no rows"


def _half_a_line(content: bytearray, rng: Random) -> str:
    del content[-rng.randrange(3, 40) :]
    return "the last line is cut"


DICTIONARY: dict[str, Damage] = {
    "odd value": _json(_odd_value), "key missing": _json(_without_key), "key renamed": _json(_renamed_key),
    "not a dictionary": _not_a_dictionary, "deeply nested": _nested,
}  # fmt: skip
EVALUATION: dict[str, Damage] = {**DICTIONARY, "iteration alone": _short_evaluation}
TABLE: dict[str, Damage] = {
    "row missing": _csv(_without_row), "row twice": _csv(_row_twice), "rows swapped": _csv(_rows_swapped),
    "cell empty": _csv(_cell("")), "cell no number": _csv(_cell("many", "1e", "--")),
    "cell infinite or NaN": _csv(_cell("inf", "-inf", "nan", "1e999")), "column renamed": _csv(_column_renamed),
    "header alone": _csv(_header_alone), "half a line": rewrite(_half_a_line),
}  # fmt: skip
