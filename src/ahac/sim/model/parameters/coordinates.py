"""Parameters as tensors: default values, checks, and free coordinates for optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahac.core.checks import check_int, describe_type, is_dense
from ahac.core.errors import InputError
from ahac.sim.model.parameters.domains import Domain, Shape

__all__ = ["Column", "check_values", "constrain", "default_values", "unconstrain"]

FLOOR = 1e-9
"""Smallest distance from a bound that a free coordinate represents, in units of the parameter."""


@dataclass(frozen=True)
class Column:
    """One number of a parameter."""

    label: str
    default: float
    unit: str
    domain: Domain
    part: int
    """Position in its parameter."""


def default_values(
    columns: Sequence[Column], num_worlds: int, device: torch.device | str, dtype: torch.dtype
) -> Tensor:
    """Return the default values [N, P]."""
    check_int("num_worlds", num_worlds, 1)
    row = torch.tensor([column.default for column in columns], dtype=torch.float64)
    return row.to(device=device, dtype=dtype).repeat(num_worlds, 1)


def check_values(columns: Sequence[Column], values: Tensor) -> None:
    """Raise InputError if values [N, P] or [P] are not physical."""
    _check_shape(columns, values)
    table = values.detach().reshape(-1, len(columns))
    bad = ~torch.isfinite(table)
    lower, upper = (_row([getattr(c.domain, bound) for c in columns], table) for bound in ("lower", "upper"))
    strict = torch.tensor([c.domain.strict for c in columns], device=table.device)
    bad |= (table < lower) | (table > upper) | (strict & (table <= lower))
    _refuse(columns, table, bad, "{range}")
    for start in _starts(columns, Shape.MOMENTS):
        moments = table[:, start : start + 3]
        unbalanced = 2.0 * moments > moments.sum(1, keepdim=True) * (1.0 + _rounding(table))
        _refuse(columns, table, _spread(unbalanced, start, table), "at most the sum of the other two moments")
    for start in _starts(columns, Shape.INTERVAL):
        crossed = table[:, start : start + 1] >= table[:, start + 1 : start + 2]
        _refuse(columns, table, _spread(crossed, start, table), "below the upper limit")


def constrain(columns: Sequence[Column], free: Tensor) -> Tensor:
    """Map free coordinates [..., P] to physical values."""
    _check_shape(columns, free)
    return _map(columns, free, _to_physical)


def unconstrain(columns: Sequence[Column], values: Tensor) -> Tensor:
    """Map physical values [..., P] to free coordinates; values on a bound are moved inside by a tiny distance."""
    check_values(columns, values.reshape(-1, len(columns)) if is_dense(values) else values)
    return _map(columns, values, _to_free)


def _map(columns: Sequence[Column], table: Tensor, convert: Callable[[Domain, Tensor], Tensor]) -> Tensor:
    """Convert every parameter whose numbers depend on each other, and all others by domain."""
    blocks: dict[tuple[Domain, int], list[int]] = {}
    for i, column in enumerate(columns):
        joined = column.domain.shape is not Shape.EACH
        blocks.setdefault((column.domain, i - column.part if joined else -1), []).append(i)
    order = [i for block in blocks.values() for i in block]
    parts = [convert(domain, table[..., block]) for (domain, _), block in blocks.items()]
    inverse = torch.tensor(order, device=table.device).argsort()
    return torch.cat(parts, -1)[..., inverse]


def _to_physical(domain: Domain, z: Tensor) -> Tensor:
    if domain.shape is Shape.MOMENTS:
        second = z.exp()
        return second.sum(-1, keepdim=True) - second
    if domain.shape is Shape.INTERVAL:
        return torch.cat([z[..., :1], z[..., :1] + z[..., 1:].exp()], -1)
    if domain.upper < torch.inf:
        return domain.lower + (domain.upper - domain.lower) * z.sigmoid()
    return z if domain.lower == -torch.inf else domain.lower + z.exp()


def _to_free(domain: Domain, values: Tensor) -> Tensor:
    if domain.shape is Shape.MOMENTS:
        # Second moments of the mass distribution along the principal axes.
        second = 0.5 * values.sum(-1, keepdim=True) - values
        return second.clamp(min=FLOOR * FLOOR).log()
    if domain.shape is Shape.INTERVAL:
        return torch.cat([values[..., :1], (values[..., 1:] - values[..., :1]).log()], -1)
    if domain.upper < torch.inf:
        share = (values - domain.lower) / (domain.upper - domain.lower)
        return share.clamp(FLOOR, 1.0 - torch.finfo(values.dtype).eps).logit()
    return values if domain.lower == -torch.inf else (values - domain.lower).clamp(min=FLOOR).log()


def _check_shape(columns: Sequence[Column], values: object) -> None:
    if not is_dense(values):
        raise InputError(f"parameter values must be a tensor, got {describe_type(values)}")
    if not values.is_floating_point() or values.dim() == 0 or values.shape[-1] != len(columns):
        raise InputError(
            f"parameter values must be a floating-point tensor [N, {len(columns)}], got {values.dtype} "
            f"{list(values.shape)}; begin with parameters.defaults(num_worlds)"
        )


def _refuse(columns: Sequence[Column], table: Tensor, bad: Tensor, rule: str) -> None:
    if not bool(bad.any()):
        return
    world, k = (int(i) for i in bad.nonzero()[0])
    column = columns[k]
    unit = f" {column.unit}" if column.unit else ""
    expected = rule.format(range=column.domain.describe())
    others = f" (and {int(bad.sum()) - 1} more)" if int(bad.sum()) > 1 else ""
    raise InputError(
        f"parameter {column.label!r} must be {expected}, got {float(table[world, k]):.6g}{unit} in world {world}"
        f"{others}; clamp the values, or optimize free coordinates z with parameters.constrain(z)"
    )


def _row(numbers: Sequence[float], like: Tensor) -> Tensor:
    """Return numbers as a tensor of the same type, so that a bound in float32 allows itself."""
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)


def _starts(columns: Sequence[Column], shape: Shape) -> list[int]:
    return [i for i, column in enumerate(columns) if column.domain.shape is shape and column.part == 0]


def _spread(bad: Tensor, start: int, table: Tensor) -> Tensor:
    """Return flags of some columns as flags of all."""
    out = torch.zeros_like(table, dtype=torch.bool)
    out[:, start : start + bad.shape[1]] = bad
    return out


def _rounding(table: Tensor) -> float:
    return 8.0 * torch.finfo(table.dtype).eps
