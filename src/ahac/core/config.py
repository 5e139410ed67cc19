"""Conversion of settings between frozen dataclasses and plain dictionaries."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ahac.core.errors import InputError

__all__ = ["as_restored", "flatten", "from_dict", "to_dict"]

Settings = TypeVar("Settings")


def to_dict(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Convert settings to nested dictionaries that can be saved as JSON."""
    return asdict(settings)


def from_dict(kind: type[Settings], data: Mapping[str, Any]) -> Settings:
    """Restore settings from the dictionary that `to_dict` returned.

    Missing settings take their defaults. A field whose dataclass depends on other settings has a function "kind" in its
    metadata, which takes the dictionary and returns that dataclass.

    Raises:
        InputError: If a setting is unknown or has the wrong type.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - read from a file
        raise InputError(f"{kind.__name__} must be a dictionary of settings, got {data!r}")
    items = fields(kind)  # pyright: ignore[reportArgumentType]
    names = {item.name for item in items}
    if unknown := sorted(str(name) for name in data.keys() - names):
        raise InputError(
            f"{kind.__name__} has no setting {', '.join(unknown)}; its settings are {', '.join(sorted(names))}"
        )
    hints = get_type_hints(kind)
    hints |= {item.name: item.metadata["kind"](data) for item in items if item.name in data and "kind" in item.metadata}
    return kind(**{name: _restore(hints[name], value, f"{kind.__name__}.{name}") for name, value in data.items()})


def as_restored(settings: Settings) -> Settings:
    """Return settings as `from_dict` will restore them from a file; raise an InputError if one has the wrong type."""
    return from_dict(type(settings), to_dict(settings))


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their full names, e.g. "algorithm.actor.hidden"; tuples become lists, as in JSON."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            flat[prefix + name] = list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]
    return flat


def _restore(hint: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - any setting
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _restore(_closest_union_member([a for a in arguments if a is not type(None)], value), value, name)
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a dictionary of settings, got {value!r}")
        return from_dict(hint, value)  # pyright: ignore[reportUnknownArgumentType]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list, got {value!r}")
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return tuple(_restore(arguments[0], item, name) for item in items)
    if origin is Literal:
        if value not in arguments:
            raise InputError(f"{name} must be one of {', '.join(map(str, arguments))}, got {value!r}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise InputError(f"{name} must be of type {hint.__name__}, got {value!r}")
    return value


def _closest_union_member(kinds: list[Any], value: Any) -> Any:  # noqa: ANN401 - any setting
    """Return the dataclass whose field names differ least from the keys of `value`; the first of equals."""
    if len(kinds) == 1 or not isinstance(value, Mapping):
        return kinds[0]
    names = {str(name) for name in value}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return min(kinds, key=lambda kind: len(names ^ {item.name for item in fields(kind)}))
