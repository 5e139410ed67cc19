"""Settings as frozen dataclasses: to plain dictionaries and back."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ahac.core.errors import InputError

__all__ = ["flatten", "from_dict", "to_dict"]

Settings = TypeVar("Settings")


def to_dict(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Plain numbers, texts, lists and dictionaries, ready for JSON."""
    return asdict(settings)


def from_dict(kind: type[Settings], data: Mapping[str, Any]) -> Settings:
    """The settings that `to_dict` made a dictionary of; missing ones take their defaults, unknown ones are refused."""
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - it comes out of a file
        raise InputError(f"{kind.__name__} must be a dictionary of settings, got {data!r}")
    hints = get_type_hints(kind)
    known = {item.name for item in fields(kind)}  # pyright: ignore[reportArgumentType]
    if unknown := sorted(str(name) for name in data.keys() - known):
        raise InputError(
            f"{kind.__name__} has no setting {', '.join(unknown)}; its settings are {', '.join(sorted(known))}"
        )
    return kind(**{name: _restored(hints[name], value, f"{kind.__name__}.{name}") for name, value in data.items()})


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their full names, "algorithm.actor.hidden"; tuples as lists, as JSON has them."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[prefix + name] = list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]
    return found


def _restored(hint: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - any setting
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _restored(_closest_union_member([a for a in arguments if a is not type(None)], value), value, name)
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a dictionary of settings, got {value!r}")
        return from_dict(hint, value)  # pyright: ignore[reportUnknownArgumentType]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list, got {value!r}")
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return tuple(_restored(arguments[0], item, name) for item in items)
    if origin is Literal:
        if value not in arguments:
            raise InputError(f"{name} must be one of {', '.join(map(str, arguments))}, got {value!r}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise InputError(f"{name} must be a {hint.__name__}, got {value!r}")
    return value


def _closest_union_member(kinds: list[Any], value: Any) -> Any:  # noqa: ANN401 - any setting
    """Of several kinds of settings, the one whose names a dictionary has most of; the first of those as near."""
    if len(kinds) == 1 or not isinstance(value, Mapping):
        return kinds[0]
    names = {str(name) for name in value}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return min(kinds, key=lambda kind: len(names ^ {item.name for item in fields(kind)}))
