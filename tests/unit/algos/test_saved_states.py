"""Saved states of algorithms: entries that do not fit are refused by name before anything is changed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ahac.algos.algorithm import Algorithm
from ahac.algos.policy_state import load_policy_state
from ahac.core.errors import InputError, NonFiniteError
from ahac.core.rng import is_generator_state
from ahac.nets.state_dicts import LearnedState, all_finite, check_state
from ahac.training.checkpoint import load_checkpoint
from ahac.training.run import open_run
from learning.double_integrator import DoubleIntegrator
from support.small_algorithms import SETTINGS, make_small_algorithm, worlds

RUNS = Path(__file__).parents[2] / "fixtures" / "runs-0.1.0"
State = dict[str, Tensor]
NAN = float("nan")


@pytest.fixture(scope="module")
def saved() -> dict[str, State]:
    """State of every algorithm after a few iterations."""
    actual = {}
    for name in SETTINGS:
        env = worlds()
        one = make_small_algorithm(name, env)
        train(one, env, 3)
        actual[name] = one.state_dict()
    return actual


def train(one: Algorithm, env: DoubleIntegrator, iterations: int) -> None:
    for _ in range(iterations):
        assert one.iterate(env, 0.0).failure is None


def same(actual: State, expected: State) -> bool:
    return actual.keys() == expected.keys() and all(_equal(actual[name], expected[name]) for name in expected)


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def refused(one: Algorithm, state: dict[str, object]) -> str:
    with pytest.raises(InputError) as error:
        one.load_state_dict(state)  # pyright: ignore[reportArgumentType]
    return str(error.value)


# ------------------------------------------------------------------------------------------------------ every entry

Change = Callable[[Tensor], object]


def _short(x: Tensor) -> Tensor:
    return x.new_zeros(3 if x.numel() == 1 else 1)


FAULTS: dict[str, Change] = {
    "too short": _short,
    "another dimension": lambda x: x[None],
    "longer by a row": lambda x: torch.cat([x.reshape(1, -1)] * 2),
    "empty": lambda x: x.new_zeros(0),
    "bool": lambda x: x > 0,
    "whole numbers": lambda x: x.float() if x.dtype == torch.int64 else x.to(torch.int64),
    "half precision": lambda x: x.half(),
    "no tensor": lambda x: None,
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_entry_of_another_shape_or_type_is_refused_by_name(saved: dict[str, State], name: str, fault: str) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    before = one.state_dict()
    for entry, value in saved[name].items():
        message = refused(one, {**saved[name], entry: FAULTS[fault](value)})
        assert f"the saved {entry!r} is" in message
        assert "expected" in message
    assert same(one.state_dict(), before), "something was written"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_missing_a_renamed_and_an_unknown_entry_are_refused_by_name(saved: dict[str, State], name: str) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    before = one.state_dict()
    for entry in saved[name]:
        rest = {key: x for key, x in saved[name].items() if key != entry}
        assert f"has no {entry!r}; expected" in refused(one, dict(rest))
        odd = f"{entry}x"
        renamed = refused(one, {**rest, odd: saved[name][entry]})
        assert f"has no {entry!r}, got {odd!r} instead; expected" in renamed
        assert f"unknown entry {odd!r}" in refused(one, {**saved[name], odd: saved[name][entry]})
    assert same(one.state_dict(), before), "something was written"


@pytest.mark.parametrize("name", SETTINGS)
def test_the_state_itself_is_accepted_also_in_the_other_precision(saved: dict[str, State], name: str) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    swapped = {torch.float32: torch.float64, torch.float64: torch.float32}
    given = {key: x.to(swapped.get(x.dtype, x.dtype)) for key, x in saved[name].items()}
    one.load_state_dict(given)
    actual = one.state_dict()
    for key, x in saved[name].items():
        assert actual[key].dtype == x.dtype
        expected = x if x.dtype == torch.float32 else given[key].to(x.dtype)
        assert _equal(actual[key], expected), key
    one.load_state_dict(saved[name])
    assert same(one.state_dict(), saved[name])


@pytest.mark.parametrize("name", ["shac", "ahac, paper", "ppo", "sac"])
def test_the_rng_state_of_a_gpu_is_accepted_and_a_damaged_one_is_refused(saved: dict[str, State], name: str) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    one.load_state_dict({**saved[name], "generator": torch.zeros(16, dtype=torch.uint8)})
    before = one.state_dict()
    damaged = torch.full_like(saved[name]["generator"], 255)
    assert not is_generator_state(damaged)
    assert "the saved 'generator' is uint8 of shape" in refused(one, {**saved[name], "generator": damaged})
    assert same(one.state_dict(), before)


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("ahac", "horizon.horizon", torch.tensor(NAN, dtype=torch.float64)),
        ("ahac, esnr", "horizon.place", torch.tensor([99, 0, 0])),
        ("ahac, esnr", "horizon.place", torch.tensor([0, -1, 0])),
        ("ahac, esnr", "horizon.place", torch.tensor([0, 0, -1])),
        ("sac", "replay.added", torch.tensor(-1)),
    ],
)
def test_meaningless_numbers_are_refused(saved: dict[str, State], name: str, entry: str, value: Tensor) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    before = one.state_dict()
    assert refused(one, {**saved[name], entry: value})
    assert same(one.state_dict(), before)


def test_multipliers_that_are_not_finite_are_refused(saved: dict[str, State]) -> None:
    one = make_small_algorithm("ahac, paper", worlds(), seed=1)
    corrupted = {**saved["ahac, paper"]}
    corrupted["horizon.phi"] = torch.full_like(corrupted["horizon.phi"], float("inf"))
    before = one.state_dict()
    assert "multipliers" in refused(one, dict(corrupted))
    assert same(one.state_dict(), before)


# -------------------------------------------------------------------------------------------------- not finite


POLICY = ("actor.", "normalizer.", "net.policy.", "net.trunk.", "net.log_std")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value", [NAN, float("inf")])
def test_a_policy_that_is_not_finite_is_refused_as_such(saved: dict[str, State], name: str, value: float) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    before = one.state_dict()
    entries = [entry for entry in saved[name] if entry.startswith(POLICY)]
    assert len(entries) > 3
    for entry in entries:
        corrupted = {key: x.clone() for key, x in saved[name].items()}
        corrupted[entry].view(-1)[-1] = value
        with pytest.raises(NonFiniteError) as error:
            one.load_state_dict(corrupted)
        what = "observation statistics" if entry.startswith("normalizer.") else "weights"
        assert str(error.value) == (
            f"the policy's {what} are not finite ({entry}); evaluate or resume from another checkpoint: "
            "--checkpoint best or iteration-NNNNNN"
        )
        assert same(one.state_dict(), before)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("shac", "critic.theta"),
        ("shac", "target.theta"),
        ("ahac", "critic.theta"),
        ("ppo", "net.critic.0.weight"),
        ("ppo", "value_normalizer.variance"),
        ("sac", "critic.q.weights.0"),
        ("svg", "model.dynamics.decoder.0.weight"),
        ("fasttd3", "exploration.std"),
    ],
)
def test_other_non_finite_state_can_be_evaluated_and_is_named_by_the_first_iteration(
    saved: dict[str, State], name: str, entry: str
) -> None:
    env = worlds()
    one = make_small_algorithm(name, env, seed=1)
    train(one, env, 2)  # which fills a replay
    corrupted = {key: x.clone() for key, x in saved[name].items()}
    if "replay.added" in corrupted:
        corrupted["replay.added"] = one.state_dict()["replay.added"]
    corrupted[entry].fill_(NAN)
    one.load_state_dict(corrupted)
    assert torch.isfinite(one.act(env.obs)).all()
    with pytest.raises(NonFiniteError, match=rf"learned state is not finite \({entry}\).*--checkpoint best"):
        train(one, env, 1)


# ------------------------------------------------------------------------------------------------ policy alone


@pytest.mark.parametrize("name", SETTINGS)
def test_the_policy_alone_acts_as_the_whole_state_does(saved: dict[str, State], name: str) -> None:
    env = worlds()
    whole, alone = (make_small_algorithm(name, env, seed=seed) for seed in (1, 2))
    whole.load_state_dict(saved[name])
    others = {key: x for key, x in alone.state_dict().items() if key not in alone.policy_state}
    load_policy_state(alone, {key: saved[name][key] for key in alone.policy_state})
    assert torch.equal(alone.act(env.obs), whole.act(env.obs))
    after = alone.state_dict()
    assert same({key: after[key] for key in others}, others), "more than the policy was loaded"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_policy_that_does_not_fit_is_refused_and_changes_nothing(saved: dict[str, State], name: str) -> None:
    one = make_small_algorithm(name, worlds(), seed=1)
    before = one.state_dict()
    policy = {key: saved[name][key] for key in one.policy_state}
    entry = next(iter(policy))
    for wrong, message in (
        ({key: x for key, x in policy.items() if key != entry}, f"has no {entry!r}"),
        ({**policy, entry: policy[entry][None]}, f"the saved {entry!r} is"),
        (saved[name], "unknown entry"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            load_policy_state(one, wrong)
    with pytest.raises(NonFiniteError, match="the policy's weights are not finite"):
        load_policy_state(one, {**policy, entry: torch.full_like(policy[entry], NAN)})
    assert same(one.state_dict(), before)


# ---------------------------------------------------------------------------------------------------------- others


@pytest.mark.parametrize("folder", sorted(path.name for path in RUNS.iterdir() if path.is_dir()))
def test_checkpoints_of_version_0_1_0_still_load(folder: str) -> None:
    state = load_checkpoint(RUNS / folder / "checkpoints" / "last.safetensors").section("algo")
    algo = open_run(RUNS / folder, device="cpu").algo
    algo.load_state_dict(state)
    assert same(algo.state_dict(), state)


def test_saved_states_are_copies_and_loading_leaves_tensors_in_place(saved: dict[str, State]) -> None:
    env = worlds()
    one = make_small_algorithm("ppo", env)
    learned = one.learned.tensors  # pyright: ignore[reportAttributeAccessIssue]
    places = {name: x.data_ptr() for name, x in learned.items()}
    kept = one.state_dict()
    copy = {name: x.clone() for name, x in kept.items()}
    one.load_state_dict(saved["ppo"])
    one.iterate(env, 0.0)
    assert same(kept, copy)
    assert {name: x.data_ptr() for name, x in learned.items()} == places


def test_saved_tensors_are_restored() -> None:
    x, y = torch.arange(3.0), torch.tensor(5.0, dtype=torch.float64)
    learned = LearnedState({"a": {"x": x}, "b": {"y": y}})
    learned.save()
    x += 1.0
    y.fill_(NAN)
    assert not learned.is_finite()
    learned.restore()
    assert (x.tolist(), y.item()) == ([0.0, 1.0, 2.0], 5.0)
    assert learned.is_finite()
    assert list(learned.select("b.")) == ["b.y"]


@pytest.mark.parametrize("bad", [NAN, float("inf"), -float("inf")])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_bad_number_anywhere_is_detected(size: int, bad: float) -> None:
    for place in {0, size // 2, size - 1}:
        x = torch.full((size,), 3e38)
        assert all_finite([x, torch.zeros((), dtype=torch.float64)])
        x[place] = bad
        assert not all_finite([torch.zeros((), dtype=torch.float64), x, torch.ones(2, 2)])


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(InputError, match="the saved 'x' is"):
        check_state({"x": torch.zeros(3)}, {"x": torch.zeros(3).to_sparse()})
