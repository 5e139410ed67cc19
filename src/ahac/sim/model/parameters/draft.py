"""A copy of a model in which parameters take the place of constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ahac.sim.compiler.graph import Real
from ahac.sim.model.basics import RealVector
from ahac.sim.model.parameters.inertial import BodyInertia, combine
from ahac.sim.model.types import Actuator, ContactCandidate, Fluid, InertiaBox, Joint, Link, Matrix, Model, Tendon

__all__ = ["Draft"]


class Draft:
    """Collects the changes of a model; all functions take elements by name."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.gravity = model.gravity
        self.fluid: Fluid | None = model.fluid
        self.by_dof = {name: list(getattr(model, name)) for name in ("armature", "damping", "frictionloss")}
        self.joint_offsets = dict(model.joint_offsets)
        self._links: list[Link] = list(model.links)
        self._actuators = {actuator.name: actuator for actuator in model.actuators}
        self._tendons = {tendon.name: tendon for tendon in model.tendons}
        self._candidates: list[ContactCandidate] = list(model.contact_candidates)
        self._bodies: dict[str, BodyInertia] = {}

    def body(self, name: str) -> BodyInertia:
        """Return the inertia of a body, to be changed."""
        if name not in self._bodies:
            self._bodies[name] = BodyInertia.of(self.model.file_bodies[name], self.model.bodies[name])
        return self._bodies[name]

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

    def link(self, name: str, change: Callable[[Link], Link]) -> None:
        """Change a link."""
        self._links = [change(link) if link.name == name else link for link in self._links]

    def actuator(self, name: str, change: Callable[[Actuator], Actuator]) -> None:
        """Change an actuator."""
        self._actuators[name] = change(self._actuators[name])

    def tendon(self, name: str, change: Callable[[Tendon], Tendon]) -> None:
        """Change a tendon."""
        self._tendons[name] = change(self._tendons[name])

    def geom(self, name: str, change: Callable[[ContactCandidate], ContactCandidate]) -> None:
        """Change all contact points of a geom."""
        self._candidates = [change(point) if point.geom == name else point for point in self._candidates]

    def finish(self) -> Model:
        """Return the changed model."""
        changed = sorted({self.model.file_bodies[name].link for name in self._bodies})
        for index in changed:
            self._links[index] = self._with_inertia(index)
        if self.fluid is not None:
            self.fluid = replace(self.fluid, boxes=tuple(self._box(box) for box in self.fluid.boxes))
        compensation = [
            self._compensation(link) if link in changed else (link, mass, moment)
            for link, mass, moment in self.model.gravity_compensation
        ]
        return replace(
            self.model,
            gravity=self.gravity,
            fluid=self.fluid,
            links=tuple(self._links),
            actuators=tuple(self._actuators.values()),
            tendons=tuple(self._tendons.values()),
            contact_candidates=tuple(self._candidates),
            joint_offsets=self.joint_offsets,
            gravity_compensation=tuple(compensation),
            **{name: tuple(values) for name, values in self.by_dof.items()},
        )

    def _with_inertia(self, index: int) -> Link:
        link = self._links[index]
        members = self._members(index)
        if len(members) > 1 or any(body.pseudo is not None for body in members.values()):
            mass, center, tensor = combine(list(members.values()))
            return replace(link, mass=mass, center_of_mass=center, tensor=tensor)
        ((name, body),) = members.items()
        link = replace(link, mass=body.mass)
        original = self.model.file_bodies[name]
        if body.center_of_mass is not original.center_of_mass:
            link = replace(link, center_of_mass=body.on_link()[1])
        if body.moments is not original.moments:
            link = replace(link, moments=body.moments, principal=_product(body))
        return link

    def _members(self, link: int) -> dict[str, BodyInertia]:
        """Return the bodies of a link that have a mass or a parameter."""
        file = self.model.file_bodies
        names = [name for name, body in file.items() if body.link == link and (body.mass > 0.0 or name in self._bodies)]
        return {name: self._bodies.get(name) or BodyInertia.of(file[name], self.model.bodies[name]) for name in names}

    def _box(self, box: InertiaBox) -> InertiaBox:
        """Return the box of a body for drag."""
        if box.body not in self._bodies:
            return box
        body = self._bodies[box.body]
        _, center, _ = body.on_link()
        return replace(box, center=center, edges=body.box_edges())

    def _compensation(self, link: int) -> tuple[int, Real, RealVector]:
        """Return link, mass and mass · center of all bodies whose weight is compensated."""
        total: list[Real] = [0.0] * 4
        for name, body in self._members(link).items():
            factor = self.model.file_bodies[name].gravity_compensation
            mass, center, _ = body.on_link()
            total = [a + b * factor for a, b in zip(total, (mass, *(x * mass for x in center)), strict=True)]
        mass, x, y, z = total
        return link, mass, (x, y, z)


def _joint(model: Model, name: str) -> Joint:
    return next(joint for joint in model.joints if joint.name == name)


def _product(body: BodyInertia) -> Matrix:
    """Return the principal axes of a body in its link's frame."""
    rows = [
        [sum(a * row[k] for a, row in zip(axes, body.principal, strict=True)) for k in range(3)]
        for axes in body.frame.rotation
    ]
    (a, b, c), (d, e, f), (g, h, i) = rows
    return (a, b, c), (d, e, f), (g, h, i)
