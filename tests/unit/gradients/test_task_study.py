"""Gradients by a policy's parameters: samples per world, on a smooth task and on one with contact."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ahac.core.errors import InputError
from ahac.envs import make_task
from ahac.gradients.estimators import agreement, estimate
from ahac.gradients.landscape import LandscapeSettings, depends_on, landscape
from ahac.gradients.policies import StudyTarget, find_task, fingerprint, load_target
from ahac.gradients.sampling import noise_free_returns, reset_to_one_start, sample_gradients, sample_rollout
from ahac.gradients.study import Study
from ahac.gradients.task_study import TaskSettings, study
from ahac.training.checkpoint import CheckpointError
from ahac.training.run import Run, create_run
from ahac.training.trainer import train
from support.small_runs import small_config

SURE = 4.5
"""Number of standard errors within which a mean practically always lies."""
OWN = """
from dataclasses import replace
from ahac.envs import make_task
task = replace(make_task("cartpole"), name="mine")
def made():
    return task
number = 3
"""
MODERN = """
from __future__ import annotations
from dataclasses import dataclass, replace
from ahac.envs import make_task
from task_names import NAME
@dataclass
class Choice:
    name: str = NAME
def made():
    from later import NUMBER
    return replace(make_task("cartpole"), name=f"{Choice().name}{NUMBER}")
"""


@pytest.fixture(scope="module")
def smooth() -> StudyTarget:
    """A pole on a cart, without contacts."""
    return load_target("cartpole", worlds=192, seed=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), name="trained", iterations=2))
    train(run, display=False)
    return run


def test_orders_agree_on_a_smooth_task(smooth: StudyTarget) -> None:
    begin = reset_to_one_start(smooth, 0, 1)
    baseline = noise_free_returns(smooth, begin, 8)  # the first reward does not depend on the action
    for samples in sample_gradients(sample_rollout(smooth, begin, [2, 4, 8], 1), baseline, [2, 4, 8]):
        first, zeroth = estimate(samples.first), estimate(samples.zeroth)
        both = agreement(first, zeroth)
        assert 0.0 < both.error < 2.0 * both.expected, "a norm of many components is near its expectation"
        # Along the direction in which the gradient is large, the difference is within its standard error.
        along = first.mean / first.mean.norm()
        apart = (samples.first - samples.zeroth) @ along
        assert abs(float(apart.mean())) < SURE * float(apart.std()) / len(apart) ** 0.5


def test_samples_add_up_to_the_gradient_of_shared_parameters(smooth: StudyTarget) -> None:
    begin = reset_to_one_start(smooth, 3, 1)
    (samples,) = sample_gradients(sample_rollout(smooth, begin, [4], 2), noise_free_returns(smooth, begin, 4), [4])
    env, rng = smooth.env, torch.Generator().manual_seed(2)
    env.load_state_dict(begin)
    total = torch.zeros(())
    for _ in range(4):
        noise = torch.randn(192, env.spec.action_size, generator=rng)
        total = total + env.step(smooth.actor(smooth.normalize(env.obs), noise)).reward.sum()
    expected = torch.cat([x.flatten() for x in torch.autograd.grad(total, list(smooth.actor.parameters()))])
    assert samples.first.sum(dim=0).float() == pytest.approx(expected, rel=1e-3, abs=1e-3 * float(expected.abs().max()))


def test_scores_are_those_of_the_gaussian(smooth: StudyTarget) -> None:
    rollout = sample_rollout(smooth, reset_to_one_start(smooth, 0, 1), [1, 2], 5)
    names = list(rollout.parameters)
    index = sum(rollout.parameters[name][0].numel() for name in names[: names.index("log_std")])
    rng = torch.Generator().manual_seed(5)
    noise = torch.randn(192, 1, generator=rng)
    # ∂/∂log σ of −ε²/2 − log σ, with the action held fixed, is ε² − 1.
    assert rollout.scores[1][:, index] == pytest.approx(noise[:, 0].square() - 1.0, abs=1e-4)


def test_all_worlds_start_alike_and_diverge_by_noise(smooth: StudyTarget) -> None:
    begin = reset_to_one_start(smooth, 5, 1)
    assert (begin["q"] == begin["q"][0]).all()
    rollout = sample_rollout(smooth, begin, [3], 1)
    assert rollout.steps[-1].next_state.q.std(dim=0).max() > 0.0


@pytest.fixture(scope="module")
def hopper(trained: Run) -> Study:
    c = TaskSettings(samples=16, horizons=(8, 2, 4), after=2, gait_steps=20, probes=1)
    return study(trained.folder, c)


def test_a_study_of_a_run_has_all_its_arrays(hopper: Study) -> None:
    assert hopper["horizons"].tolist() == [2, 4, 8]
    for name in (
        "first_norm",
        "zeroth_norm",
        "error",
        "expected",
        "cosine",
        "first_variance",
        "zeroth_variance",
        "first_esnr",
        "zeroth_esnr",
        "mean_return",
        "noise_free_return",
    ):
        assert (hopper[name].shape, np.isfinite(hopper[name]).all()) == ((3,), True), name
    for name in ("stiffness", "stiffness_max", "contact", "action_gradient"):
        assert (hopper[name].shape, np.isfinite(hopper[name]).all()) == ((8,), True), name
    assert np.isfinite(hopper["state_gradient"][1:]).all()
    assert (hopper["stiffness"] <= hopper["stiffness_max"]).all()
    assert hopper["gait_contact"].shape == (20, len(hopper["gait_geoms"]))
    assert hopper["gait_stiffness"].shape == (20,)
    assert hopper.settings["policy"]["run"] == "trained"


def test_the_policy_is_that_of_the_checkpoint(trained: Run) -> None:
    one = load_target(trained.folder, worlds=2)
    trained.restore("last", with_env=False)
    obs = one.env.obs
    assert torch.equal(one.act(obs), trained.algo.act(obs))
    assert fingerprint(trained.folder)["policy"]["env_steps"] > 0


def test_tasks_are_found_by_name_file_or_object(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN, encoding="utf-8")
    assert find_task("cartpole").name == "cartpole"
    assert find_task(f"{file}:task").name == find_task(f"{file}:made").name == "mine"
    before = fingerprint(f"{file}:task")
    file.write_text(OWN + "# changed\n", encoding="utf-8")
    assert fingerprint(f"{file}:task") != before, "the contents of the file are part of the fingerprint"
    assert fingerprint(make_task("cartpole"), seed=2) == {"task": "cartpole", "policy": {"fresh": 2}}
    for name, message in (
        (f"{file}:number", "must be a Task or a function that returns one, got int"),
        (f"{file}:none", "it has no 'none'; it defines: task, made"),
        (f"{tmp_path}/no.py:task", "no file"),
        ("carpole", "neither a run folder nor a task; tasks: hopper"),
    ):
        with pytest.raises(InputError, match=message):
            find_task(name)


def test_a_task_file_may_have_dataclasses_and_import_modules_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "task_names.py").write_text("NAME = 'mine'\n", encoding="utf-8")
    (tmp_path / "later.py").write_text("NUMBER = 7\n", encoding="utf-8")
    file = tmp_path / "modern.py"
    file.write_text(MODERN, encoding="utf-8")
    paths = list(sys.path)
    assert find_task(f"{file}:made").name == "mine7"
    assert sys.path == paths
    assert "modern" not in sys.modules
    before = fingerprint(f"{file}:made")
    (tmp_path / "task_names.py").write_text("NAME = 'mine'  # changed\n", encoding="utf-8")
    assert fingerprint(f"{file}:made") != before, "imported modules are part of the fingerprint"
    for name in ("task_names", "later"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("task = (", r"own\.py: SyntaxError: '\(' was never closed \(own\.py, line 1\)"),
        ("\ntask = 1 / 0", r"own\.py, line 2: ZeroDivisionError: division by zero"),
        ("import not_there_at_all", r"own\.py, line 1: ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("def task(variant, size):\n    pass", r"own\.py: TypeError: task\(\) missing 1 required"),
        ("raise SystemExit(3)", r"own\.py, line 1: SystemExit: 3"),
    ],
)
def test_errors_in_a_task_file_name_the_file(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(content, encoding="utf-8")
    paths = list(sys.path)
    with pytest.raises(InputError, match=message):
        find_task(f"{tmp_path / 'own.py'}:task")
    assert sys.path == paths


def test_a_missing_checkpoint_is_refused_with_the_available_ones(trained: Run, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no checkpoint 'nope'; it has: .*last"):
        fingerprint(trained.folder, "nope")
    begun = create_run(small_config(tmp_path, name="begun"))
    with pytest.raises(CheckpointError, match="begun has no checkpoint 'last'; it has: none"):
        fingerprint(begun.folder)


def test_runs_with_the_same_name_are_distinguished(trained: Run, tmp_path: Path) -> None:
    other = create_run(small_config(tmp_path, name="trained", iterations=2, seed=5))
    train(other, display=False)
    one, two = fingerprint(trained.folder), fingerprint(other.folder)
    assert one["policy"]["env_steps"] == two["policy"]["env_steps"]
    assert one != two
    shutil.copytree(trained.folder, tmp_path / "copies" / "trained")
    assert fingerprint(tmp_path / "copies" / "trained") == one


@pytest.mark.parametrize(
    ("along", "reach", "close"), [("random", 3e-3, 0.05), ("first", 2e-4, 0.01), ("zeroth", 2e-4, 0.02)]
)
def test_slopes_match_the_landscape(along: str, reach: float, close: float) -> None:
    """The reach is chosen so that neither float32 rounding nor curvature dominates the difference."""
    c = LandscapeSettings(along=along, horizon=6, reach=reach, points=3, samples=64, seed=1)
    result = landscape("cartpole", c)
    # The noise is the same at all points, so first order must be the derivative of the mean.
    difference = (result["mean"][2] - result["mean"][0]) / (2.0 * c.reach)
    assert float(result["first_slope"]) == pytest.approx(difference, rel=close)
    assert abs(float(result["zeroth_slope"]) - difference) < SURE * float(result["zeroth_slope_error"])
    assert result["noise_free"].shape == (3,)


def test_a_direction_from_a_file(tmp_path: Path) -> None:
    c = LandscapeSettings(horizon=2, points=2, samples=4, along=str(tmp_path / "direction.npy"))
    with pytest.raises(InputError, match=r"^the direction '.*direction\.npy' cannot be read"):
        landscape("cartpole", c)
    size = sum(p.numel() for p in load_target("cartpole", worlds=1).actor.parameters())
    for direction, message in ((np.ones(3), f"must have {size} finite numbers"), (np.zeros(size), "is zero")):
        np.save(tmp_path / "direction.npy", direction)
        with pytest.raises(InputError, match=message):
            landscape("cartpole", c)
    (tmp_path / "direction.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"direction\.npy' is not a \.npy file of numbers"):
        landscape("cartpole", c)
    np.save(tmp_path / "direction.npy", np.arange(size))
    result = landscape("cartpole", c)
    about = fingerprint("cartpole", seed=c.seed)
    assert result.settings == depends_on(c, about)
    assert np.linalg.norm(result["direction"]) > 0.0
    assert result["direction"][0] == 0.0
    np.save(tmp_path / "direction.npy", np.ones(size))
    assert result.settings != depends_on(c, about), "the contents of the file are part of the settings"


@pytest.mark.parametrize(
    ("kind", "invalid"),
    [
        (TaskSettings, {"samples": 1}),
        (TaskSettings, {"horizons": ()}),
        (TaskSettings, {"probes": 0}),
        (LandscapeSettings, {"along": "up"}),
        (LandscapeSettings, {"reach": 0.0}),
        (LandscapeSettings, {"reach": -1.0}),
    ],
)
def test_invalid_settings_are_refused(kind: type, invalid: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(invalid))):
        kind(**invalid)
