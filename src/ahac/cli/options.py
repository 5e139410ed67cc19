"""Command-line options from settings dataclasses: one option per field, with the field's docstring as help."""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ahac.cli.parser import Parser, number, one_of, whole_number

__all__ = ["add_settings", "read_settings"]

Settings = TypeVar("Settings")

PARSERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("INT", whole_number), float: ("FLOAT", number), str: ("STR", str), Path: ("PATH", Path),
}  # fmt: skip
"""Placeholder in help and parser of a value, by the type of the field."""


class _Switch(argparse.Action):
    """Stores True for the first of its option names and False for the second."""

    def __call__(self, _: object, namespace: argparse.Namespace, __: object, option: str | None = None) -> None:
        setattr(namespace, self.dest, option == self.option_strings[0])


def add_settings(parser: Parser, defaults: Any, prefix: str = "", skip: tuple[str, ...] = ()) -> None:  # noqa: ANN401 - any dataclass
    """Add an option for every field of a dataclass, `--field`, and of dataclasses inside it, `--outer.field`.

    Args:
        parser: The parser to extend.
        defaults: The dataclass, with the values to show as defaults.
        prefix: What precedes the names of fields, "outer.".
        skip: Fields that are not options.
    """
    hints, docs = get_type_hints(type(defaults)), _field_docs(type(defaults))
    values = {item.name: getattr(defaults, item.name) for item in fields(defaults) if item.name not in skip}
    group = parser.add_argument_group(f"{prefix}* settings", docs[""]) if prefix else parser
    for name, value in values.items():
        if not _is_nested(hints[name]):
            text = f"{docs[name]} (default: {_shown(value)})".replace("%", "%%")
            names = _option_names(prefix, name, with_negative=hints[name] is bool)
            group.add_argument(
                *names, dest=prefix + name, default=argparse.SUPPRESS, help=text, **_argument(hints[name])
            )
    for name, value in values.items():
        if is_dataclass(value):
            add_settings(parser, value, f"{prefix}{name}.")


def read_settings(defaults: Settings, options: argparse.Namespace, prefix: str = "") -> Settings:
    """Return the dataclass with the values of the options that were given."""
    changes: dict[str, Any] = {}
    for item in fields(defaults):  # pyright: ignore[reportArgumentType] - a dataclass
        value = getattr(defaults, item.name)
        if is_dataclass(value):
            changes[item.name] = read_settings(value, options, f"{prefix}{item.name}.")
        elif hasattr(options, prefix + item.name):
            given = getattr(options, prefix + item.name)
            if isinstance(given, list):
                given = None if given == [None] else tuple(given)
            changes[item.name] = given
    return replace(defaults, **changes)  # pyright: ignore[reportArgumentType] - a dataclass


def _is_nested(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return whether a field holds a dataclass, one of several, or an optional one."""
    return is_dataclass(hint) or any(map(is_dataclass, get_args(hint)))


def _argument(hint: Any) -> dict[str, Any]:  # noqa: ANN401 - any annotation
    """Return the arguments of `add_argument` for a field."""
    if hint is bool:
        return {"action": _Switch, "nargs": 0}
    if get_origin(hint) is tuple:
        return {**_argument(get_args(hint)[0]), "nargs": "*"}
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return {"type": one_of(*choices), "metavar": f"{{{','.join(choices)}}}"}
    if get_origin(hint) in (Union, types.UnionType):
        (kind,) = (kind for kind in get_args(hint) if kind is not type(None))
        argument = _argument(kind)
        return {**argument, "type": _or_none(argument["type"]), "metavar": f"{argument['metavar']}|None"}
    metavar, parse = PARSERS[hint]
    return {"type": parse, "metavar": metavar}


def _or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text in ("None", "none") else parse(text)


def _option_names(prefix: str, name: str, with_negative: bool) -> list[str]:
    kinds = ("", "no-") if with_negative else ("",)
    return [f"--{prefix}{kind}{name}".replace("_", "-") for kind in kinds]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value) or "''"


def _field_docs(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, and the class's own under the empty name."""
    docs = {"": inspect.cleandoc(kind.__doc__ or "")}
    for base in reversed(kind.__mro__):
        if not is_dataclass(base):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    docs[name] = " ".join(text.split())
    return docs
