"""Trace the physics of a model into the programs that the simulator compiles, one for each kind of result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TypeAlias

from ahac.core.errors import InputError, TraceError
from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import barrier, where
from ahac.sim.compiler.program import Program, StepPrograms, trace
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.constants import with_constants
from ahac.sim.model.parameters.selection import Parameters
from ahac.sim.model.types import Model
from ahac.sim.physics import activation, contact, dynamics, inertia, springs
from ahac.sim.physics.algebra import ZERO, Mat3, Spatial, Vec3
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.substep import ForceLaws, applied_force, substep, total_forces
from ahac.sim.physics.world import NamedNumbers, World

__all__ = ["CONTACT_FIELDS", "Controller", "Programs", "Readout", "checked_controls"]

Value: TypeAlias = "Real | Vec3 | Mat3 | Sequence[Real]"
Readout: TypeAlias = "Callable[[World], Value | Mapping[str, Value]]"
"""A user-defined function of the state after a step. It returns a scalar, vector, matrix or list of scalars, or a
mapping of names to these, whose entries become the readouts "readout.name"."""

Controller: TypeAlias = "Callable[[World], Sequence[Real]]"
"""A user-defined function of the world in a substep that returns the controls of the actuators."""


@dataclass
class Programs:
    """Traces the physics of one model under the given force laws."""

    model: Model
    """The robot; constants that it leaves open are chosen for it."""
    laws: ForceLaws
    readouts: Mapping[str, Readout]
    context: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the groups of numbers that the caller passes to the readouts with each step."""
    parameters: Parameters | None = None
    """Constants of the model that are inputs."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the named numbers that the caller passes with each step, with gradients."""
    controller: Controller | None = None
    dt: float = 0.0
    """Duration of a control step [s], for delays."""

    def __post_init__(self) -> None:
        self.model = with_constants(self.model, self.laws.implicit)
        names = () if self.parameters is None else self.parameters.names
        self.past_controls = 0
        """Number of earlier controls that a step depends on: as many as the longest delay spans."""
        if self.controller is not None and not callable(self.controller):
            raise InputError(f"controller must be a function of a World, got {self.controller!r}")
        if self.parameters is not None and DELAY in names:
            self.past_controls = ceil(self.parameters.max_delay / self.dt - 1e-9)
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Shape of each readout in one world; filled in when the readouts are traced."""

    def step(self) -> StepPrograms:
        """Trace a control step: normalization of the state, substep, readouts."""
        m = self.model
        inputs = {"q": m.nq, "v": m.nv, "u": m.nu, **self._act, **self._p, **self._m}

        def advance(
            q: Reals, v: Reals, u: Reals, f: Reals, h: Reals, act: Reals = (), p: Reals = (), m: Reals = ()
        ) -> Groups:
            world = self._driven(q, v, u, act, p, m)
            q1, v1 = substep(world, f, h[0], self.laws)
            later = {}
            if act:
                later = {"act": activation.advance(world.model, world.control, act, h[0], self.laws.implicit)}
            return {"q": q1, "v": v1, **later}

        return StepPrograms(
            normalize_state=trace(lambda q: {"q": normalize(m, q)}, {"q": m.nq}),
            substep=trace(advance, {**inputs, "f": m.nv, "h": 1}),
            readout=self.readout_of_step(),
        )

    def readout_of_step(self) -> Program:
        """Trace the readouts on the state after a step and the one before it."""
        m = self.model
        inputs = {"q": m.nq, "v": m.nv, "u": m.nu, **self._act, **self._p, **self._m}
        before = {f"{group}0": size for group, size in {"q": m.nq, "v": m.nv, **self._act}.items()}
        return trace(self._read, {**inputs, **before, **self._context_sizes})

    def drive(self) -> Program:
        """Trace q, v, u -> the controls that actuators receive, and the generalized forces of the force laws."""
        m = self.model

        def drive(q: Reals, v: Reals, u: Reals, act: Reals = (), p: Reals = (), m: Reals = ()) -> Groups:
            world = self._driven(normalize(self.model, q), v, u, act, p, m)
            return {"control": list(world.control), "force": applied_force(world, self.laws)}

        return trace(drive, {"q": m.nq, "v": m.nv, "u": m.nu, **self._act, **self._p, **self._m})

    def readout(self) -> Program:
        """Trace the readouts alone; the state before the step is the state itself."""
        m = self.model

        def alone(
            q: Reals, v: Reals, u: Reals, act: Reals = (), p: Reals = (), m: Reals = (), **context: Reals
        ) -> Groups:
            q1 = normalize(self.model, q)
            return self._read(q1, v, u, q1, v, act, act, p, m, **context)

        groups = {"q": m.nq, "v": m.nv, "u": m.nu, **self._act, **self._p, **self._m}
        return trace(alone, {**groups, **self._context_sizes})

    def mass_matrix(self) -> Program:
        """Trace q -> the full mass matrix, row by row."""
        m = self.model

        def entries(q: Reals, p: Reals = ()) -> Groups:
            robot = self._with_parameters(p)
            motion = World(robot, normalize(m, q), [0.0] * m.nv, []).motion
            lower = inertia.mass_matrix(robot, motion, inertia.link_inertias(robot, motion))
            inertia.add_dashpots(lower, springs.tendon_inertia(robot, motion, normalize(m, q)))
            full = {**lower, **{(j, k): x for (k, j), x in lower.items()}}
            return {"matrix": [full.get((i, j), 0.0) for i in range(m.nv) for j in range(m.nv)]}

        return trace(entries, {"q": m.nq, **self._p})

    def bias_force(self) -> Program:
        """Trace q, v -> gravity, Coriolis and centrifugal forces."""
        m = self.model

        def bias(q: Reals, v: Reals, p: Reals = ()) -> Groups:
            robot = self._with_parameters(p)
            motion = World(robot, normalize(m, q), v, []).motion
            return {"force": dynamics.bias_force(robot, motion, {}, inertia.link_inertias(robot, motion))}

        return trace(bias, {"q": m.nq, "v": m.nv, **self._p})

    def acceleration(self, contact_enabled: bool) -> Program:
        """Trace q, v, generalized force -> v̇, without actuators and with or without contact and joint limits."""
        m = self.model
        laws = replace(self.laws, contact_enabled=contact_enabled, actuators_enabled=False)

        def acceleration(q: Reals, v: Reals, force: Reals, p: Reals = (), m: Reals = ()) -> Groups:
            idle = [0.0] * self.model.nu
            world = self._world(normalize(self.model, q), v, idle, (), p, m)
            return {"qacc": dynamics.acceleration(world.model, world.motion, total_forces(world, force, laws))}

        return trace(acceleration, {"q": m.nq, "v": m.nv, "force": m.nv, **self._p, **self._m})

    def poses(self) -> Program:
        """Trace q -> position and rotation of every body of the file."""
        m = self.model

        def frames(q: Reals, p: Reals = ()) -> Groups:
            world = World(self._with_parameters(p), normalize(m, q), [0.0] * m.nv, [])
            rotations = [world.rotation(name).rows for name in m.bodies]
            return {
                "position": [x for name in m.bodies for x in world.position(name)],
                "rotation": [x for rows in rotations for row in rows for x in row],
            }

        return trace(frames, {"q": m.nq, **self._p})

    def contacts(self) -> Program:
        """Trace q, v -> depth, velocity, force and the force's derivatives at every contact candidate."""
        m, law = self.model, self.laws.contact

        def contacts(q: list[Scalar], v: list[Scalar], p: Reals = ()) -> Groups:
            out: dict[str, list[Real]] = {name: [] for name in CONTACT_FIELDS}
            for point in World(self._with_parameters(p), normalize(m, q), v, []).contact_points:
                row = _contact(q[0].graph, point, law)
                for name, numbers in row.items():
                    out[name] += numbers
            return out

        return trace(contacts, {"q": m.nq, "v": m.nv, **self._p})

    def contact_accelerations(self) -> Program:
        """Trace q, v, u -> acceleration of the link's material at every contact candidate."""
        m = self.model

        def accelerations(q: Reals, v: Reals, u: Reals, act: Reals = (), p: Reals = (), m: Reals = ()) -> Groups:
            world = self._driven(normalize(self.model, q), v, u, act, p, m)
            forces = total_forces(world, [0.0] * self.model.nv, self.laws)
            qacc = dynamics.acceleration(world.model, world.motion, forces)
            links = dynamics.link_accelerations(world.model, world.motion, qacc)
            out: list[Real] = []
            for point in world.contact_points:
                # A spatial acceleration A lacks the change of direction of the velocity u: a = A.at(x) + ω × u.
                turning = world.motion.velocity[point.candidate.link].angular.cross(point.velocity)
                out += links[point.candidate.link].at(point.position) + turning
            return {"acceleration": out}

        return trace(accelerations, {"q": m.nq, "v": m.nv, "u": m.nu, **self._act, **self._p, **self._m})

    def contact_wrenches(self) -> Program:
        """Trace q, v -> contact wrench and velocity-product acceleration of every link with contact candidates."""
        m, law = self.model, self.laws.contact

        def wrenches(q: Reals, v: Reals, p: Reals = ()) -> Groups:
            world = World(self._with_parameters(p), normalize(m, q), v, [])
            total = contact.wrenches(world.contact_points, law)
            products = [_velocity_product(world.model, world.motion, i) for i in total]
            return {"wrench": _numbers(total.values()), "velocity_product_acceleration": _numbers(products)}

        return trace(wrenches, {"q": m.nq, "v": m.nv, **self._p})

    @property
    def _act(self) -> dict[str, int]:
        """The group of activations and its size; none in a model without activations, whose kernels do not have it."""
        return {"act": self.model.na} if self.model.na else {}

    @property
    def _p(self) -> dict[str, int]:
        """The group of parameters and its size; none in a model without parameters."""
        return {} if self.parameters is None else {"p": self.parameters.size}

    @property
    def _m(self) -> dict[str, int]:
        """The group of memory and its size: earlier controls for delays, then the memory by name."""
        size = self.past_controls * self.model.nu + sum(self.memory.values())
        return {"m": size} if size else {}

    @property
    def _context_sizes(self) -> dict[str, int]:
        return {f"context_{i}": size for i, size in enumerate(self.context.values())}

    def _read(  # noqa: PLR0913 - the groups of a step
        self,
        q: Reals,
        v: Reals,
        u: Reals,
        q0: Reals,
        v0: Reals,
        act: Reals = (),
        act0: Reals = (),
        p: Reals = (),
        m: Reals = (),
        **context: Reals,
    ) -> Groups:
        world = self._world(q, v, u, act, p, m, before=self._world(q0, v0, u, act0, p, m))
        world.context = {name: context[f"context_{i}"] for i, name in enumerate(self.context)}
        groups: Groups = {}
        # Numbered, because the user's names need not be valid in C++.
        for i, (name, (shape, numbers)) in enumerate(self._results(world).items()):
            self.shapes[name] = shape
            groups[f"read_{i}"] = numbers
        return groups

    def _with_parameters(self, p: Reals) -> Model:
        """Return the model with the given parameters."""
        return self.model if self.parameters is None else self.parameters.apply(self.model, p)

    def _world(
        self, q: Reals, v: Reals, u: Reals, act: Reals, p: Reals, m: Reals, before: World | None = None
    ) -> World:
        """Return a world with parameters and memory."""
        world = World(self._with_parameters(p), q, v, u, before=before, act=act)
        if self.parameters is not None:
            world.parameters = NamedNumbers(self.parameters.by_name(p))
        numbers = iter(m[self.past_controls * self.model.nu :])
        world.memory = NamedNumbers((name, [next(numbers) for _ in range(size)]) for name, size in self.memory.items())
        return world

    def _driven(self, q: Reals, v: Reals, u: Reals, act: Reals, p: Reals, m: Reals) -> World:
        """Return a world whose controls are those that the actuators receive: delayed, and mapped by the controller."""
        world = self._world(q, v, u, act, p, m)
        if self.past_controls:
            nu = self.model.nu
            earlier = [m[k * nu : (k + 1) * nu] for k in range(self.past_controls)]
            world.control = delayed([u, *earlier], world.parameters[DELAY][0] / self.dt)
        if self.controller is not None:
            world.control = checked_controls(self.controller(world), self.model)
        return world

    def _results(self, world: World) -> dict[str, tuple[tuple[int, ...], list[Real]]]:
        """Return shape and numbers of every readout; a readout that returns a mapping counts as several."""
        results: dict[str, tuple[tuple[int, ...], list[Real]]] = {}
        for name, function in self.readouts.items():
            value = function(world)
            several = isinstance(value, Mapping)
            parts = {f"{name}.{key}": part for key, part in value.items()} if several else {name: value}
            results |= {key: _flatten(key, part) for key, part in parts.items()}
        return results


Groups = dict[str, list[Real]]
Reals = Sequence[Real]
CONTACT_FIELDS = {"depth": (), "velocity": (3,), "force": (3,), "force_by_depth": (3,), "force_by_velocity": (3, 3)}
"""Fields of each contact point, and their shapes."""

DELAY = "actuator_delay"
"""Name of the parameter that delays the controls of all actuators [s]."""


def delayed(controls: Sequence[Reals], delay: Real) -> list[Real]:
    """Return the mean control during a step, delayed by so many steps; `controls` are the current and earlier ones.

    A delay of τ steps between j and j + 1 gives (1 − (τ − j)) of the control j steps ago, and τ − j of the one before.
    """
    last = len(controls) - 1
    weights: list[Real] = []
    for j in range(len(controls)):
        d = delay - float(j)
        # Where two lines meet, the derivative is that of a longer delay: a delay of zero can grow. The longest delay
        # has the derivative of a shorter one.
        falling = 1.0 - d if j == last - 1 else where(d < 1.0, 1.0 - d, 0.0)
        weights.append(where(d < -1.0, 0.0, 1.0 + d if j == last else where(d < 0.0, 1.0 + d, falling)))
    return [sum((u * w for u, w in zip(column, weights, strict=True)), 0.0) for column in zip(*controls, strict=True)]


def checked_controls(controls: object, model: Model) -> list[Real]:
    """Return what a controller returned; raise a TraceError unless it is a number for each actuator."""
    if isinstance(controls, Sequence) and len(controls) == model.nu:
        numbers: list[Real] = [x for x in controls if isinstance(x, Scalar | float | int)]
        if len(numbers) == model.nu:
            return numbers
        kinds = ", ".join(type(x).__name__ for x in controls)
        raise TraceError(f"the controller must return numbers, not comparisons or tensors, got {kinds}")
    got = f"{len(controls)} of them" if isinstance(controls, Sequence) else type(controls).__name__
    raise TraceError(f"the controller must return a list of {model.nu} controls, one per actuator, got {got}")


def _velocity_product(model: Model, motion: Motion, link: int) -> Spatial:
    """Return the velocity-product acceleration of a link relative to an observer that moves with the link's root.

    With root velocity u it is A − (0 ; u × ω): zero for the root itself, and independent of how fast the robot travels.
    """
    root = model.chain(link)[-1]
    travel = motion.velocity[root].linear.cross(motion.velocity[link].angular)
    return dynamics.without_gravity(model, motion.acceleration[link]) - Spatial(ZERO, travel)


def _numbers(vectors: Iterable[Spatial]) -> list[Real]:
    return [x for s in vectors for part in (s.angular, s.linear) for x in part]


def _contact(graph: Graph, point: contact.ContactPoint, law: contact.ContactLaw) -> Groups:
    depth = barrier(graph, point.depth)
    velocity = [barrier(graph, x) for x in point.velocity]
    force = contact.contact_force(law, depth, Vec3(*velocity), point.normal, point.material)
    rows = [pullback(graph, [(f, 1.0)], [depth, *velocity]) for f in force]
    return {
        "depth": [depth],
        "velocity": list(velocity),
        "force": list(force),
        "force_by_depth": [row[0] for row in rows],
        "force_by_velocity": [x for row in rows for x in row[1:]],
    }


def _flatten(name: str, value: object) -> tuple[tuple[int, ...], list[Real]]:
    if isinstance(value, Scalar | float | int):
        return (), [value]
    if isinstance(value, Mat3):
        return (3, 3), [x for row in value.rows for x in row]
    if isinstance(value, Vec3 | list | tuple):
        numbers = [x for part in value for x in (part if isinstance(part, Vec3) else (part,))]
        if all(isinstance(x, Scalar | float | int) for x in numbers):
            return (len(numbers),), numbers
    raise TraceError(
        f"readout {name!r} must return a traced scalar, a Vec3, a Mat3 or a list of scalars, or several of these by "
        f"name, got {type(value).__name__}"
    )
