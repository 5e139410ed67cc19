"""HTML players: the embedded data can be read back, and nothing refers to the network."""

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.view.html_player import save_html
from support.sample_scene import falling_ball


def unpacked(path: Path) -> tuple[dict[str, Any], bytes]:
    match = re.search(r'const DATA = "([^"]*)"', path.read_text(encoding="utf-8"))
    assert match is not None
    data = gzip.decompress(base64.b64decode(match[1]))
    size = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + size]), data[-(-(4 + size) // 4) * 4 :]


def array(header: dict[str, Any], data: bytes, name: str) -> np.ndarray:
    kind, offset, length = header[name]
    return np.frombuffer(data, dtype=f"<{kind}", count=length, offset=offset)


def test_an_html_player_holds_the_trajectory_at_thirty_frames_a_second(tmp_path: Path) -> None:
    trajectory = falling_ball(frames=61, worlds=2, dt=1 / 60)
    save_html(trajectory, tmp_path / "ball.html")
    header, data = unpacked(tmp_path / "ball.html")
    assert (header["frames"], header["worlds"], header["bodies"]) == (31, 2, 3)
    assert header["dt"] == pytest.approx(1 / 30)
    root = array(header, data, "root").reshape(31, 2, 1, 3)
    position = root + header["position_unit"] * array(header, data, "position").reshape(31, 2, 3, 3)
    # 16 bits over about one meter.
    assert position[:, :, 1:] == pytest.approx(trajectory.position[::2, :, 1:], abs=1e-4)
    quaternion = array(header, data, "quaternion").reshape(31, 2, 3, 4) / 32767
    assert quaternion == pytest.approx(trajectory.quaternion[::2], abs=1e-4)
    assert array(header, data, "force")[2] * header["force_unit"] == pytest.approx(1.0)  # In units of the weight.
    assert array(header, data, "curves")[:62] == pytest.approx(trajectory.channels["reward"][::2].ravel())
    anchor = array(header, data, "anchor").reshape(31, 2, 2)
    assert anchor[0] == pytest.approx(trajectory.position[0, :, 1, :2])
    assert (np.diff(anchor[..., 0], axis=0) > 0.0).all()
    assert (anchor[1:, :, 0] < trajectory.position[2::2, :, 1, 0]).all()


def test_slow_recordings_keep_every_frame(tmp_path: Path) -> None:
    save_html(falling_ball(frames=5, dt=0.05), tmp_path / "ball.html")
    assert unpacked(tmp_path / "ball.html")[0]["frames"] == 5


def test_an_html_player_is_small_and_requests_nothing(tmp_path: Path) -> None:
    save_html(falling_ball(), tmp_path / "ball.html")
    text = (tmp_path / "ball.html").read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert "ball &amp; arm" in text
    assert not re.findall(r"https?://|src=|import\(|fetch\(", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("__DATA__", "__DATA__"),
        ("__TITLE__", "__TITLE__"),
        ("__TITLE____DATA__", "__TITLE____DATA__"),
        (r"\g<0>\1", r"\g<0>\1"),
        ("</title><script>", "&lt;/title&gt;&lt;script&gt;"),
        ("a\x1bb\udcff", r"a\x1bb\udcff"),
    ],
)
def test_any_name_of_a_robot_is_the_title_and_nothing_else(name: str, shown: str, tmp_path: Path) -> None:
    trajectory = falling_ball()
    save_html(replace(trajectory, scene=replace(trajectory.scene, name=name)), tmp_path / "ball.html")
    text = (tmp_path / "ball.html").read_text(encoding="utf-8")
    assert re.findall("<title>(.*)</title>", text) == [f"ahac: {shown}".replace("<0>", "&lt;0&gt;")]
    assert unpacked(tmp_path / "ball.html")[0]["frames"] > 1


def test_a_non_finite_number_leaves_no_file(tmp_path: Path) -> None:
    trajectory = falling_ball()
    trajectory.quaternion[3, 0, 2, 1] = np.nan
    with pytest.raises(InputError, match=r"frame 3 .*body 'arm'"):
        save_html(trajectory, tmp_path / "ball.html")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        save_html(falling_ball(), tmp_path / "nowhere" / "ball.html")
