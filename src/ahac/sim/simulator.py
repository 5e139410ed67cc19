"""The public simulator: a batch of worlds that share one model, stepped and differentiated together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from ahac.core.checks import check_int
from ahac.core.device import resolve_device
from ahac.core.errors import InputError
from ahac.core.hardware import lane_bytes, usable_cores
from ahac.native.codegen import Target
from ahac.sim.autograd import Launcher, MapKernels, StepKernels
from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.program import Program, trace
from ahac.sim.inputs import Inputs
from ahac.sim.jacobian import StepJacobian, step_jacobian
from ahac.sim.model.parameters.selection import Parameters
from ahac.sim.model.types import Keyframe, Model
from ahac.sim.physics.contact import ContactLaw, compliant, penalty
from ahac.sim.physics.substep import ForceLaw, ForceLaws
from ahac.sim.programs import CONTACT_FIELDS, Controller, Programs, Readout
from ahac.sim.stability import warn_if_unstable
from ahac.sim.state import Contacts, Poses, State, Wrenches

__all__ = ["Integrator", "Simulator"]

Integrator = Literal["implicit", "explicit"]
"""Name of an integrator; see `Simulator`."""

Groups = dict[str, Tensor]
TracedFunction = Callable[..., Mapping[str, Sequence[Real]]]


class Simulator:
    """Simulate N worlds of one model in parallel; every result is differentiable.

    The model is traced at once; kernels are compiled on first use.

    Args:
        model: A model from `load_model`.
        num_worlds: Number of worlds.
        dt: Duration of a step [s].
        substeps: Number of integration steps per step, of dt / substeps seconds each.
        device: "cpu" or a CUDA device.
        dtype: torch.float32 or torch.float64.
        num_threads: Number of CPU threads; all cores by default.
        readouts: Functions of a `World`, evaluated on the state after each step and returned with it.
        forces: User-defined force laws: functions of a `World` that return forces on bodies and joints.
        contact_law: Contact force between a point and a plane; by default `compliant` for implicit and `penalty`
            for explicit integration.
        context: Sizes of the named groups of numbers that the caller passes to each step, for readouts to use.
        integrator: "implicit" evaluates contact, limits, springs, dampers, dry friction, servos, tendons and
            equality constraints at the end of each substep; it is stable for any constants. "explicit" evaluates
            all forces at the start (semi-implicit Euler), as the paper's simulator does; it is stable for small
            substeps only.
        parameters: Constants of the model that each step takes as inputs, from `model.parameters`.
        memory: Sizes of named groups of numbers that the caller passes to each step, with gradients; force laws,
            the controller and readouts read them as `world.memory`.
        controller: Function of a `World` that returns the controls of the actuators, from `world.control`, the
            memory and the state of each substep; by default the controls are those passed to the step.
        validate_parameters: Whether steps refuse parameters that are not physical, such as negative masses. Every
            new tensor of parameters is checked once; on CUDA this waits for the device.
    """

    def __init__(  # noqa: PLR0913 - public settings, keyword-only
        self,
        model: Model,
        *,
        num_worlds: int,
        dt: float,
        substeps: int,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        num_threads: int | None = None,
        readouts: Mapping[str, Readout] | None = None,
        forces: Sequence[ForceLaw] = (),
        contact_law: ContactLaw | None = None,
        context: Mapping[str, int] | None = None,
        integrator: Integrator = "implicit",
        parameters: Parameters | None = None,
        memory: Mapping[str, int] | None = None,
        controller: Controller | None = None,
        validate_parameters: bool = True,
    ) -> None:
        self.model = model
        self.integrator: Integrator = integrator
        self.num_worlds = num_worlds
        self.dt = dt
        self.substeps = substeps
        self.device = resolve_device(device)
        self.dtype = dtype
        self.num_threads = usable_cores() if num_threads is None else num_threads
        self._check_settings()
        self.context = dict(context or {})
        self.parameters = _checked_parameters(parameters, model)
        self.memory = _sizes("memory", memory)
        laws = _laws(integrator, contact_law, forces)
        # Force laws that read parameters or memory have no values to be linearized with.
        checked_forces = () if self.memory or parameters is not None else forces
        warn_if_unstable(model, self.dt, self.substeps, integrator, checked_forces)
        groups = (self.context, parameters, self.memory)
        self._programs = Programs(model, laws, _named_functions(readouts or {}), *groups, controller, self.dt)
        self.num_past_controls = self._programs.past_controls
        """Number of earlier controls in `State.past_controls`: as many as the longest actuator delay spans."""
        target = Target(str(self.device), dtype == torch.float64, lane_bytes())
        past = self.num_past_controls
        self._inputs = Inputs(model, self.num_worlds, self.device, dtype, *groups, past, validate_parameters)
        self._launcher = Launcher(target, self.device, dtype, model.name, self.num_threads)
        self._step = StepKernels(self._launcher, self._programs.step(), self.num_worlds)
        self._maps = _maps(self._launcher, self._programs)

    def rest_state(self, keyframe: str | None = None) -> State:
        """Return all worlds at rest in the model's reference pose, or in the state of a keyframe of the file."""
        start = Keyframe(q=self.model.rest_q, v=(0.0,) * self.model.nv, act=(0.0,) * self.model.na)
        if keyframe is not None:
            start = self._keyframe(keyframe)
        return State(self._tensor(start.q), self._tensor(start.v), act=self._tensor(start.act) if start.act else None)

    def keyframe_control(self, keyframe: str) -> Tensor:
        """Return the controls [N, nu] of a keyframe of the file, such as the targets that hold a servo robot in it."""
        return self._tensor(self._keyframe(keyframe).ctrl)

    def _keyframe(self, name: str) -> Keyframe:
        if name not in self.model.keyframes:
            names = ", ".join(self.model.keyframes) or "none"
            raise InputError(f"model {self.model.name!r} has no keyframe {name!r}; it has: {names}")
        return self.model.keyframes[name]

    def step(
        self,
        state: State,
        control: Tensor | None = None,
        force: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        parameters: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> State:
        """Return the state `dt` seconds later.

        Args:
            state: Positions, velocities and activations; quaternions need not be normalized.
            control: [N, nu] controls, held over the step; zero by default.
            force: [N, nv] generalized forces, held over the step; none by default.
            context: Tensors [N, size] that readouts read as `world.context`; no gradient flows to them.
            parameters: [N, P] values of the declared parameters; those of the model by default.
            memory: [N, M] the declared groups of memory, one after the other.
        """
        x = self._inputs
        u, act = x.control(control), x.act(state)
        f = None if force is None else x.tensor("force", force, self.model.nv)
        inputs = (*x.motion(state), u, f, act, x.parameters(parameters), x.memory(state, u, memory))
        q, v, *rest = self._step(inputs, x.constants(context), self.substeps, self.dt / self.substeps)
        act = rest.pop(0) if act is not None else None
        return State(q, v, self._shaped(rest), act, x.later_controls(state, u))

    def jacobian(
        self,
        state: State,
        control: Tensor | None = None,
        parameters: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> StepJacobian:
        """Return the derivatives of a step with respect to its inputs, for any number of worlds.

        Args:
            state: Positions, velocities and activations; earlier controls count as constants.
            control: [N, nu] controls; zero by default.
            parameters: [N, P] values of the declared parameters; those of the model by default.
            memory: [N, M] the declared groups of memory, which count as constants.
        """
        if self.context:
            raise InputError("jacobian is for simulators without context: create one without it for this purpose")
        x = replace(self._inputs, num_worlds=len(state.q))
        start = replace(state.detach(), act=x.act(state))
        x.motion(start)
        u, p = x.control(control).detach(), x.parameters(parameters)
        together = x.num_worlds <= self._launcher.few_worlds

        def advance(
            q: Tensor, v: Tensor, act: Tensor | None, u: Tensor, p: Tensor | None, m: Tensor | None
        ) -> tuple[Tensor, ...]:
            results = self._step((q, v, u, None, act, p, m), [], self.substeps, self.dt / self.substeps)
            return results[: 3 if self.model.na else 2]

        found = step_jacobian(advance, self.model, start, u, p, x.memory(start, u, memory), together)
        return replace(found, next_state=replace(found.next_state, past_controls=x.later_controls(start, u)))

    def evaluate_readouts(
        self,
        state: State,
        control: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        parameters: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Evaluate the readouts on a state that did not result from a step; `World.before` is the state itself."""
        driven = self._driven(state, control, parameters, memory)
        readouts = self._maps["readout"](*driven, *self._inputs.constants(context))
        return self._shaped(list(readouts.values()))

    def mass_matrix(self, q: Tensor, parameters: Tensor | None = None) -> Tensor:
        """Return the mass matrix [N, nv, nv] at q [N, nq], armature included: MuJoCo's qM as a full matrix."""
        matrix = self._maps["mass_matrix"](*self._placed(q, parameters))["matrix"]
        return matrix.view(self.num_worlds, self.model.nv, self.model.nv)

    def bias_force(self, q: Tensor, v: Tensor, parameters: Tensor | None = None) -> Tensor:
        """Return gravity, Coriolis and centrifugal forces [N, nv]: MuJoCo's qfrc_bias without tendon armature."""
        x = self._inputs
        return self._maps["bias_force"](*_given(*x.motion(State(q, v), ("q", "v")), x.parameters(parameters)))["force"]

    def acceleration(
        self,
        q: Tensor,
        v: Tensor,
        tau: Tensor,
        contact: bool = False,
        parameters: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Return the acceleration [N, nv] of a state under `tau` and all forces except those of actuators.

        It is MuJoCo's qacc where no constraint acts (dry friction, equalities, limits, contact), for both integrators.

        Args:
            q: [N, nq] positions.
            v: [N, nv] velocities.
            tau: [N, nv] generalized forces.
            contact: Whether contact and joint limits act as well; actuators never do.
            parameters: [N, P] values of the declared parameters; those of the model by default.
            memory: [N, M] the declared groups of memory, for force laws.
        """
        kernels = self._maps["in_contact" if contact else "acceleration"]
        x, state = self._inputs, State(q, v)
        extra = (x.parameters(parameters), x.memory(state, x.control(None), memory))
        moving = (*x.motion(state, ("q", "v")), x.tensor("tau", tau, self.model.nv))
        return kernels(*_given(*moving, *extra))["qacc"]

    def contacts(self, state: State, parameters: Tensor | None = None) -> Contacts:
        """Return depth, velocity, force and the force's derivatives at every contact candidate."""
        fields = self._maps["contacts"](*self._moving(state, parameters))
        points = len(self.model.contact_candidates)
        shaped = {name: fields[name].view(self.num_worlds, points, *shape) for name, shape in CONTACT_FIELDS.items()}
        return Contacts(tuple((c.geom, c.plane.name) for c in self.model.contact_candidates), **shaped)

    def contact_accelerations(
        self,
        state: State,
        control: Tensor | None = None,
        parameters: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Return the acceleration [N, P, 3] of the link's material at every contact candidate, in world axes [m/s²]."""
        driven = self._driven(state, control, parameters, memory)
        accelerations = self._maps["contact_accelerations"](*driven)["acceleration"]
        return accelerations.view(self.num_worlds, len(self.model.contact_candidates), 3)

    def contact_wrenches(self, state: State, parameters: Tensor | None = None) -> Wrenches:
        """Return the contact wrench on every link with contact candidates, about the position of its tree's root."""
        fields = self._maps["contact_wrenches"](*self._moving(state, parameters))
        links = dict.fromkeys(candidate.link for candidate in self.model.contact_candidates)
        shaped = {name: numbers.view(self.num_worlds, len(links), 6) for name, numbers in fields.items()}
        return Wrenches(tuple(self.model.links[i].name for i in links), **shaped)

    def compile_function(self, name: str, function: TracedFunction, sizes: Mapping[str, int]) -> Callable[..., Groups]:
        """Compile a function of one world's scalars into a differentiable function of tensors over all worlds.

        Args:
            name: Name of the kernel.
            function: Takes one list of scalars for each entry of `sizes`, by name; returns named lists of scalars.
            sizes: Number of scalars in each list.

        Returns:
            A function that takes one tensor [N, size] for each entry of `sizes`, in that order, and returns the named
            lists as tensors [N, length]. It is compiled on the first call.
        """
        kernels = MapKernels(self._launcher, name, lambda: trace(function, dict(sizes)))

        def call(*tensors: Tensor) -> Groups:
            if len(tensors) != len(sizes):
                raise InputError(f"{name!r} takes {len(sizes)} tensors ({', '.join(sizes)}), got {len(tensors)}")
            named = zip(tensors, sizes.items(), strict=True)
            return kernels(*(self._inputs.tensor(n, x, size) for x, (n, size) in named))

        return call

    def poses(self, q: Tensor, parameters: Tensor | None = None) -> Poses:
        """Return position and rotation of every body of the file, at positions q [N, nq] of the joints."""
        fields = self._maps["poses"](*self._placed(q, parameters))
        names = tuple(self.model.bodies)
        shape = (self.num_worlds, len(names), 3)
        return Poses(names, fields["position"].view(shape), fields["rotation"].view(*shape, 3))

    def is_finite(self, state: State) -> Tensor:
        """Return which worlds contain only finite numbers, as booleans [N]."""
        finite = torch.isfinite(state.q).all(dim=-1) & torch.isfinite(state.v).all(dim=-1)
        return finite if state.act is None else finite & torch.isfinite(state.act).all(dim=-1)

    def _placed(self, q: Tensor, parameters: Tensor | None) -> list[Tensor]:
        return _given(self._inputs.tensor("q", q, self.model.nq), self._inputs.parameters(parameters))

    def _moving(self, state: State, parameters: Tensor | None) -> list[Tensor]:
        return _given(*self._inputs.motion(state), self._inputs.parameters(parameters))

    def _driven(
        self, state: State, control: Tensor | None, parameters: Tensor | None, memory: Tensor | None
    ) -> list[Tensor]:
        x = self._inputs
        u = x.control(control)
        return _given(*x.motion(state), u, x.act(state), x.parameters(parameters), x.memory(state, u, memory))

    def _shaped(self, readouts: Sequence[Tensor]) -> dict[str, Tensor]:
        return {
            name: value if len(shape) == 1 else value.view(self.num_worlds, *shape)
            for value, (name, shape) in zip(readouts, self._programs.shapes.items(), strict=True)
        }

    def _tensor(self, row: Sequence[float]) -> Tensor:
        return torch.tensor(row, device=self.device, dtype=self.dtype).repeat(self.num_worlds, 1)

    def _check_settings(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(f"model must be a Model from load_model, got {type(self.model).__name__}")
        for name in ("num_worlds", "substeps", "num_threads"):
            setattr(self, name, check_int(name, getattr(self, name), 1))
        if isinstance(self.dt, bool) or not isinstance(self.dt, float | int) or not 0.0 < self.dt < float("inf"):
            raise InputError(f"dt must be a positive number of seconds, got {self.dt!r}")
        if self.integrator not in get_args(Integrator):
            raise InputError(f"integrator must be 'implicit' or 'explicit', got {self.integrator!r}")
        if self.dtype not in (torch.float32, torch.float64):
            raise InputError(f"dtype must be torch.float32 or torch.float64, got {self.dtype}")


def _given(*tensors: Tensor | None) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


def _maps(launcher: Launcher, programs: Programs) -> dict[str, MapKernels]:
    """Return the kernels of everything but the step; a program is traced when its kernel is first used."""
    traces: dict[str, Callable[[], Program]] = {
        "mass_matrix": programs.mass_matrix,
        "bias_force": programs.bias_force,
        "acceleration": lambda: programs.acceleration(contact_enabled=False),
        "in_contact": lambda: programs.acceleration(contact_enabled=True),
        "contacts": programs.contacts,
        "contact_accelerations": programs.contact_accelerations,
        "contact_wrenches": programs.contact_wrenches,
        "poses": programs.poses,
        "readout": programs.readout,
    }
    labels = {"in_contact": "acceleration in contact", "readout": "readouts"}
    return {
        name: MapKernels(launcher, labels.get(name, name.replace("_", " ")), trace) for name, trace in traces.items()
    }


def _laws(integrator: Integrator, contact_law: ContactLaw | None, forces: Sequence[ForceLaw]) -> ForceLaws:
    implicit = integrator == "implicit"
    if contact_law is None:
        contact_law = compliant if implicit else penalty
    if not callable(contact_law):
        raise InputError(
            f"contact_law must be a function, got {contact_law!r}; to disable contact, set the geoms' contype to 0"
        )
    if not isinstance(forces, Sequence) or not all(callable(law) for law in forces):
        raise InputError(f"forces must be a list of functions of a World, got {forces!r}")
    return ForceLaws(contact_law, tuple(forces), implicit=implicit)


def _checked_parameters(parameters: object, model: Model) -> Parameters | None:
    if parameters is None:
        return None
    if not isinstance(parameters, Parameters):
        raise InputError(
            f"parameters must come from model.parameters('body_mass:*', ...), got {type(parameters).__name__}; their "
            "values are passed to each step"
        )
    parameters.check_model(model)
    return parameters


def _sizes(name: str, sizes: object) -> dict[str, int]:
    if not isinstance(sizes, Mapping | None):
        raise InputError(f"{name} must map names to sizes, such as {{'command': 3}}, got {sizes!r}")
    return {str(key): check_int(f"size of {name} {key!r}", size, 1) for key, size in (sizes or {}).items()}


def _named_functions(readouts: Mapping[str, Readout]) -> dict[str, Readout]:
    if not isinstance(readouts, Mapping) or not all(callable(function) for function in readouts.values()):
        raise InputError(f"readouts must map names to functions of a World, got {readouts!r}")
    return dict(readouts)
