# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""MJX and the backends of Brax, differentiated by JAX through a `lax.scan` over steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from gradient_comparison.cases import Array, Case

__all__ = ["BraxEngine", "MjxEngine"]

LONGEST = 100
"""Longest horizon: gradients are compiled once, for all horizons up to it."""

Start = Callable[[Any, Any, Any], Any]
"""Initial state of one world, from positions, velocities and controls."""
Step = Callable[[Any, Any], Any]
"""Next state of one world, from a state and controls."""
Read = Callable[[Any], Any]
"""Positions and velocities [nq + nv] of a state."""


class JaxEngine(ABC):
    """An engine whose step is a JAX function of one world."""

    forward_mode = False

    @abstractmethod
    def functions(self, case: Case) -> tuple[Start, Step, Read]:
        """Return functions of one world."""

    def load(self, case: Case, worlds: int, double: bool) -> JaxRollouts:
        """Return rollouts; JAX compiles a function for each number of worlds."""
        jax.config.update("jax_enable_x64", double)
        return JaxRollouts(case, *self.functions(case), forward_mode=self.forward_mode)


@dataclass(frozen=True)
class MjxEngine(JaxEngine):
    """`mjx.step` in JAX; reverse mode with one iteration of the solver, forward mode with MuJoCo's default number."""

    forward_mode: bool = False

    @property
    def settings(self) -> str:
        """Description on the page."""
        if self.forward_mode:
            return "Euler, Newton solver with default iterations (100, line search 50); forward mode by `jax.jacfwd`"
        return (
            "Euler, Newton solver with `iterations=1` (line search 50), since JAX does not transpose the loop over "
            "several iterations; reverse mode by `jax.grad`"
        )

    def functions(self, case: Case) -> tuple[Start, Step, Read]:
        """Return functions around `mjx.step`."""
        mjx = import_module("mujoco.mjx")
        compiled = mujoco.MjModel.from_xml_string(case.xml())
        if not self.forward_mode:
            compiled.opt.iterations = 1
        model = mjx.put_model(compiled, impl="jax")

        def start(q: Any, v: Any, u: Any) -> Any:  # noqa: ANN401 - JAX's arrays and trees
            return mjx.make_data(compiled, impl="jax").replace(qpos=q, qvel=v, ctrl=u)

        def step(data: Any, u: Any) -> Any:  # noqa: ANN401
            return mjx.step(model, data.replace(ctrl=u))

        return start, step, lambda data: jnp.concatenate([data.qpos, data.qvel])


@dataclass(frozen=True)
class BraxEngine(JaxEngine):
    """`pipeline.step` of one of Brax's own backends, with the constants that Brax sets by default."""

    backend: str

    @property
    def settings(self) -> str:
        """Description on the page."""
        return f"backend `{self.backend}` with default constants; reverse mode by `jax.grad`"

    def functions(self, case: Case) -> tuple[Start, Step, Read]:
        """Return functions around `pipeline.step`."""
        pipeline = import_module(f"brax.{self.backend}.pipeline")
        system = import_module("brax.io.mjcf").loads(case.xml())

        def start(q: Any, v: Any, u: Any) -> Any:  # noqa: ANN401
            return pipeline.init(system, q, v)

        def step(state: Any, u: Any) -> Any:  # noqa: ANN401
            return pipeline.step(system, state, u)

        return start, step, lambda state: jnp.concatenate([state.q, state.qd])


@dataclass(frozen=True)
class JaxRollouts:
    """Rollouts that are compiled on first use."""

    case: Case
    start: Start
    step: Step
    read: Read
    forward_mode: bool
    compiled: dict[object, Callable[..., Any]] = field(default_factory=dict)

    def states(self, inputs: Array, steps: Sequence[int]) -> Array:
        """Simulate the longest horizon and pick from it."""
        last = max(steps)
        function = self._cached("states", lambda: jax.vmap(lambda x: self._trajectory(x, last, last)[1]))
        found = np.asarray(function(jnp.asarray(inputs)), dtype=np.float64)
        return np.stack([found[:, step - 1] for step in steps])

    def gradients(self, inputs: Array, steps: int) -> Array:
        """Differentiate one world, for all worlds at once; one function serves all horizons."""
        differentiate = jax.jacfwd if self.forward_mode else jax.grad
        function = self._cached("gradients", lambda: jax.vmap(differentiate(self._loss), in_axes=(0, None)))
        return np.asarray(function(jnp.asarray(inputs), steps), dtype=np.float64)

    def _cached(self, key: object, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        if key not in self.compiled:
            self.compiled[key] = jax.jit(make())
        return self.compiled[key]

    def _trajectory(self, x: Any, steps: Any, longest: int) -> tuple[Any, Any]:  # noqa: ANN401
        """Scan over the longest horizon; a conditional skips what follows `steps`, in the backward pass as well."""
        nq, nv = len(self.case.q), len(self.case.v)
        u = x[nq + nv :]

        def advance(state: Any, index: Any) -> tuple[Any, Any]:  # noqa: ANN401
            state = jax.lax.cond(index < steps, lambda s: self.step(s, u), lambda s: s, state)
            return state, self.read(state)

        return jax.lax.scan(advance, self.start(x[:nq], x[nq : nq + nv], u), jnp.arange(longest))

    def _loss(self, x: Any, steps: Any) -> Any:  # noqa: ANN401
        return self.read(self._trajectory(x, steps, LONGEST)[0]) @ jnp.asarray(self.case.weights(), dtype=x.dtype)
