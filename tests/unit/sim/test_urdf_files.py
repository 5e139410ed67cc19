"""URDFs as they are found: meshes in packages, and inertias that no rigid body has."""

import struct
from pathlib import Path

import numpy as np
import pytest

from ahac.sim import ModelError, load_model

INERTIA = '<inertial><mass value="{mass}"/><inertia ixx="{ixx}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def urdf(mesh: str = "package://my_robot/meshes/part.stl", mass: float = 1.0, ixx: float = 1.0) -> str:
    arm = INERTIA.format(mass=mass, ixx=ixx)
    return f"""<robot name="r"><link name="base">{INERTIA.format(mass=1, ixx=1)}</link>
    <link name="arm">{arm}<collision><geometry><mesh filename="{mesh}"/></geometry></collision></link>
    <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def stl() -> bytes:
    """A tetrahedron as a binary STL."""
    vertices = 0.1 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    content = bytes(80) + struct.pack("<I", 4)
    for face in ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)):
        content += struct.pack("<12fH", 0, 0, 0, *vertices[list(face)].ravel(), 0)
    return content


def saved(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("robot", "mesh"),
    [
        ("my_robot/urdf/r.urdf", "my_robot/meshes/part.stl"),  # the package is a parent folder
        ("robots/r.urdf", "robots/my_robot/meshes/part.stl"),  # it lies beside the file
        ("deep/robots/urdf/r.urdf", "deep/my_robot/meshes/part.stl"),  # beside a parent folder
        ("renamed/urdf/r.urdf", "renamed/meshes/part.stl"),  # it has another name
    ],
)
def test_packages_are_found_in_parent_folders(robot: str, mesh: str, tmp_path: Path) -> None:
    saved(tmp_path / mesh, stl())
    model = load_model(saved(tmp_path / robot, urdf()), ground=True)
    assert len(model.contact_candidates) == 4


def test_the_nearest_package_of_that_name_counts(tmp_path: Path) -> None:
    saved(tmp_path / "my_robot/my_robot/meshes/part.stl", stl())
    saved(tmp_path / "my_robot/meshes/part.stl", b"not a mesh")
    assert load_model(saved(tmp_path / "my_robot/my_robot/urdf/r.urdf", urdf())).nv == 1


def test_relative_meshes_are_still_found(tmp_path: Path) -> None:
    saved(tmp_path / "meshes/part.stl", stl())
    assert load_model(saved(tmp_path / "urdf/r.urdf", urdf("../meshes/part.stl"))).nv == 1


@pytest.mark.parametrize("as_text", [True, False])
def test_missing_mesh_mentions_assets_which_work(as_text: bool, tmp_path: Path) -> None:
    source = urdf() if as_text else saved(tmp_path / "r.urdf", urdf())
    with pytest.raises(ModelError, match=r"package:.*part\.stl.*\n.*in its parent folders.*assets=\{'base\.stl'"):
        load_model(source)
    assert load_model(source, assets={"part.stl": stl()}).nv == 1


@pytest.mark.parametrize(("mass", "ixx"), [(1.0, 5.0), (0.0, 0.0), (1.0, -1.0)])
def test_bad_inertia_is_balanced_on_request(mass: float, ixx: float, tmp_path: Path) -> None:
    saved(tmp_path / "part.stl", stl())
    source = saved(tmp_path / "r.urdf", urdf("part.stl", mass, ixx))
    with pytest.raises(
        ModelError, match=r"cannot compile .*\n(.*\n)*load_model\(\.\.\., balance_inertia=True\) repairs"
    ):
        load_model(source)
    arm = load_model(source, balance_inertia=True).links[0]
    assert arm.mass >= 1e-3
    assert min(arm.moments) >= 1e-6
    assert arm.moments[0] + arm.moments[1] >= arm.moments[2] - 1e-12


def test_good_inertia_is_not_changed_by_balancing(tmp_path: Path) -> None:
    saved(tmp_path / "part.stl", stl())
    source = saved(tmp_path / "r.urdf", urdf("part.stl"))
    assert load_model(source, balance_inertia=True) == load_model(source)
