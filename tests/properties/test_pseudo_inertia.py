"""Inertias from log-Cholesky coordinates: always physical, and those of the textbook formula."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ahac.sim.model.basics import Frame
from ahac.sim.model.parameters.inertial import BodyInertia, combine

often = settings(derandomize=True, deadline=None, max_examples=60, database=None)
"""The same examples in every run."""

COORDINATES = st.lists(st.floats(-2.0, 2.0), min_size=10, max_size=10)
SECOND_MOMENTS = st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=3)
IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
FRAME = Frame(link=0, position=(0.3, -0.2, 0.5), rotation=((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
"""Turned by a quarter about z."""
CENTER = (0.1, 0.2, -0.3)


def pseudo_inertia(mass: float, center: np.ndarray, six: tuple[float, ...]) -> np.ndarray:
    """[4, 4] about the origin, from the inertia about the center of mass."""
    xx, yy, zz, xy, xz, yz = six
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    second = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    out = np.empty((4, 4))
    out[:3, :3] = second + mass * np.outer(center, center)
    out[:3, 3] = out[3, :3] = mass * center
    out[3, 3] = mass
    return out


def body(second: list[float], mass: float, theta: list[float] | None) -> BodyInertia:
    a, b, c = second
    return BodyInertia(mass, CENTER, (b + c, a + c, a + b), IDENTITY, theta)


@often
@given(theta=COORDINATES, second=SECOND_MOMENTS, mass=st.floats(0.1, 10.0))
def test_coordinates_transform_the_pseudo_inertia_about_the_center_of_mass(
    theta: list[float], second: list[float], mass: float
) -> None:
    alpha, d1, d2, d3, s12, s23, s13, *t = theta
    upper = np.exp(alpha) * np.array(
        [[np.exp(d1), s12, s13, t[0]], [0, np.exp(d2), s23, t[1]], [0, 0, np.exp(d3), t[2]], [0, 0, 0, 1.0]]
    )
    expected = upper @ np.diag([*second, mass]) @ upper.T
    found_mass, center, six = body(second, mass, theta).on_link(FRAME)
    axes = np.array(FRAME.rotation)
    about_center = pseudo_inertia(float(found_mass), np.array(center), tuple(map(float, six)))
    move = np.eye(4)  # from the link's frame to the body's axes about the original center of mass
    move[:3, :3], move[:3, 3] = axes.T, -axes.T @ np.array(FRAME.position) - np.array(CENTER)
    found = move @ about_center @ move.T
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@often
@given(theta=COORDINATES, second=SECOND_MOMENTS, mass=st.floats(0.1, 10.0))
def test_inertias_are_physical_alone_and_merged(theta: list[float], second: list[float], mass: float) -> None:
    own = body(second, mass, theta).on_link(FRAME)
    merged = combine([own, body([0.2, 0.1, 0.3], 1.0, None).on_link(FRAME)])
    for part in (own, merged):
        xx, yy, zz, xy, xz, yz = part[2]
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], dtype=float)
        low, middle, high = np.linalg.eigvalsh(tensor)
        assert float(part[0]) > 0.0
        assert low > 0.0
        assert low + middle > high * (1.0 - 1e-9)
