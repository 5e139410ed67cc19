"""Trace the physics of a model into the programs that the simulator compiles, one for each kind of result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ahac.core.errors import TraceError
from ahac.sim.compiler.graph import Graph, Real, Scalar
from ahac.sim.compiler.operations import barrier
from ahac.sim.compiler.program import Program, StepPrograms, trace
from ahac.sim.compiler.reverse_mode import pullback
from ahac.sim.constants import with_constants
from ahac.sim.model.types import Model
from ahac.sim.physics import activation, contact, dynamics, inertia, springs
from ahac.sim.physics.algebra import ZERO, Mat3, Spatial, Vec3
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.substep import ForceLaws, substep, total_forces
from ahac.sim.physics.world import World

__all__ = ["CONTACT_FIELDS", "Programs", "Readout"]

Value: TypeAlias = "Real | Vec3 | Mat3 | Sequence[Real]"
Readout: TypeAlias = "Callable[[World], Value | Mapping[str, Value]]"
"""A user-defined function of the state after a step. It returns a scalar, vector, matrix or list of scalars, or a
mapping of names to these, whose entries become the readouts "readout.name"."""


@dataclass
class Programs:
    """Traces the physics of one model under the given force laws."""

    model: Model
    """The robot; constants that it leaves open are chosen for it."""
    laws: ForceLaws
    readouts: Mapping[str, Readout]
    context: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the groups of numbers that the caller passes to the readouts with each step."""

    def __post_init__(self) -> None:
        self.model = with_constants(self.model, self.laws.implicit)
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Shape of each readout in one world; filled in when the readouts are traced."""

    def step(self) -> StepPrograms:
        """Trace a control step: normalization of the state, substep, readouts."""
        m = self.model
        inputs = {"q": m.nq, "v": m.nv, "u": m.nu, **self._act}

        def advance(q: Reals, v: Reals, u: Reals, f: Reals, h: Reals, act: Reals = ()) -> Groups:
            q1, v1 = substep(World(m, q, v, u, act=act), f, h[0], self.laws)
            later = {"act": activation.advance(m, u, act, h[0], self.laws.implicit)} if act else {}
            return {"q": q1, "v": v1, **later}

        before = {f"{group}0": size for group, size in {"q": m.nq, "v": m.nv, **self._act}.items()}
        return StepPrograms(
            normalize_state=trace(lambda q: {"q": normalize(m, q)}, {"q": m.nq}),
            substep=trace(advance, {**inputs, "f": m.nv, "h": 1}),
            readout=trace(self._read, {**inputs, **before, **self._context_sizes}),
        )

    def readout(self) -> Program:
        """Trace the readouts alone; the state before the step is the state itself."""
        m = self.model

        def alone(q: Reals, v: Reals, u: Reals, act: Reals = (), **context: Reals) -> Groups:
            q1 = normalize(m, q)
            return self._read(q1, v, u, q1, v, act, act, **context)

        return trace(alone, {"q": m.nq, "v": m.nv, "u": m.nu, **self._act, **self._context_sizes})

    def mass_matrix(self) -> Program:
        """Trace q -> the full mass matrix, row by row."""
        m = self.model

        def entries(q: list[Scalar]) -> Groups:
            motion = World(m, normalize(m, q), [0.0] * m.nv, []).motion
            lower = inertia.mass_matrix(m, motion, inertia.link_inertias(m, motion))
            inertia.add_dashpots(lower, springs.tendon_inertia(m, motion, normalize(m, q)))
            full = {**lower, **{(j, k): x for (k, j), x in lower.items()}}
            return {"matrix": [full.get((i, j), 0.0) for i in range(m.nv) for j in range(m.nv)]}

        return trace(entries, {"q": m.nq})

    def bias_force(self) -> Program:
        """Trace q, v -> gravity, Coriolis and centrifugal forces."""
        m = self.model

        def bias(q: list[Scalar], v: list[Scalar]) -> Groups:
            motion = World(m, normalize(m, q), v, []).motion
            return {"force": dynamics.bias_force(m, motion, {}, inertia.link_inertias(m, motion))}

        return trace(bias, {"q": m.nq, "v": m.nv})

    def acceleration(self, contact_enabled: bool) -> Program:
        """Trace q, v, generalized force -> v̇, without actuators and with or without contact and joint limits."""
        m = self.model
        laws = replace(self.laws, contact_enabled=contact_enabled, actuators_enabled=False)

        def acceleration(q: list[Scalar], v: list[Scalar], force: list[Scalar]) -> Groups:
            world = World(m, normalize(m, q), v, [0.0] * m.nu)
            return {"qacc": dynamics.acceleration(m, world.motion, total_forces(world, force, laws))}

        return trace(acceleration, {"q": m.nq, "v": m.nv, "force": m.nv})

    def poses(self) -> Program:
        """Trace q -> position and rotation of every body of the file."""
        m = self.model

        def frames(q: list[Scalar]) -> Groups:
            world = World(m, normalize(m, q), [0.0] * m.nv, [])
            rotations = [world.rotation(name).rows for name in m.bodies]
            return {
                "position": [x for name in m.bodies for x in world.position(name)],
                "rotation": [x for rows in rotations for row in rows for x in row],
            }

        return trace(frames, {"q": m.nq})

    def contacts(self) -> Program:
        """Trace q, v -> depth, velocity, force and the force's derivatives at every contact candidate."""
        m, law = self.model, self.laws.contact

        def contacts(q: list[Scalar], v: list[Scalar]) -> Groups:
            out: dict[str, list[Real]] = {name: [] for name in CONTACT_FIELDS}
            for point in World(m, normalize(m, q), v, []).contact_points:
                row = _contact(q[0].graph, point, law)
                for name, numbers in row.items():
                    out[name] += numbers
            return out

        return trace(contacts, {"q": m.nq, "v": m.nv})

    def contact_accelerations(self) -> Program:
        """Trace q, v, u -> acceleration of the link's material at every contact candidate."""
        m = self.model

        def accelerations(q: Reals, v: Reals, u: Reals, act: Reals = ()) -> Groups:
            world = World(m, normalize(m, q), v, u, act=act)
            qacc = dynamics.acceleration(m, world.motion, total_forces(world, [0.0] * m.nv, self.laws))
            links = dynamics.link_accelerations(m, world.motion, qacc)
            out: list[Real] = []
            for p in world.contact_points:
                # A spatial acceleration A lacks the change of direction of the velocity u: a = A.at(x) + ω × u.
                turning = world.motion.velocity[p.candidate.link].angular.cross(p.velocity)
                out += links[p.candidate.link].at(p.position) + turning
            return {"acceleration": out}

        return trace(accelerations, {"q": m.nq, "v": m.nv, "u": m.nu, **self._act})

    def contact_wrenches(self) -> Program:
        """Trace q, v -> contact wrench and velocity-product acceleration of every link with contact candidates."""
        m, law = self.model, self.laws.contact

        def wrenches(q: list[Scalar], v: list[Scalar]) -> Groups:
            world = World(m, normalize(m, q), v, [])
            total = contact.wrenches(world.contact_points, law)
            products = [_velocity_product(m, world.motion, i) for i in total]
            return {"wrench": _numbers(total.values()), "velocity_product_acceleration": _numbers(products)}

        return trace(wrenches, {"q": m.nq, "v": m.nv})

    @property
    def _act(self) -> dict[str, int]:
        """The group of activations and its size; none in a model without activations, whose kernels do not have it."""
        return {"act": self.model.na} if self.model.na else {}

    @property
    def _context_sizes(self) -> dict[str, int]:
        return {f"context_{i}": size for i, size in enumerate(self.context.values())}

    def _read(
        self,
        q: Reals,
        v: Reals,
        u: Reals,
        q0: Reals,
        v0: Reals,
        act: Reals = (),
        act0: Reals = (),
        **context: Reals,
    ) -> Groups:
        world = World(self.model, q, v, u, before=World(self.model, q0, v0, u, act=act0), act=act)
        world.context = {name: context[f"context_{i}"] for i, name in enumerate(self.context)}
        groups: Groups = {}
        # Numbered, because the user's names need not be valid in C++.
        for i, (name, (shape, numbers)) in enumerate(self._results(world).items()):
            self.shapes[name] = shape
            groups[f"read_{i}"] = numbers
        return groups

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
