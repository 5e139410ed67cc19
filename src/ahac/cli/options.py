"""Command-line options from settings dataclasses: one option per field, with the field's docstring as help."""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ahac.cli.parser import Parser, number, one_of, whole_number

__all__ = ["add_settings", "add_settings_from_source", "read_settings"]

Settings = TypeVar("Settings")

PARSERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("INT", whole_number), float: ("FLOAT", number), str: ("STR", str), Path: ("PATH", Path),
}  # fmt: skip
"""Placeholder in help and parser of a value, by the type of the field."""
ANNOTATIONS = {"int": int, "float": float, "str": str, "bool": bool, "int | None": int | None}
"""Types of the fields that `add_settings_from_source` reads, by their annotation."""
PROPER_NAMES = frozenset({"Polyak"})
"""First words of docstrings that keep their capital in help."""


class _Switch(argparse.Action):
    """Stores True for the first of its option names and False for the second."""

    def __call__(self, _: object, namespace: argparse.Namespace, __: object, option: str | None = None) -> None:
        setattr(namespace, self.dest, option == self.option_strings[0])


def add_settings(parser: Parser, defaults: Any, prefix: str = "") -> None:  # noqa: ANN401 - any dataclass
    """Add an option for every field of a dataclass, `--field`, and of dataclasses inside it, `--outer.field`.

    Fields with the metadata `{"option": False}` have none.

    Args:
        parser: The parser to extend.
        defaults: The dataclass, with the values to show as defaults.
        prefix: What precedes the names of fields, "outer.".
    """
    hints, docs = get_type_hints(type(defaults)), _field_docs(type(defaults))
    options = [item.name for item in fields(defaults) if item.metadata.get("option", True)]
    values = {name: getattr(defaults, name) for name in options}
    group = parser.add_argument_group(f"{prefix}* settings", docs[""]) if prefix else parser
    for name, value in values.items():
        if not (is_dataclass(value) or _is_nested(hints[name])):
            _add_option(group, prefix + name, hints[name], docs.get(name, name), _shown(value))
    for name, value in values.items():
        if is_dataclass(value):
            add_settings(parser, value, f"{prefix}{name}.")


def add_settings_from_source(parser: Parser, module: str, kind: str, defaults: Mapping[str, str]) -> None:
    """Add an option for every field with a constant default, without importing the module, which may take seconds.

    Args:
        parser: The parser to extend.
        module: Name of the module.
        kind: Name of the dataclass.
        defaults: Text shown as the default of some fields, in place of the one in the source.
    """
    spec = find_spec(module)  # imports the parent packages only
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    (definition,) = (node for node in body if isinstance(node, ast.ClassDef) and node.name == kind)
    docs = _docs_below_fields(definition)
    for field in definition.body:
        match field:
            case ast.AnnAssign(target=ast.Name(name), annotation=hint, value=ast.Constant(value)):
                _add_option(parser, name, ANNOTATIONS[ast.unparse(hint)], docs[name], defaults.get(name, _shown(value)))


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


def _add_option(group: argparse._ActionsContainer, name: str, hint: Any, text: str, default: str) -> None:  # noqa: ANN401 - any annotation
    """Add the option of a field, with its docstring in the style of other help texts: a phrase, not a sentence."""
    first = text.partition(" ")[0]
    if first[1:].islower() and first not in PROPER_NAMES:
        text = text[0].lower() + text[1:]
    if not text.endswith("..."):
        text = text.removesuffix(".")
    outer, dot, field = name.rpartition(".")
    group.add_argument(
        *_option_names(outer + dot, field, with_negative=hint is bool),
        dest=name,
        default=argparse.SUPPRESS,
        help=f"{text} (default: {default})".replace("%", "%%"),
        **_argument(hint),
    )


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
        try:
            source = inspect.getsource(base)
        except OSError:  # a class that was typed at a prompt
            continue
        (definition,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(definition, ast.ClassDef)
        docs |= _docs_below_fields(definition)
    return docs


def _docs_below_fields(definition: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                docs[name] = " ".join(text.split())
    return docs
