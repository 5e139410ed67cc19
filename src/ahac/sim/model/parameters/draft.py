"""A copy of a model in which parameters take the place of constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeGuard

from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.model.basics import WORLD, Frame, RealVector, Vector
from ahac.sim.model.file_types import FileBody, FileGeom
from ahac.sim.model.parameters.inertial import BodyInertia, combine, placed, plus, product
from ahac.sim.model.types import Actuator, ContactCandidate, Fluid, InertiaBox, Joint, Link, Model, Tendon

__all__ = ["Draft"]


class Draft:
    """Collects the changes of a model; all functions take elements by name."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.gravity: RealVector = model.gravity
        self.fluid: Fluid | None = model.fluid
        self.by_dof = {name: list(getattr(model, name)) for name in ("armature", "damping", "frictionloss")}
        self.joint_offsets: dict[int, Real] = dict(model.joint_offsets)
        self._links: list[Link] = list(model.links)
        self._actuators = {actuator.name: actuator for actuator in model.actuators}
        self._tendons = {tendon.name: tendon for tendon in model.tendons}
        self._candidates: list[ContactCandidate] = list(model.contact_candidates)
        self._bodies: dict[str, BodyInertia] = {}
        self._positions: dict[str, RealVector] = {}
        self._geom_positions: dict[str, RealVector] = {}

    def body(self, name: str) -> BodyInertia:
        """Return the inertia of a body, to be changed."""
        if name not in self._bodies:
            self._bodies[name] = BodyInertia.of(self.model.file_bodies[name])
        return self._bodies[name]

    def move_body(self, name: str, position: RealVector) -> None:
        """Set the position of a body in its parent's frame."""
        self._positions[name] = position

    def dofs(self, field: str, joint: str, values: Sequence[Real]) -> None:
        """Set armature, damping or dry friction of a joint."""
        for k, value in zip(_joint(self.model, joint).dofs, values, strict=True):
            self.by_dof[field][k] = value

    def joint(self, name: str, change: Callable[[Joint], Joint]) -> None:
        """Change a joint."""
        for i, link in enumerate(self._links):
            if any(joint.name == name for joint in link.joints):
                joints = tuple(change(joint) if joint.name == name else joint for joint in link.joints)
                self._links[i] = replace(link, joints=joints)

    def actuator(self, name: str, change: Callable[[Actuator], Actuator]) -> None:
        """Change an actuator."""
        self._actuators[name] = change(self._actuators[name])

    def tendon(self, name: str, change: Callable[[Tendon], Tendon]) -> None:
        """Change a tendon."""
        self._tendons[name] = change(self._tendons[name])

    def geom(self, name: str, change: Callable[[ContactCandidate], ContactCandidate]) -> None:
        """Change all contact points of a geom."""
        self._candidates = [change(point) if point.geom == name else point for point in self._candidates]

    def move_geom(self, name: str, position: RealVector) -> None:
        """Move all contact points of a geom, whose position in its body's frame is given."""
        geom = self.model.file_geoms[name]
        x, y, z = (value - default for value, default in zip(position, geom.position, strict=True))
        axes = self.model.bodies[geom.body].rotation
        self.geom(name, lambda point: replace(point, center=placed(point.center, axes, (x, y, z))))
        self._geom_positions[name] = position

    def finish(self) -> Model:
        """Return the changed model."""
        moved = self._moved_bodies()
        file = self.model.file_bodies
        frames = {name: _moved(frame, moved.get(name)) for name, frame in self.model.bodies.items()}
        self._place_links(frames, moved)
        heavy = {name for name in moved if file[name].mass > 0.0}
        changed = {file[name].link for name in {*self._bodies, *heavy}} - {WORLD}
        members = {index: self._members(index) for index in changed}
        for index, bodies in members.items():
            self._links[index] = self._with_inertia(index, bodies, frames, moved)
        if self.fluid is not None:
            boxes = tuple(self._box(box, members.get(box.link, {}), frames) for box in self.fluid.boxes)
            self.fluid = replace(self.fluid, boxes=boxes)
        sites = {
            name: _moved(frame, moved.get(self.model.site_bodies.get(name, "")))
            for name, frame in self.model.sites.items()
        }
        return replace(
            self.model,
            gravity=self.gravity,
            fluid=self.fluid,
            links=tuple(self._links),
            actuators=tuple(self._actuators.values()),
            tendons=tuple(self._tendons.values()),
            contact_candidates=tuple(self._moved_point(point, moved) for point in self._candidates),
            bodies=frames,
            sites=sites,
            file_bodies=self._file_bodies(),
            file_geoms={name: self._file_geom(name, geom) for name, geom in self.model.file_geoms.items()},
            joint_offsets=self.joint_offsets,
            gravity_compensation=tuple(
                self._compensation(link, members[link], frames) if link in members else (link, mass, moment)
                for link, mass, moment in self.model.gravity_compensation
            ),
            **{name: tuple(values) for name, values in self.by_dof.items()},
        )

    def _file_bodies(self) -> dict[str, FileBody]:
        """Return the bodies of the file, from whose numbers later parameters of the model begin."""
        bodies = dict(self.model.file_bodies)
        for name, inertia in self._bodies.items():
            if not inertia.traced:
                bodies[name] = inertia.on_file(bodies[name])
        for name, position in self._positions.items():
            if _are_numbers(position):
                bodies[name] = replace(bodies[name], position=position)
        return bodies

    def _file_geom(self, name: str, geom: FileGeom) -> FileGeom:
        position = self._geom_positions.get(name, geom.position)
        return replace(geom, position=position) if _are_numbers(position) else geom

    def _moved_bodies(self) -> dict[str, RealVector]:
        """Return how far parameters move bodies without joints in the frame of their link, by name.

        A body moves with its parent, as far as the joints between links.
        """
        moved: dict[str, RealVector] = {}
        for name, body in self.model.file_bodies.items():  # parents first
            if body.jointed:
                continue
            shift = moved.get(body.parent)
            if name in self._positions:
                x, y, z = (a - b for a, b in zip(self._positions[name], body.position, strict=True))
                own = placed((0.0, 0.0, 0.0), self.model.bodies[body.parent].rotation, (x, y, z))
                shift = own if shift is None else plus(shift, own)
            if shift is not None:
                moved[name] = shift
        return moved

    def _place_links(self, frames: dict[str, Frame], moved: dict[str, RealVector]) -> None:
        for name, body in self.model.file_bodies.items():
            if not body.jointed or body.free:
                continue
            if name in self._positions or body.parent in moved:
                parent = frames[body.parent]
                at = placed(parent.position, parent.rotation, self._positions.get(name, body.position))
                self._links[body.link] = replace(self._links[body.link], position=at)

    def _members(self, link: int) -> dict[str, BodyInertia]:
        """Return the bodies of a link that have a mass or a parameter."""
        file = self.model.file_bodies
        names = [name for name, body in file.items() if body.link == link and (body.mass > 0.0 or name in self._bodies)]
        return {name: self._bodies.get(name) or BodyInertia.of(file[name]) for name in names}

    def _with_inertia(
        self, index: int, members: dict[str, BodyInertia], frames: dict[str, Frame], moved: dict[str, RealVector]
    ) -> Link:
        link = self._links[index]
        if len(members) > 1 or any(body.pseudo is not None for body in members.values()):
            mass, center, tensor = combine([body.on_link(frames[name]) for name, body in members.items()])
            return replace(link, mass=mass, center_of_mass=center, tensor=tensor)
        # Mass, center and moments of a single body change on their own.
        ((name, body),) = members.items()
        original = self.model.file_bodies[name]
        link = replace(link, mass=body.mass)
        if body.center_of_mass is not original.center_of_mass or name in moved:
            link = replace(link, center_of_mass=body.on_link(frames[name])[1])
        if body.moments is not original.moments:
            principal = product(frames[name].rotation, body.principal)
            link = replace(link, moments=body.moments, principal=principal, tensor=None)
        return link

    def _box(self, box: InertiaBox, members: dict[str, BodyInertia], frames: dict[str, Frame]) -> InertiaBox:
        """Return the box of a body for drag."""
        if box.body not in members:
            return box
        body = members[box.body]
        return replace(box, center=body.on_link(frames[box.body])[1], edges=body.box_edges())

    def _compensation(
        self, link: int, members: dict[str, BodyInertia], frames: dict[str, Frame]
    ) -> tuple[int, Real, RealVector]:
        """Return link, mass and mass · center of all bodies whose weight is compensated."""
        total: list[Real] = [0.0] * 4
        for name, body in members.items():
            factor = self.model.file_bodies[name].gravity_compensation
            mass, center, _ = body.on_link(frames[name])
            total = [a + b * factor for a, b in zip(total, (mass, *(x * mass for x in center)), strict=True)]
        mass, x, y, z = total
        return link, mass, (x, y, z)

    def _moved_point(self, point: ContactCandidate, moved: dict[str, RealVector]) -> ContactCandidate:
        shift = moved.get(self.model.file_geoms[point.geom].body) if moved else None
        return point if shift is None else replace(point, center=plus(point.center, shift))


def _joint(model: Model, name: str) -> Joint:
    return next(joint for joint in model.joints if joint.name == name)


def _are_numbers(values: Sequence[Real]) -> TypeGuard[Vector]:
    return not any(isinstance(value, Scalar) for value in values)


def _moved(frame: Frame, shift: RealVector | None) -> Frame:
    return frame if shift is None else replace(frame, position=plus(frame.position, shift))
