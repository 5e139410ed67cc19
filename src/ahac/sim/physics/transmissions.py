"""Transmissions other than joints and tendons: ball joints, sites and slider-cranks."""

from __future__ import annotations

from collections.abc import Sequence

from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.operations import atan2, maximum, sqrt, where
from ahac.sim.model.types import WORLD, BallDrive, Model, SiteDrive, SliderCrank
from ahac.sim.physics.algebra import Mat3, Quat, Spatial, Vec3, norm, rotation_vector
from ahac.sim.physics.kinematics import Motion
from ahac.sim.physics.paths import Line, Path, Placement, line_between, lines_jacobian

__all__ = ["drive_path"]


def drive_path(model: Model, motion: Motion, drive: BallDrive | SiteDrive | SliderCrank, q: Sequence[Real]) -> Path:
    """Return length and directions of a transmission."""
    if isinstance(drive, BallDrive):
        return _ball(drive, q)
    place = Placement(motion)
    return _site(model, place, drive) if isinstance(drive, SiteDrive) else _slider_crank(model, place, drive)


def _ball(drive: BallDrive, q: Sequence[Real]) -> Path:
    rotation = Quat.of(q[drive.q : drive.q + 4])
    axis = Vec3.of(drive.gear)
    # The rotation vector is the same in both frames.
    length = rotation_vector(rotation).dot(axis) if drive.measured else 0.0
    if drive.in_parent:
        axis = rotation.matrix().transpose() @ axis
    return Path(length, {drive.v + k: x for k, x in enumerate(axis)})


def _site(model: Model, place: Placement, drive: SiteDrive) -> Path:
    site, reference = drive.site, drive.reference
    at = place.point(site.link, site.position)
    axes = place.axes(site if reference is None else reference)
    force, torque = axes @ Vec3.of(drive.force), axes @ Vec3.of(drive.torque)
    on_site = Spatial(at.cross(force) + torque, force)
    if reference is None:
        lines = [] if site.link == WORLD else [Line(WORLD, site.link, on_site, on_site)]
        return Path(0.0, lines_jacobian(model, place.motion, lines))
    base = place.point(reference.link, reference.position)
    between = at - place.about(base, reference.link, site.link)
    length = between.dot(force)
    if any(drive.torque):
        turned = axes.transpose().times(place.axes(site))
        length = length + _rotation_vector(turned).dot(Vec3.of(drive.torque))
    # A coordinate that moves both sites does not feel the actuator, though the two forces are not in line.
    line = Line(reference.link, site.link, on_site, Spatial(base.cross(force) + torque, force))
    return Path(length, lines_jacobian(model, place.motion, [line]))


def _rotation_vector(rotation: Mat3) -> Vec3:
    """Return axis times angle [rad] of a rotation matrix; exact but for rotations by almost half a turn."""
    x, y, z = rotation.rows
    twice = Vec3(z.y - y.z, x.z - z.x, y.x - x.y)
    sine = norm(twice)
    return twice * (atan2(sine, x.x + y.y + z.z - 1.0) / sine)


def _slider_crank(model: Model, place: Placement, drive: SliderCrank) -> Path:
    """Return the slider's position along its axis, at which the rod's end meets the crank's pin.

    With axis a and r from slider to pin it is a·r − √((a·r)² + rod² − r·r), or a·r where the rod is too short.
    """
    pin = place.point(drive.crank.link, drive.crank.position)
    slider = place.point(drive.slider.link, drive.slider.position)
    axis = place.axes(drive.slider).column(2)
    arm = pin - place.about(slider, drive.slider.link, drive.crank.link)
    along = axis.dot(arm)
    square = along * along + drive.rod**2 - arm.dot(arm)
    reach = sqrt(maximum(square, 1e-30))
    slope = axis - (axis * along - arm) * (1.0 / reach)
    direction = Vec3(*(where(square > 0.0, s, a) for s, a in zip(slope, axis, strict=True)))
    length = where(square > 0.0, along - reach, along)
    line = line_between(place, drive.slider.link, drive.crank.link, pin, direction)
    return Path(length, lines_jacobian(model, place.motion, [line]))
