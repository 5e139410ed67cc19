"""Options from dataclasses, the parser's errors, and tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from ahac.cli.options import add_settings, read_settings
from ahac.cli.parser import Parser, run_command
from ahac.core.errors import InputError
from ahac.core.table import table_lines


@dataclass(frozen=True, kw_only=True)
class Inner:
    """Inner settings."""

    rate: float = 0.5
    """Rate, at most 100 %."""
    widths: tuple[int, ...] | None = (3, 4)
    """Widths."""


@dataclass(frozen=True, kw_only=True)
class Outer:
    """Outer settings."""

    num_worlds: int = 2
    """Number of worlds,
    over two lines."""
    mode: Literal["slow", "fast"] = "slow"
    """Mode."""
    folder: Path | None = None
    """Folder."""
    exact: bool = False
    """Exact."""
    inner: Inner = field(default_factory=Inner)
    """Inner."""
    other: Inner | None = None
    """Not set, so without options."""


def parse(*words: str) -> Outer:
    parser = Parser("ahac test", "[options]", "About.")
    add_settings(parser, Outer())
    return read_settings(Outer(), parser.parse(words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Outer()),
        (["--num-worlds", "5"], Outer(num_worlds=5)),
        (["--num_worlds=5"], Outer(num_worlds=5)),
        (["--num-worlds", "1e6"], Outer(num_worlds=10**6)),
        (["--num-worlds", "2_000"], Outer(num_worlds=2000)),
        (["--num-worlds", "-1.5e1"], Outer(num_worlds=-15)),
        (["--inner.widths", "1e2", "3.0"], Outer(inner=Inner(widths=(100, 3)))),
        (["--mode", "fast", "--exact"], Outer(mode="fast", exact=True)),
        (["--exact", "--no-exact"], Outer()),
        (["--folder", "a_b"], Outer(folder=Path("a_b"))),
        (["--folder", "a", "--folder", "None"], Outer()),
        (["--inner.rate", "-1e-3"], Outer(inner=Inner(rate=-1e-3))),
        (["--inner.widths", "7"], Outer(inner=Inner(widths=(7,)))),
        (["--inner.widths"], Outer(inner=Inner(widths=()))),
        (["--inner.widths", "None"], Outer(inner=Inner(widths=None))),
    ],
)
def test_options_set_fields(words: list[str], expected: Outer) -> None:
    assert parse(*words) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-worlds", "x"], "--num-worlds: expected a whole number, got 'x'"),
        (["--num-worlds", "1.5"], "--num-worlds: expected a whole number, got '1.5'"),
        (["--num-worlds", "1e-3"], "--num-worlds: expected a whole number, got '1e-3'"),
        (["--num-worlds", "inf"], "--num-worlds: expected a whole number, got 'inf'"),
        (["--num-worlds", "1e18"], "--num-worlds: expected a whole number, got '1e18'"),
        (["--num-worlds", "1e999999999"], "--num-worlds: expected a whole number, got '1e999999999'"),
        (["--inner.rate", "x"], "--inner.rate: expected a number, got 'x'"),
        (["--mode", "x"], "--mode: expected one of slow, fast, got 'x'"),
        (["--num-worlds"], "--num-worlds: expected one argument"),
        (["--num-world", "3"], "unknown option --num-world (did you mean --num-worlds?)"),
        (["--other.rate", "3"], "unknown option --other.rate (did you mean --inner.rate?)"),
        (["--zzz=3"], "unknown option --zzz"),
        (["more"], "unexpected argument 'more'"),
    ],
)
def test_wrong_input_is_one_line_that_points_to_the_help(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        parse(*words)
    assert str(error.value) == f"{message}; run `ahac test --help` for details"


def test_help_shows_docstrings_and_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        parse("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("usage: ahac test [options] About.")
    assert "--num-worlds INT number of worlds, over two lines (default: 2)" in text
    assert "--folder PATH|None folder (default: None)" in text
    assert "--exact, --no-exact exact (default: False)" in text
    assert "inner.* settings: Inner settings. --inner.rate FLOAT rate, at most 100 % (default: 0.5)" in text
    assert "--inner.widths [INT|None ...] widths (default: 3 4)" in text


def test_commands_are_chosen_by_the_first_word(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {"one": ("do one thing", lambda words: len(words)), "two": ("do another", lambda words: 0)}
    assert run_command("ahac", "About.", commands, ["one", "a", "--b"]) == 2
    with pytest.raises(
        InputError, match=r"unknown command 'on' \(did you mean one\?\); known: one, two; run `ahac --h"
    ):
        run_command("ahac", "About.", commands, ["on"])
    with pytest.raises(SystemExit):
        run_command("ahac", "About.", commands, [])
    assert "\ncommands:\n  one  do one thing\n  two  do another\n" in capsys.readouterr().out


def test_tables_align_numbers_right_and_names_left() -> None:
    rows = [("a", "1", "text"), ("long", "1,000", "")]
    assert table_lines(("name", "n", "x"), rows, left=(0, 2)) == ["name      n  x", "a         1  text", "long  1,000"]
    assert table_lines(("name", "n"), []) == ["name  n"]


def test_short_help_shows_basic_options(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser("ahac test", "FILE [options]", "About.", basic=("--num-worlds",))
    parser.add_argument("file", metavar="FILE", help="a file")
    add_settings(parser, Outer())
    with pytest.raises(SystemExit):
        parser.parse(["--help"])
    assert capsys.readouterr().out.splitlines() == [
        "usage: ahac test FILE [options]",
        "",
        "About.",
        "",
        "positional arguments:",
        "  FILE              a file",
        "",
        "options:",
        "  -h, --help        show this help and exit",
        "  --num-worlds INT  number of worlds, over two lines (default: 2)",
        "",
        "`ahac test --help-all` lists all 6 options",
    ]
    with pytest.raises(SystemExit):
        parser.parse(["--help-all"])
    assert "--inner.rate" in capsys.readouterr().out
