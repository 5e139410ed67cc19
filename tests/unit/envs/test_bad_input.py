"""Invalid arguments: each error names what it received and what it expected."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError
from ahac.envs import VecEnv, make, make_task, tasks
from support.episodes import assert_same

WORLDS = 3


@pytest.fixture(scope="module")
def env(device: torch.device) -> VecEnv:
    return make("cartpole", num_envs=WORLDS, device=device)


ACTIONS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "too narrow": (
        lambda a: a[:, :0],
        r"action must be a torch.float32 tensor of shape \[3, 1\] on .*, got torch.float32 \[3, 0\]",
    ),
    "too few worlds": (lambda a: a[:2], r"shape \[3, 1\] on .*, got torch.float32 \[2, 1\]"),
    "one world": (lambda a: a[0], r"shape \[3, 1\] on .*, got torch.float32 \[1\]"),
    "double": (lambda a: a.double(), r"must be a torch.float32 tensor .*, got torch.float64 \[3, 1\]"),
    "whole numbers": (lambda a: a.int(), r"must be a torch.float32 tensor .*, got torch.int32 \[3, 1\]"),
    "elsewhere": (lambda a: a.to("meta"), r"on (cpu|cuda:\d), got torch.float32 \[3, 1\] on meta"),
    "array": (lambda a: a.cpu().numpy(), r"action must be a torch.float32 tensor of shape \[3, 1\] on .*, got ndarray"),
    "list": (lambda a: a.tolist(), r"action must be a torch.float32 tensor of shape \[3, 1\] on .*, got list"),
    "nothing": (lambda a: None, r"action must be a torch.float32 tensor of shape \[3, 1\] on .*, got NoneType"),
    "sparse": (lambda a: a.to_sparse(), r"got a tensor of layout torch.sparse_coo; convert it with .to_dense\(\)"),
    "compressed": (lambda a: a.to_sparse_csr(), r"got a tensor of layout torch.sparse_csr; convert"),
    "nested": (lambda a: torch.nested.nested_tensor([*a]), r"tensor of shape \[3, 1\] on .*, got a nested tensor"),
    "jagged": (lambda a: torch.nested.nested_tensor([*a], layout=torch.jagged), r"got a nested tensor"),
    "mkldnn": (lambda a: a.cpu().to_mkldnn(), r"got a tensor of layout torch._mkldnn; convert"),
}


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype:UserWarning", "ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize("mistake", ACTIONS)
def test_a_wrong_action_is_refused_and_changes_nothing(mistake: str, env: VecEnv) -> None:
    spoil, message = ACTIONS[mistake]
    before = env.state_dict()
    with pytest.raises(InputError, match=message):
        env.step(spoil(torch.zeros(WORLDS, 1, device=env.spec.device)))
    assert_same(env.state_dict(), before)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_envs": 0}, "num_envs must be a whole number of at least 1, got 0"),
        ({"num_envs": -4}, "num_envs must be a whole number of at least 1, got -4"),
        ({"num_envs": True}, "num_envs must be a whole number of at least 1, got True"),
        ({"num_envs": 2.5}, "num_envs must be a whole number of at least 1, got 2.5"),
        ({"num_envs": "8"}, "num_envs must be a whole number of at least 1, got '8'"),
        ({"variant": "original"}, "no variant named 'original'; known: paper, released"),
        ({"episode_steps": 0}, "episode_steps must be .*at least 1, got 0"),
        ({"episode_steps": -1}, "episode_steps must be .*at least 1, got -1"),
        ({"episode_steps": 2.5}, "episode_steps must be .*at least 1, got 2.5"),
        ({"episode_steps": True}, "episode_steps must be .*at least 1, got True"),
        ({"episode_steps": "10"}, "episode_steps must be .*at least 1, got '10'"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64, got torch.float16"),
        ({"dtype": torch.int64}, "dtype must be torch.float32 or torch.float64, got torch.int64"),
        ({"device": "meta"}, "device must be 'cpu' or a CUDA device such as 'cuda:0', got 'meta'"),
        ({"num_threads": 0}, "num_threads must be a whole number of at least 1, got 0"),
        ({"seed": True}, "seed must be a whole number of at least 0, got True"),
        ({"seed": 1.5}, "seed must be a whole number of at least 0, got 1.5"),
        ({"seed": "1"}, "seed must be a whole number of at least 0, got '1'"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("cartpole", **{"num_envs": 2, **setting})


@pytest.mark.parametrize("seed", [True, 1.5, "1"])
def test_a_wrong_seed_of_a_reset_is_refused_and_changes_nothing(seed: Any, env: VecEnv) -> None:  # noqa: ANN401
    before = env.state_dict()
    with pytest.raises(InputError, match=f"seed must be a whole number of at least 0, got {seed!r}"):
        env.reset(seed)
    assert_same(env.state_dict(), before)


def test_an_unknown_task_is_refused_with_all_known_names() -> None:
    with pytest.raises(
        InputError, match=rf"no task named 'hoper' \(did you mean hopper\?\); known: {', '.join(tasks())}"
    ):
        make("hoper", num_envs=2)


def test_what_is_neither_a_name_nor_a_task_is_refused() -> None:
    with pytest.raises(InputError, match=r"task must be a Task or a name from ahac.tasks\(\), got Model"):
        make(make_task("cartpole").model, num_envs=2)  # pyright: ignore[reportArgumentType]


STATES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "missing entry": (
        lambda s: s.pop("clock"),
        "a saved state must have the entries .*clock.*; this one differs in clock",
    ),
    "unknown entry": (lambda s: s.update(more=s["q"]), "this one differs in more"),
    "fewer worlds": (
        lambda s: s.update(q=s["q"][:2]),
        r"'q' of a saved cartpole must have shape \[3, 2\], got \[2, 2\]",
    ),
    "another robot": (lambda s: s.update(v=s["v"].repeat(1, 3)), r"'v' .* must have shape \[3, 2\], got \[3, 6\]"),
    "no generator": (
        lambda s: s.update(generator=s["generator"][:1]),
        "'generator' of a saved cartpole must be the state of",
    ),
    "not a tensor": (
        lambda s: s.update(obs=s["obs"].tolist()),
        r"'obs' of a saved cartpole must have shape .*, got list",
    ),
    "sparse": (
        lambda s: s.update(v=s["v"].to_sparse()),
        r"'v' of a saved cartpole must have shape .*, got a tensor of layout",
    ),
}


@pytest.mark.parametrize("mistake", STATES)
def test_a_wrong_saved_state_is_refused_and_changes_nothing(mistake: str, env: VecEnv) -> None:
    spoil, message = STATES[mistake]
    before, state = env.state_dict(), env.state_dict()
    for name in ("q", "v", "obs", "clock", "noise"):
        state[name] += 1.0
    spoil(state)
    with pytest.raises(InputError, match=message):
        env.load_state_dict(state)
    assert_same(env.state_dict(), before)


def test_a_saved_state_of_another_dtype_is_converted(env: VecEnv) -> None:
    saved = env.state_dict()
    wide = {name: x.double() if x.is_floating_point() else x for name, x in saved.items()}
    env.reset(seed=2)
    env.load_state_dict(wide)
    assert_same(env.state_dict(), saved)
    assert env.state.q.dtype == torch.float32


def test_what_is_saved_and_loaded_are_copies(env: VecEnv) -> None:
    before, saved = env.state_dict(), env.state_dict()
    env.load_state_dict(saved)
    for value in (*saved.values(), *env.state_dict().values()):
        value.zero_()
    assert_same(env.state_dict(), before)


@pytest.mark.parametrize(
    "worlds", [[True, False, True], torch.ones(WORLDS), torch.ones(2, dtype=torch.bool)], ids=["list", "float", "two"]
)
def test_a_wrong_mask_of_worlds_to_detach_is_refused(worlds: Any, env: VecEnv) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=r"worlds must be a torch.bool tensor of shape \[3\] on .*, got"):
        env.detach(worlds)
