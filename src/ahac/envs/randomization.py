"""Domain randomization: constants of the model that differ between worlds and are drawn anew for each episode.

    randomize={"body_mass:trunk": uniform(-1.0, 3.0, "add"), "geom_friction:*": uniform(0.4, 1.2)}

Keys are patterns of `Model.parameters`. Every distribution has bounds: a normal one ends at three standard deviations.
So a task can check at its creation that all values are physical.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

import torch

from ahac.core.checks import check_finite
from ahac.core.errors import InputError, TraceError
from ahac.envs.draws import Draw
from ahac.sim import Model, Real, Scalar, clip, exp, log

if TYPE_CHECKING:
    from ahac.sim.model.parameters.selection import Parameters

__all__ = ["Distribution", "Operation", "Randomization", "RandomizedValues", "log_uniform", "normal", "uniform"]

Operation = Literal["set", "add", "scale"]
"""What a drawn number does: replace the model's value, be added to it, or multiply it."""

NORMAL_BOUND = 3.0
"""Where normal distributions end, in standard deviations."""
DELAY = "actuator_delay"


@dataclass(frozen=True)
class Distribution:
    """Distribution of a parameter; create it with `uniform`, `log_uniform` or `normal`."""

    kind: Literal["uniform", "log_uniform", "normal"]
    low: tuple[float, ...]
    """Lower bound of each component; one number for all components alike."""
    high: tuple[float, ...]
    """Upper bound of each component."""
    operation: Operation = "set"
    shared: bool = False
    """Whether all parameters that match a pattern get the same number."""

    def __post_init__(self) -> None:
        if self.operation not in get_args(Operation):
            raise InputError(f"operation must be 'set', 'add' or 'scale', got {self.operation!r}")
        for low, high in zip(self.low, self.high, strict=True):
            if low > high:
                raise InputError(f"the lower bound must not exceed the upper one, got {low} and {high}")
            if self.kind == "log_uniform" and low <= 0.0:
                raise InputError(f"log_uniform needs bounds above zero, got {low}")

    def __str__(self) -> str:
        numbers = (self.low, self.high)
        if self.kind == "normal":
            middles = tuple(0.5 * (a + b) for a, b in zip(self.low, self.high, strict=True))
            numbers = (middles, tuple(self._std(i) for i in range(len(middles))))
        shown = (f"{x[0]:g}" if len(x) == 1 else f"({', '.join(f'{y:g}' for y in x)})" for x in numbers)
        return f"{self.kind}({', '.join(shown)})"

    def draw(self, component: int, draw: Draw) -> Real:
        """Draw a number for a component."""
        low, high = self.bounds(component)
        if low == high:
            return low
        if self.kind == "uniform":
            return draw.uniform(low, high)
        if self.kind == "log_uniform":
            return exp(draw.uniform(math.log(low), math.log(high)))
        return clip(draw.normal(0.5 * (low + high), self._std(component)), low, high)

    def apply(self, number: Real, default: float) -> Real:
        """Return the value of a parameter for a drawn number."""
        if self.operation == "set":
            return number
        return default + number if self.operation == "add" else default * number

    def bounds(self, component: int) -> tuple[float, float]:
        """Return the bounds of a component."""
        i = component if len(self.low) > 1 else 0
        return self.low[i], self.high[i]

    def normalize(self, value: Real, component: int, default: float) -> Real:
        """Map a value to about unit range: [-1, 1], or unit variance for a normal distribution."""
        ends = [self.apply(x, default) for x in self.bounds(component)]
        if self.kind == "log_uniform" and self.operation != "add" and min(map(abs, _floats(ends))) > 0.0:
            sign = math.copysign(1.0, _floats(ends)[0])
            value, ends = log(value * sign), [math.log(x * sign) for x in _floats(ends)]
        a, b = _floats(ends)
        half = 0.5 * (b - a) / (NORMAL_BOUND if self.kind == "normal" else 1.0)
        return (value - 0.5 * (a + b)) / half if half else 0.0

    def _std(self, component: int) -> float:
        low, high = self.bounds(component)
        return 0.5 * (high - low) / NORMAL_BOUND


def uniform(
    low: float | Sequence[float], high: float | Sequence[float], operation: Operation = "set", *, shared: bool = False
) -> Distribution:
    """Draw uniformly between two bounds.

    Args:
        low: Lower bound, or one for each component of the parameter.
        high: Upper bound, or one for each component.
        operation: "set" replaces the model's value, "add" adds to it, "scale" multiplies it.
        shared: Whether all parameters that match the pattern get the same number.
    """
    return Distribution("uniform", *_pair("uniform", low, high), operation, shared)


def log_uniform(
    low: float | Sequence[float], high: float | Sequence[float], operation: Operation = "set", *, shared: bool = False
) -> Distribution:
    """Draw a number whose logarithm is uniform between those of two positive bounds; arguments as in `uniform`."""
    return Distribution("log_uniform", *_pair("log_uniform", low, high), operation, shared)


def normal(
    mean: float | Sequence[float], std: float | Sequence[float], operation: Operation = "set", *, shared: bool = False
) -> Distribution:
    """Draw from a normal distribution, clipped at three standard deviations.

    Args:
        mean: Mean, or one for each component of the parameter.
        std: Standard deviation, or one for each component.
        operation: "set" replaces the model's value, "add" adds to it, "scale" multiplies it.
        shared: Whether all parameters that match the pattern get the same number.
    """
    means, stds = _pair("normal", mean, std)
    if min(stds) < 0.0:
        raise InputError(f"a standard deviation must not be negative, got {min(stds)}")
    low = tuple(m - NORMAL_BOUND * s for m, s in zip(means, stds, strict=True))
    high = tuple(m + NORMAL_BOUND * s for m, s in zip(means, stds, strict=True))
    return Distribution("normal", low, high, operation, shared)


class RandomizedValues(dict[str, Sequence[Real]]):
    """Values of the randomized parameters by name, as traced functions see them."""

    def __init__(self, values: Mapping[str, Sequence[Real]], randomization: Randomization) -> None:
        super().__init__(values)
        self._randomization = randomization

    def __missing__(self, name: str) -> NoReturn:
        raise TraceError(f"no randomized parameter is named {name!r}; randomized are: {', '.join(self)}")

    def normalized(self, *patterns: str) -> list[Real]:
        """Return the parameters that match the patterns, each mapped to about unit range by its distribution."""
        names = [name for name in self if any(fnmatchcase(name, pattern) for pattern in patterns)]
        if not names:
            raise TraceError(
                f"no randomized parameter matches {', '.join(patterns)}; randomized are: {', '.join(self)}"
            )
        return [x for name in names for x in self._randomization.normalize(name, self[name])]


class Randomization:
    """The randomized parameters of a task."""

    def __init__(self, model: Model, randomize: Mapping[str, Distribution]) -> None:
        """Check that the parameters exist and that all their values are physical."""
        delays = [max(d.high) for pattern, d in randomize.items() if pattern == DELAY and d.operation != "scale"]
        longest = {"max_delay": max(delays)} if delays and max(delays) > 0.0 else {}
        self.parameters: Parameters = model.parameters(*randomize, **longest)
        defaults = self.parameters.by_name(self.parameters.defaults(1, dtype=torch.float64)[0].tolist())
        self._defaults = {name: _floats(values) for name, values in defaults.items()}
        self._patterns = {name: _pattern_of(name, randomize) for name in self.parameters.names}
        self._distributions = {name: randomize[pattern] for name, pattern in self._patterns.items()}
        for name in self.parameters.names:
            self._check_components(name)
        self._check_effects()
        self._check_physical()

    def draw(self, draw: Draw) -> list[Real]:
        """Draw the values of all parameters for an episode."""
        return self._values(lambda distribution, component: distribution.draw(component, draw))

    def _values(self, choose: Callable[[Distribution, int], Real]) -> list[Real]:
        """Return the values of all parameters; `choose` returns a number for a component of a distribution."""
        shared: dict[tuple[str, int], Real] = {}
        values: list[Real] = []
        for name, distribution in self._distributions.items():
            number: Real = 0.0
            for i, default in enumerate(self._defaults[name]):
                # A parameter is scaled as a whole, unless each component has its own bounds.
                if i == 0 or distribution.operation != "scale" or len(distribution.low) > 1:
                    key = (self._patterns[name] if distribution.shared else name, i)
                    number = shared[key] if key in shared else choose(distribution, i)
                    shared[key] = number
                values.append(distribution.apply(number, default))
        return values

    def values(self, numbers: Mapping[str, Sequence[Real]]) -> RandomizedValues:
        """Return values by name for traced functions."""
        return RandomizedValues(numbers, self)

    def normalize(self, name: str, values: Sequence[Real]) -> list[Real]:
        """Map the values of a parameter to about unit range."""
        distribution, defaults = self._distributions[name], self._defaults[name]
        return [
            distribution.normalize(x, i, default) for i, (x, default) in enumerate(zip(values, defaults, strict=True))
        ]

    def describe(self) -> list[str]:
        """Return one line per pattern: distribution, bounds of the values, and values of the model."""
        lines: list[str] = []
        for pattern in dict.fromkeys(self._patterns.values()):
            names = [name for name, own in self._patterns.items() if own == pattern]
            distribution = self._distributions[names[0]]
            low, high = (_extremes([self._bounds(name)[k] for name in names])[k] for k in (0, 1))
            smallest, largest = _extremes([self._defaults[name] for name in names])
            unit = self.parameters.units[self.parameters.index(names[0])[0]]
            sign = {"set": "", "add": "+ ", "scale": "× "}[distribution.operation]
            count = f" ({len(names)})" if len(names) > 1 else ""
            bounds = f"{_show(low)} to {_show(high)}" + (f" {unit}" if unit else "")
            model = _show(smallest) if smallest == largest else f"{_show(smallest)} to {_show(largest)}"
            lines.append(f"{pattern}{count}: {sign}{distribution}, {bounds} (model: {model})")
        return lines

    def _bounds(self, name: str) -> tuple[list[float], list[float]]:
        distribution, lows, highs = self._distributions[name], [], []
        for i, default in enumerate(self._defaults[name]):
            ends = _floats([distribution.apply(x, default) for x in distribution.bounds(i)])
            lows.append(min(ends))
            highs.append(max(ends))
        return lows, highs

    def _check_components(self, name: str) -> None:
        distribution, size = self._distributions[name], len(self._defaults[name])
        given = len(distribution.low)
        if given not in (1, size):
            raise InputError(f"{name!r} has {size} components, but its distribution has bounds for {given}")
        if given == 1 < size and distribution.operation == "set":
            raise InputError(
                f"{name!r} has {size} components: give bounds for each, such as uniform([...], [...]), or use 'add' or "
                "'scale'"
            )

    def _check_effects(self) -> None:
        for pattern in dict.fromkeys(self._patterns.values()):
            names = [name for name, own in self._patterns.items() if own == pattern]
            if self._distributions[names[0]].operation == "scale" and not any(any(self._defaults[n]) for n in names):
                raise InputError(
                    f"'scale' has no effect on {pattern!r}, which is zero in the model; use 'set' or 'add'"
                )

    def _check_physical(self) -> None:
        """Check all lower bounds, all upper bounds, and each number at one end with the others at the other end."""
        numbers = count()
        self._values(lambda distribution, i: float(next(numbers)))
        rows = [self._corner(None, 0), self._corner(None, 1)]
        rows += [self._corner(k, end) for k in range(next(numbers)) for end in (0, 1)]
        try:
            self.parameters.check(torch.tensor(rows, dtype=torch.float64))
        except InputError as error:
            reason = re.sub(r" in world \d+( \(and \d+ more\))?", "", str(error).partition(";")[0])
            raise InputError(
                f"randomize can draw values that are not physical: {reason}; narrow the distribution"
            ) from error

    def _corner(self, other: int | None, end: int) -> list[float]:
        """Return values at the lower (0) or upper (1) bounds, except the number `other`, which is at the other end."""
        numbers = count()
        return _floats(self._values(lambda distribution, i: distribution.bounds(i)[end ^ (next(numbers) == other)]))


def _pattern_of(name: str, randomize: Mapping[str, Distribution]) -> str:
    matching = [pattern for pattern in randomize if fnmatchcase(name, pattern)]
    if len(matching) > 1:
        raise InputError(f"{name!r} matches several patterns of randomize: {', '.join(matching)}; use one of them")
    return matching[0]


def _pair(
    name: str, first: float | Sequence[float], second: float | Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    a, b = (tuple(x) if isinstance(x, Sequence) else (x,) for x in (first, second))
    if len(a) != len(b) or not a:
        raise InputError(f"{name} needs two numbers, or two lists of equal length, got {first!r} and {second!r}")
    one, two = (tuple(check_finite(f"bounds of {name}", x) for x in numbers) for numbers in (a, b))
    return one, two


def _floats(values: Sequence[Real]) -> list[float]:
    return [value for value in values if not isinstance(value, Scalar)]


def _extremes(rows: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the smallest and the largest number of each column; rows may differ in length."""
    width = max(map(len, rows))
    columns = [[row[i] for row in rows if i < len(row)] for i in range(width)]
    return [min(column) for column in columns], [max(column) for column in columns]


def _show(values: Sequence[float]) -> str:
    return f"{values[0]:.4g}" if len(values) == 1 else f"({', '.join(f'{x:.4g}' for x in values)})"
