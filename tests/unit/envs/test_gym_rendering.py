"""Images of Gymnasium environments: what they show, Gymnasium's RecordVideo, and errors."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import ahac
from ahac.envs.gym import GymEnv, GymVectorEnv
from ahac.sim import InputError
from support.graphics import require_graphics

SIZE: dict[str, Any] = {"width": 64, "height": 48}
EPISODE = 3


class Clip:
    """Stands in for the video of moviepy, which is not installed: keeps the frames."""

    frames: ClassVar[list[np.ndarray]] = []

    def __init__(self, frames: list[np.ndarray], fps: float) -> None:
        self.frames.extend(frames)
        self.fps = fps

    def write_videofile(self, path: str, logger: object) -> None:
        Path(path).write_text(f"{self.fps:.0f}")


@pytest.fixture
def moviepy(monkeypatch: pytest.MonkeyPatch) -> type[Clip]:
    """Install modules with the names of moviepy's."""
    for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = Clip  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(Clip, "frames", [])
    return Clip


def make(num_envs: int | None = None, **settings: Any) -> Any:  # noqa: ANN401
    settings = {"render_mode": "rgb_array", "episode_steps": EPISODE, "seed": 0, **SIZE, **settings}
    return ahac.make_gym("hopper", num_envs, **settings)


def is_image(image: object) -> bool:
    return isinstance(image, np.ndarray) and image.shape == (48, 64, 3) and image.dtype == np.uint8


def differ(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether more than a few pixels of two images differ."""
    return (np.abs(a.astype(int) - b).max(axis=-1) > 8).sum() > 5


def test_a_single_world_is_rendered_and_moves() -> None:
    require_graphics()
    env = make()
    assert isinstance(env, GymEnv)
    assert env.render_mode == "rgb_array"
    env.reset(seed=0)
    first, again = env.render(), env.render()
    assert is_image(first)
    assert first.std() > 10.0
    assert not differ(first, again)
    for _ in range(EPISODE):
        env.step(np.ones(3, dtype=np.float32))
    over = env.render()
    assert differ(over, first), "the last state of the episode"
    env.reset()
    assert differ(over, env.render())
    env.close()
    assert not differ(env.render(), env.render()), "a new process is started"
    env.close()


def test_every_world_is_rendered() -> None:
    require_graphics()
    env = make(3, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert isinstance(env, GymVectorEnv)
    env.reset(seed=0)
    images = env.render()
    assert len(images) == 3
    assert all(map(is_image, images))
    push = np.zeros((3, 3), dtype=np.float32)
    push[1] = 1.0
    for _ in range(EPISODE):
        env.step(push)
    ended = env.render()
    assert differ(ended[1], images[1])
    assert differ(ended[1], ended[0])
    env.step(push)
    assert differ(env.render()[1], ended[1]), "the first state of the next episode"
    env.close()


def test_gymnasium_records_videos(moviepy: type[Clip], tmp_path: Path) -> None:
    require_graphics()
    made = gymnasium.make("ahac.envs.gym:ahac/Hopper-v0", render_mode="rgb_array", episode_steps=EPISODE, **SIZE)
    env = gymnasium.wrappers.RecordVideo(made, str(tmp_path / "videos"), episode_trigger=lambda episode: True)
    env.reset(seed=0)
    for _ in range(EPISODE):
        env.step(np.zeros(3, dtype=np.float32))
    env.close()
    assert [path.read_text() for path in (tmp_path / "videos").iterdir()] == ["60"]
    assert len(moviepy.frames) == EPISODE + 1
    assert all(map(is_image, moviepy.frames))


@pytest.mark.filterwarnings("ignore:.*A Box observation space (minimum|maximum) value is -?infinity")
def test_gymnasiums_checker_accepts_the_images() -> None:
    require_graphics()
    env = gymnasium.make("ahac.envs.gym:ahac/Cartpole-v0", render_mode="rgb_array", **SIZE)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("num_envs", [None, 2])
def test_another_render_mode_is_refused(num_envs: int | None) -> None:
    with pytest.raises(InputError, match=r"render_mode must be 'rgb_array' or None, got 'human'; `ahac play`"):
        make(num_envs, render_mode="human")


@pytest.mark.parametrize("num_envs", [None, 2])
def test_rendering_needs_a_render_mode(num_envs: int | None) -> None:
    with pytest.raises(InputError, match=r"make it with render_mode='rgb_array'"):
        make(num_envs, render_mode=None).render()


def test_an_image_that_is_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="width must be"):
        make(width=4)


def test_without_graphics_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disable")
    with pytest.raises(InputError, match=r"cannot render without a display .*pip install 'ahac\[view\]'"):
        make().render()
