"""Errors for functions of numpy, torch and math that are applied to traced values, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ahac.core.errors import TraceError

__all__ = ["FUNCTIONS", "Traced", "refuse_arrays"]

FUNCTIONS = (
    "abs_", "atan2", "clip", "cos", "exp", "log", "maximum", "minimum", "norm", "sin", "sqrt", "stop_gradient", "tanh",
    "where",
)  # fmt: skip
"""Functions of `ahac.sim` on traced scalars."""

COUNTERPARTS = {
    **{name: f"ahac.sim.{name}" for name in FUNCTIONS},
    **dict.fromkeys(("abs", "absolute", "fabs"), "ahac.sim.abs_"),
    **dict.fromkeys(("amax", "fmax", "max"), "ahac.sim.maximum"),
    **dict.fromkeys(("amin", "fmin", "min"), "ahac.sim.minimum"),
    **dict.fromkeys(("concatenate", "full", "hstack", "stack", "vstack"), "a list or ahac.sim.Vec3"),
    **dict.fromkeys(("dot", "inner", "vdot"), "sum(a * b for a, b in zip(x, y))"),
    **dict.fromkeys(("pow", "power", "float_power"), "x ** n with an integer n, or exp(n * log(x)) with ahac.sim"),
    **dict.fromkeys(("add", "divide", "multiply", "subtract", "true_divide"), "the operator +, -, * or /"),
    "arctan2": "ahac.sim.atan2",
    "arctan": "ahac.sim.atan2(x, 1.0)",
    "atan": "ahac.sim.atan2(x, 1.0)",
    "clamp": "ahac.sim.clip",
    "cross": "a.cross(b) of ahac.sim.Vec3",
    "expm1": "ahac.sim.exp(x) - 1.0",
    "hypot": "ahac.sim.sqrt(x * x + y * y)",
    "log1p": "ahac.sim.log(1.0 + x)",
    "mean": "sum(x) / len(x)",
    "negative": "-x",
    "reciprocal": "1.0 / x",
    "relu": "ahac.sim.maximum(x, 0.0)",
    "sigmoid": "0.5 + 0.5 * ahac.sim.tanh(0.5 * x)",
    "sign": "ahac.sim.where(x < 0.0, -1.0, 1.0)",
    "square": "x * x",
    "sum": "Python's sum",
    "tan": "ahac.sim.sin(x) / ahac.sim.cos(x)",
}
"""What to write instead of a function of numpy or torch, by the function's name."""

CONVERSION = f"take functions from ahac.sim instead of math: {', '.join(FUNCTIONS)}"
"""Advice for conversions to numbers, which do not know who asked for them."""

REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}
"""Operator that evaluates `number OP traced`, by the name of numpy's function for OP."""


class Traced:
    """Base of traced values: what numpy, torch and Python's conversions call raises an error with advice."""

    __slots__ = ()

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:  # noqa: ANN401
        """Let `numpy.float64(2.0) * x` use our operators; refuse all other functions."""
        name = function.__name__
        if method == "__call__" and name in REFLECTED and not settings:
            left = inputs[0][()] if isinstance(inputs[0], np.ndarray) else inputs[0]  # numpy compares arrays of size 1
            refuse_arrays(left)
            operator = getattr(inputs[1], REFLECTED[name], None)
            if operator is not None and isinstance(left, np.generic):
                return operator(left)
        _refuse(f"numpy.{name}")

    def __array_function__(self, function: Callable[..., Any], *_: object) -> NoReturn:
        """Refuse a function of numpy."""
        _refuse(f"numpy.{function.__name__}")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to become an element of an array, also of one that a function of numpy makes of a list."""
        _refuse("a numpy array", "use a list or ahac.sim.Vec3 as it is, and functions of ahac.sim on its entries")

    @classmethod
    def __torch_function__(cls, function: Callable[..., Any], *_: object) -> NoReturn:
        """Refuse a function of torch."""
        _refuse(f"torch.{getattr(function, '__name__', 'Tensor')}")

    def __float__(self) -> NoReturn:
        """Refuse `float(x)` and functions of math, which call it."""
        _refuse("float() or a function of math", CONVERSION)

    def __int__(self) -> NoReturn:
        """Refuse `int(x)`."""
        _refuse("int()", CONVERSION)

    def __index__(self) -> NoReturn:
        """Refuse a traced value as an index or as a number of repetitions."""
        _refuse("an index or range()", CONVERSION)

    def __round__(self, digits: int | None = None) -> NoReturn:
        """Refuse `round(x)`."""
        _refuse("round()", CONVERSION)

    def __trunc__(self) -> NoReturn:
        """Refuse `math.trunc(x)`."""
        _refuse("math.trunc", CONVERSION)


def refuse_arrays(value: object) -> None:
    """Raise an error if an operand of a traced scalar is an array or a tensor."""
    if type(value) is float or type(value) is int or isinstance(value, np.generic) or not hasattr(value, "shape"):
        return
    raise TraceError(
        f"a traced scalar is one number of one world and cannot be combined with an array, got {type(value).__name__} "
        f"of shape {list(getattr(value, 'shape', ()))}; loop over its entries: [x * float(entry) for entry in array]"
    )


def _refuse(name: str, advice: str | None = None) -> NoReturn:
    if advice is None:
        counterpart = COUNTERPARTS.get(name.rpartition(".")[2])
        advice = f"use {counterpart}" if counterpart else f"ahac.sim has: {', '.join(FUNCTIONS)}"
    raise TraceError(
        f"{name} needs the value of a traced scalar, which has none yet because one trace serves every world; {advice}"
    )
