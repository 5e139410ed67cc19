# pyright: reportMissingImports=false, reportInvalidTypeForm=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
"""Solvers of Newton, differentiated by `warp.Tape`; Newton computes in float32 only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp

from gradient_comparison.cases import STEP, Array, Case

__all__ = ["NewtonEngine"]


@wp.kernel
def _weigh(  # noqa: ANN202 - Warp's kernels have no result
    q: wp.array(dtype=float),
    v: wp.array(dtype=float),
    weights: wp.array(dtype=float),
    n: int,
    total: wp.array(dtype=float),
):
    i = wp.tid()
    wp.atomic_add(total, 0, weights[i % n] * q[i] + weights[n + i % n] * v[i])


@dataclass(frozen=True)
class NewtonEngine:
    """A solver, with as many substeps as it needs to be stable."""

    solver: str
    substeps: int = 1
    own_solvers: bool = False
    """Whether every substep has a solver object of its own, so that none overwrites matrices of an earlier one."""

    @property
    def settings(self) -> str:
        """Description on the page."""
        return (
            f"`{self.solver}` with default constants, {self.substeps} substep{'s' * (self.substeps > 1)} per step, "
            f"{'a solver object per substep' if self.own_solvers else 'one solver object'}, "
            "contacts detected once per step; reverse mode by `wp.Tape`"
        )

    def load(self, case: Case, worlds: int, double: bool) -> NewtonRollouts:
        """Return rollouts; `double` is refused."""
        if double:
            raise ValueError("Newton computes in float32 only")
        wp.config.quiet = True
        one, all_worlds = newton.ModelBuilder(), newton.ModelBuilder()
        one.add_mjcf(case.xml())
        all_worlds.replicate(one, worlds)
        return NewtonRollouts(self, case, worlds, all_worlds.finalize(device="cpu", requires_grad=True))


class NewtonRollouts:
    """Rollouts of one model; every step has a state and contacts of its own, as a tape needs them."""

    def __init__(self, engine: NewtonEngine, case: Case, worlds: int, model: Any) -> None:  # noqa: ANN401
        self.case, self.worlds, self.model, self.substeps = case, worlds, model, engine.substeps
        self.maximal = engine.solver == "SolverSemiImplicit"
        self.make_solver, self.own_solvers = getattr(newton.solvers, engine.solver), engine.own_solvers
        self.solvers = [self.make_solver(model)]
        self.pipeline = newton.CollisionPipeline(model) if case.contact else None
        self.weights = wp.array(case.weights(), dtype=float, device="cpu")

    def states(self, inputs: Array, steps: Sequence[int]) -> Array:
        """Simulate the longest horizon, and read coordinates on the way."""
        state, control = self._start(inputs)
        found: list[Array] = []
        done = 0
        for step in sorted(steps):
            state = self._roll(state, control, step - done)
            done = step
            found.append(self._rows(*self._coordinates(state)))
        return np.stack(found)

    def gradients(self, inputs: Array, steps: int) -> Array:
        """Record the steps and backpropagate."""
        first, control = self._start(inputs)  # a tape would record the assignments, and move the gradients on
        total = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
        n = len(self.case.q)
        with wp.Tape() as tape:
            newton.eval_fk(self.model, first.joint_q, first.joint_qd, first)
            q, v = self._coordinates(self._roll(first, control, steps))
            weighed = [q, v, self.weights, n]
            wp.launch(_weigh, dim=self.worlds * n, inputs=weighed, outputs=[total], device="cpu")
        tape.backward(total)
        force = control.joint_f.grad.numpy().reshape(self.worlds, -1)[:, list(self.case.actuated)] * self.case.gear
        return np.hstack([self._rows(first.joint_q.grad, first.joint_qd.grad), force]).astype(np.float64)

    def _start(self, inputs: Array) -> tuple[Any, Any]:
        n = len(self.case.q)
        state, control = self.model.state(), self.model.control()
        state.joint_q.assign(inputs[:, :n].astype(np.float32).ravel())
        state.joint_qd.assign(inputs[:, n : 2 * n].astype(np.float32).ravel())
        force = np.zeros((self.worlds, n), np.float32)
        force[:, list(self.case.actuated)] = self.case.gear * inputs[:, 2 * n :]
        control.joint_f = wp.array(force.ravel(), dtype=float, requires_grad=True, device="cpu")
        newton.eval_fk(self.model, state.joint_q, state.joint_qd, state)
        return state, control

    def _roll(self, state: Any, control: Any, steps: int) -> Any:  # noqa: ANN401
        for step in range(steps):
            contacts = None
            if self.pipeline is not None:
                contacts = self.pipeline.contacts()
                self.pipeline.collide(state, contacts)
            for substep in range(self.substeps):
                following = self.model.state()
                state.clear_forces()
                self._solver(step * self.substeps + substep).step(
                    state, following, control, contacts, STEP / self.substeps
                )
                state = following
        return state

    def _solver(self, index: int) -> Any:  # noqa: ANN401
        if not self.own_solvers:
            return self.solvers[0]
        while len(self.solvers) <= index:
            self.solvers.append(self.make_solver(self.model))
        return self.solvers[index]

    def _coordinates(self, state: Any) -> tuple[Any, Any]:  # noqa: ANN401
        if not self.maximal:
            return state.joint_q, state.joint_qd
        q = wp.zeros_like(self.model.joint_q, requires_grad=True)
        v = wp.zeros_like(self.model.joint_qd, requires_grad=True)
        newton.eval_ik(self.model, state, q, v)
        return q, v

    def _rows(self, q: Any, v: Any) -> Array:  # noqa: ANN401
        return np.hstack([x.numpy().reshape(self.worlds, -1) for x in (q, v)]).astype(np.float64)
