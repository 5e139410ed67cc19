"""Bundled steps: where a robot presses hard on the ground, a step is the mean of branches that start apart.

In worlds whose vertical contact force exceeds `load` times the robot's weight,

    f̄(s, a) = mean over b of f(s + δ_b, a),        δ_{b + B/2} = −δ_b

takes the place of the physics f of a control step. δ are Gaussian offsets of joint positions and velocities, not of the
base. Positions, velocities and activations are averaged, quaternions as a normalized mean. Everything else happens once
per world, as in a plain step, from s and f̄(s, a): reward, observation, memory, termination and reset. The gradient
is that of f̄: a smoothed one. All other worlds take the plain step, with bit-identical results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ahac.core.bundle import BundleConfig
from ahac.core.errors import InputError
from ahac.envs.state import select
from ahac.sim import Model, Simulator, State
from ahac.sim.autograd import MapKernels
from ahac.sim.tangent import move, normalize_quaternions

__all__ = ["BundledSimulator", "StepInputs", "check_bundling", "require_bundling"]


@dataclass(frozen=True, eq=False)
class StepInputs:
    """StepInputs of a step, with N worlds."""

    state: State
    control: Tensor
    context: Mapping[str, Tensor]
    parameters: Tensor | None
    memory: Tensor | None

    def map(self, function: Callable[[Tensor], Tensor]) -> StepInputs:
        """Apply a function to all tensors."""

        def optional(x: Tensor | None) -> Tensor | None:
            return None if x is None else function(x)

        s = self.state
        state = State(function(s.q), function(s.v), act=optional(s.act), past_controls=optional(s.past_controls))
        context = {name: function(x) for name, x in self.context.items()}
        return StepInputs(state, function(self.control), context, optional(self.parameters), optional(self.memory))


class BundledSimulator(Simulator):
    """A simulator with bundled steps."""

    def load(self, state: State, parameters: Tensor | None = None) -> Tensor:
        """Return the vertical contact force on all links, as a multiple of the weight of the model's links, [N].

        It is evaluated at the state, which is that at the end of the last step. Randomized masses do not count.
        """
        return (self.contacts(state, parameters).force @ self._up).sum(dim=-1)

    def bundled_step(
        self, plain: State, inputs: StepInputs, config: BundleConfig, draw: Callable[[int], Tensor]
    ) -> tuple[State, Tensor]:
        """Return the state after a bundled step, with its readouts, and in which worlds it has branches, [N] bool.

        Args:
            plain: Result of the plain step.
            inputs: StepInputs of the step.
            config: Number of branches, their noise, and where to use them.
            draw: `draw(k)` returns standard normal noise [N, k]; it is called once per step.
        """
        with torch.no_grad():
            loaded = self.load(inputs.state, inputs.parameters) > config.load
            offsets = self._offsets(config, draw)
        rows = _rows(loaded)
        if rows is not None and not len(rows):
            return plain, loaded
        chosen = inputs if rows is None else inputs.map(lambda x: x[rows])
        offsets = offsets if rows is None else offsets[:, rows]
        bundled = self._with_readouts(chosen, self._mean_of_branches(chosen, offsets))

        def merge(new: Tensor, old: Tensor) -> Tensor:
            return select(loaded, new, old) if rows is None else old.index_copy(0, rows, new)

        q, v = merge(bundled.q, plain.q), merge(bundled.v, plain.v)
        act = None if bundled.act is None or plain.act is None else merge(bundled.act, plain.act)
        readouts = {name: merge(bundled.readouts[name], old) for name, old in plain.readouts.items()}
        return replace(plain, q=q, v=v, act=act, readouts=readouts), loaded

    def _offsets(self, config: BundleConfig, draw: Callable[[int], Tensor]) -> Tensor:
        """Draw offsets of positions and velocities in pairs of opposite sign, [branches, N, 2, nv]."""
        pairs, nv = config.branches // 2, self.model.nv
        noise = draw(pairs * 2 * nv).unflatten(-1, (pairs, 2, nv)).transpose(0, 1) * self._limbs
        half = torch.stack([config.position_noise * noise[..., 0, :], config.velocity_noise * noise[..., 1, :]], dim=-2)
        return torch.cat([half, -half])

    def _mean_of_branches(self, inputs: StepInputs, offsets: Tensor) -> State:
        """Return the mean of branches that start with offsets [branches, N, 2, nv]."""
        branches, worlds = offsets.shape[:2]
        many = inputs.map(lambda x: x.expand(branches, *x.shape).flatten(0, 1))
        positions, velocities = offsets.flatten(0, 1).unbind(dim=1)
        start = replace(many.state, q=move(self.model, many.state.q, positions), v=many.state.v + velocities)
        end = self._resized(branches * worlds).step(
            start, many.control, context=many.context, parameters=many.parameters, memory=many.memory
        )

        def mean(x: Tensor) -> Tensor:
            return x.unflatten(0, (branches, worlds)).mean(dim=0)

        act = None if end.act is None else mean(end.act)
        return State(normalize_quaternions(self.model, mean(end.q)), mean(end.v), act=act)

    def _with_readouts(self, inputs: StepInputs, end: State) -> State:
        """Evaluate the readouts of a step from the inputs to a state."""
        sim, before = self._resized(len(end.q)), inputs.state
        x = sim._inputs
        more = (x.parameters(inputs.parameters), x.memory(before, inputs.control, inputs.memory))
        started = (normalize_quaternions(self.model, before.q), before.v, x.act(before))
        given = (end.q, end.v, inputs.control, end.act, *more, *started, *x.constants(inputs.context))
        groups = self._readouts(*(tensor for tensor in given if tensor is not None))
        return replace(end, readouts=sim._shaped(list(groups.values())))

    def _resized(self, worlds: int) -> BundledSimulator:
        """Return a simulator with the same kernels and another number of worlds."""
        other = copy(self)
        other.num_worlds = worlds
        other._inputs = replace(self._inputs, num_worlds=worlds)
        return other

    @cached_property
    def _readouts(self) -> MapKernels:
        return MapKernels(self._launcher, "readouts of a step", self._programs.readout_of_step)

    # Constants on the device: they exist when a CUDA graph is captured, because the first iteration is not.

    @cached_property
    def _up(self) -> Tensor:
        """[3] vector against gravity, divided by the weight."""
        gravity = self.model.gravity
        weight = math.hypot(*gravity) * sum(link.mass for link in self.model.links)
        up = [-g / (math.hypot(*gravity) * weight) for g in gravity]
        return torch.tensor(up, device=self.device, dtype=self.dtype)

    @cached_property
    def _limbs(self) -> Tensor:
        """[nv] 1 for the velocity coordinates of joints that have a parent link, 0 for those of a base."""
        limbs = {k for link in self.model.links if link.parent >= 0 for joint in link.joints for k in joint.dofs}
        return torch.tensor([float(k in limbs) for k in range(self.model.nv)], device=self.device, dtype=self.dtype)


def require_bundling(sim: Simulator) -> BundledSimulator:
    """Return the simulator itself; raise if it has no bundled steps, or the robot nothing to bundle."""
    if not isinstance(sim, BundledSimulator):
        raise InputError(f"a {type(sim).__name__} has no bundled steps; set bundle.branches to 0 for plain steps")
    check_bundling(sim.model)
    return sim


def check_bundling(model: Model) -> None:
    """Raise if a robot has nothing to bundle."""
    if not model.contact_candidates:
        problem = f"{model.name!r} has no contacts"
    elif not any(link.joints for link in model.links if link.parent >= 0):
        problem = f"{model.name!r} has no joints but those of its base, which are not perturbed"
    elif not any(model.gravity):
        problem = f"{model.name!r} has no weight to compare contact forces with, because gravity is zero"
    else:
        return
    raise InputError(f"{problem}; set bundle.branches to 0 for plain steps")


def _rows(loaded: Tensor) -> Tensor | None:
    """Return the indices of a mask; None on CUDA, where their number must not be read."""
    return loaded.nonzero().squeeze(-1) if loaded.device.type == "cpu" else None
