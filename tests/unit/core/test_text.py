"""External text: which characters are escaped and which are not; suggestions for misspelled names."""

import pytest

from ahac.core.text import csv_cell, printable, suggestion


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ant-ahac-s0", "ant-ahac-s0"),
        ("Übung 1 日本", "Übung 1 日本"),
        ("a b", "a b"),
        (r"a\x1b", r"a\x1b"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\tb\r\n", r"a\tb\r\n"),
        ("\0", r"\x00"),
        ("\x9b", r"\x9b"),
        ("a\u202eb", r"a\u202eb"),
        ("\ufeffa", r"\ufeffa"),
        ("a\xa0b", r"a\xa0b"),
        ("\udcff", r"\udcff"),
        ("", ""),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).isprintable()
    printable(text).encode()


def test_some_characters_can_be_kept() -> None:
    assert printable("a\n\x1bb\n", keep="\n") == "a\n\\x1bb\n"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-x", "'-x"),
        ("+x", "'+x"),
        (" =x", "' =x"),
        ("a=b", "a=b"),
        ("", ""),
        ("-1.5", "-1.5"),
        ("+1e5", "+1e5"),
        ("-inf", "-inf"),
        ("nan", "nan"),
        ("\t=x", r"\t=x"),
        ("=\x1b", r"'=\x1b"),
        (-1.5, -1.5),
        (-3, -3),
        (None, None),
    ],
)
def test_text_in_a_table_is_not_a_formula_and_numbers_stay_numbers(value: object, cell: object) -> None:
    assert csv_cell(value) == cell


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hoper", " (did you mean hopper?)"),
        ("HOPPER", " (did you mean hopper?)"),
        ("halfcheetah", " (did you mean half_cheetah?)"),
        ("ball", " (did you mean BALL?)"),
        ("zzz", ""),
        ("hopper", ""),
    ],
)
def test_the_closest_name_is_suggested(name: str, expected: str) -> None:
    assert suggestion(name, ["hopper", "half_cheetah", "BALL"]) == expected
