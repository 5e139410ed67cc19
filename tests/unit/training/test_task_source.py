"""Tasks of runs: files of users with a copy in the run folder, and Task objects."""

import json
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch

import ahac
from ahac.algos.config import ShortHorizonConfig
from ahac.cli.main import main
from ahac.core.errors import InputError, TraceError
from ahac.envs import Task, make_task
from ahac.envs.planning import plan
from ahac.experiments.sweep import run_status, sweep
from ahac.sim import AppliedForce, Vec3, World
from ahac.sim.model.notes import log_once
from ahac.training.api import configure
from ahac.training.run import Run, open_run

FILE = """
from dataclasses import replace
from pathlib import Path

from ahac.envs import Task, make_task
from ahac.envs.planning import plan

SCALE = float((Path(__file__).parent / "scale.txt").read_text())


def pole(variant: str = "paper") -> Task:
    task = make_task("cartpole", variant)
    return replace(task, name="pole", episode_steps=20, reward={"scaled": lambda world, action: SCALE})


balance = pole()
"""
SMALL = {"num_envs": 4, "iterations": 1, "eval_episodes": 2, "device": "cpu", "display": False}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "scale.txt").write_text("2.0", encoding="utf-8")
    path = tmp_path / "poles.py"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def run(file: Path, tmp_path: Path) -> Run:
    return ahac.train(f"{file}:pole", "shac", out=str(tmp_path / "runs"), **SMALL)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user, who has not trained with anything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "stranger"))


@pytest.mark.parametrize("name", ["pole", "balance"])
def test_a_file_gives_a_task_by_function_or_object(file: Path, name: str) -> None:
    assert make_task(f"{file}:{name}").name == "pole"
    assert ahac.make(f"{file}:{name}", num_envs=2).spec.name == "pole"


def test_a_task_without_variants_refuses_one(file: Path) -> None:
    assert make_task(f"{file}:pole", "released").name == "pole"
    with pytest.raises(InputError, match="this task has no variants, got variant='released'; omit it"):
        make_task(f"{file}:balance", "released")


def test_the_run_has_the_task_name_a_copy_and_a_hash(run: Run, file: Path) -> None:
    assert run.folder.name == "pole-shac-s0"
    assert (run.folder / "task.py").read_bytes() == file.read_bytes()
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    assert config["task"] == "poles.py:pole"
    assert config["task_source"].startswith("sha256:")
    manifest = json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["task_file"] == str(file)


def test_a_run_keeps_the_task_it_was_trained_with(run: Run, file: Path) -> None:
    file.write_text(FILE.replace('"scaled"', '"changed"'), encoding="utf-8")
    again = open_run(run.folder)
    assert list(again.task.reward) == ["scaled"]
    assert again.evaluate(2).summary()["mean"] == pytest.approx(2.0 * 20)


def test_a_moved_run_works_without_the_original_file_if_the_copy_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    (folder / "own.py").write_text(
        "from dataclasses import replace\nfrom ahac.envs import make_task\n"
        "task = replace(make_task('cartpole'), episode_steps=5)\n",
        encoding="utf-8",
    )
    run = ahac.train(f"{folder}/own.py:task", "shac", out=str(tmp_path), **SMALL)
    shutil.rmtree(folder)
    assert open_run(run.folder).evaluate(1).summary()["length"] == 5


def test_commands_accept_files_and_their_runs(
    file: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--iterations", "1", "--num-envs", "4", "--eval-episodes", "2", "--device", "cpu", "--out", str(tmp_path)]
    assert main(["train", f"{file}:pole", "--quiet", *small]) == 0
    assert main(["eval", str(run.folder), "--episodes", "2"]) == 0
    assert main(["resume", str(run.folder), "--iterations", "2", "--quiet"]) == 0
    assert main(["export", str(run.folder), "--format", "torchscript"]) == 0
    assert main(["play", f"{file}:pole", "--record", str(tmp_path / "a.npz"), "--seconds", "0.1"]) == 0
    assert main(["play", str(run.folder), "--record", str(tmp_path / "b.npz"), "--seconds", "0.1"]) == 0
    assert main(["inspect", f"{file}:pole"]) == 0
    assert "pole" in capsys.readouterr().out


def test_sweeps_tell_versions_of_a_file_apart(file: Path, run: Run) -> None:
    config = replace(run.config, task=f"{file}:pole", task_source="")
    assert run_status(config) == "unfinished"  # it is trained, but not evaluated
    file.write_text(FILE.replace("2.0", "3.0") + "# changed\n", encoding="utf-8")
    with pytest.raises(InputError, match="task_source"):
        run_status(config)


@pytest.mark.usefixtures("run", "stranger")
def test_code_of_others_does_not_run(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = shutil.copytree(run.folder, tmp_path / "theirs")
    with pytest.raises(InputError, match=r"task\.py, that you have not trained with .* add --trust"):
        open_run(copy).evaluate(1)
    assert main(["eval", str(copy), "--episodes", "1"]) == 2
    assert main(["eval", str(copy), "--episodes", "1", "--trust"]) == 0
    assert f"{copy / 'task.py'} is trusted and runs" in caplog.text
    open_run(copy, trust=True).evaluate(1)
    with pytest.raises(InputError, match="--trust"):  # trust is not remembered
        open_run(copy).evaluate(1)


def test_a_changed_copy_does_not_run(run: Run) -> None:
    copy = run.folder / "task.py"
    copy.write_text(FILE + "raise SystemExit\n", encoding="utf-8")
    with pytest.raises(InputError, match="not the file that the run was trained with"):
        open_run(run.folder, trust=True).evaluate(1)


def test_without_a_state_folder_training_works_and_warns(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "not-a-folder").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "not-a-folder"))
    run = ahac.train(f"{file}:pole", "shac", out=str(tmp_path), **SMALL)
    assert "need --trust" in caplog.text
    assert run.evaluate(1).summary()["mean"] == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("poles.py:nothing", "it has no 'nothing'; it defines: pole, balance"),
        ("missing.py:pole", "no file .*missing.py"),
        ("pole.py:pole", r"no file .*pole.py' can be read .* \(did you mean poles.py\?\)"),
        ("poles.py", "written FILE.py:NAME"),
        ("poles.py:SCALE", "must be a Task or a function that returns one, got float"),
    ],
)
def test_wrong_names_say_what_is_there(file: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_task(str(file.parent / name))


def test_a_task_object_is_trained_evaluated_and_resumed(tmp_path: Path) -> None:
    task: Task = replace(make_task("cartpole"), episode_steps=7)  # same name as the built-in task
    run = ahac.train(task, "shac", out=str(tmp_path), **SMALL)
    assert run.evaluate(1).summary()["length"] == 7
    assert open_run(run.folder, task=task).evaluate(1).summary()["length"] == 7
    resumed = ahac.resume(run.folder, iterations=2, task=task, display=False)
    assert resumed.metrics()["iteration"].tolist() == [1, 2]
    with pytest.raises(InputError, match="trained with a Task object named 'cartpole'"):
        open_run(run.folder).evaluate(1)


def test_recipes_of_tasks(file: Path) -> None:
    walking = make_task("go1")
    assert configure(replace(walking, name="mine")).num_envs == configure("go1").num_envs
    assert configure(f"{file}:pole").algorithm == configure("ant").algorithm
    assert configure(replace(make_task("hopper"), episode_steps=10)).num_envs == configure("hopper").num_envs
    with pytest.raises(InputError, match=r"recipe of the task 'mine' .* got 'anymall' .did you mean anymal"):
        configure(replace(make_task("anymal"), name="mine", recipe="anymall"))


def test_policy_metrics_and_recordings_of_a_run(run: Run, tmp_path: Path) -> None:
    opened = open_run(run.folder)
    obs = torch.randn(3, run.env.spec.obs_size, generator=torch.Generator().manual_seed(0))
    assert torch.equal(opened.policy(obs), run.policy(obs))
    assert opened.metrics()["env_steps"][-1] == run.config.num_envs * 32
    assert opened.record(tmp_path / "pole.npz", seconds=0.1).is_file()
    assert repr(opened) == f"<Run {run.folder}: shac on pole, seed 0, 4 worlds, device cpu>"
    with pytest.raises(InputError, match="change the suffix"):
        opened.record(tmp_path / "pole.avi")


def test_an_opened_run_evaluates_its_trained_policy(run: Run) -> None:
    obs = torch.ones(1, run.env.spec.obs_size)
    fresh = open_run(run.folder)
    untrained = fresh.algo.act(obs)
    assert not torch.equal(fresh.policy(obs), untrained)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_envs": 3}, "no setting named 'n_envs' .did you mean num_envs"),
        ({"algorithm.actor.learning_rat": 1.0}, "'algorithm.actor.learning_rat' .did you mean learning_rate"),
        ({"iterations": 1.5}, "iterations"),
        ({"algorithm": {"actor": {"hidden": (3,)}}}, r"write \*\*{'algorithm.actor.hidden': \[3\]} instead"),
    ],
)
def test_misspelled_settings_suggest_the_closest_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        configure("ant", **settings)


def test_settings_accept_whole_floats_and_dotted_names() -> None:
    nested: dict[str, Any] = {"algorithm.horizon.max": 40}
    config = configure("ant", env_steps=1e6, **nested)
    assert isinstance(config.algorithm, ShortHorizonConfig)
    assert (config.env_steps, config.algorithm.horizon.max) == (1_000_000, 40)


def test_registering_a_name_again_replaces_it() -> None:
    def factory(variant: str) -> Task:
        return replace(make_task("cartpole", variant), episode_steps=steps)

    for steps in (3, 4):
        ahac.register_task("twice", factory)
        assert make_task("twice").episode_steps == steps
    with pytest.raises(InputError, match="built in"):
        ahac.register_task("ant", factory)


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("source", ["", None])
def test_a_config_without_a_hash_runs_no_file(file: Path, tmp_path: Path, source: str | None) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    content = {"schema": 3, "task": f"{file}:pole", "algo": "shac"} | (
        {} if source is None else {"task_source": source}
    )
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match="no hash of the task file"):
        _ = open_run(folder, trust=True).task


def test_a_trusted_file_imports_nothing_from_the_run_folder(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "helper_of_task.py").write_text("STEPS = 5\n", encoding="utf-8")
    (own / "own.py").write_text(
        "from dataclasses import replace\nfrom ahac.envs import make_task\nimport helper_of_task\n"
        "task = replace(make_task('cartpole'), episode_steps=helper_of_task.STEPS)\n",
        encoding="utf-8",
    )
    run = ahac.train(f"{own}/own.py:task", "shac", out=str(tmp_path), **SMALL)
    theirs = shutil.copytree(run.folder, tmp_path / "theirs")
    manifest = json.loads((theirs / "manifest.json").read_text(encoding="utf-8"))
    (theirs / "manifest.json").write_text(json.dumps(manifest | {"task_file": str(theirs / "x.py")}), encoding="utf-8")
    (theirs / "helper_of_task.py").write_text("STEPS = 99\n", encoding="utf-8")
    assert open_run(theirs).task.episode_steps == 5
    shutil.rmtree(own)
    with pytest.raises(InputError, match=r"task\.py, line 3: ModuleNotFoundError: No module named 'helper_of_task'"):
        _ = open_run(theirs).task


def test_task_files_have_modules_of_their_own(tmp_path: Path) -> None:
    for name, steps in (("a", 3), ("b", 4)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "steps_of_task.py").write_text(f"STEPS = {steps}\n", encoding="utf-8")
        (tmp_path / name / "own.py").write_text(
            "from dataclasses import replace\nfrom ahac.envs import make_task\nfrom steps_of_task import STEPS\n"
            "def task(steps=STEPS):\n    return replace(make_task('cartpole'), episode_steps=steps)\n",
            encoding="utf-8",
        )
    assert [make_task(f"{tmp_path}/{name}/own.py:task").episode_steps for name in "aba"] == [3, 4, 3]


def test_a_file_that_changes_during_a_sweep_is_not_mixed(file: Path, tmp_path: Path) -> None:
    first = configure(
        f"{file}:pole", "shac", num_envs=4, iterations=1, eval_episodes=2, device="cpu", out=str(tmp_path)
    )
    configs = [replace(first, seed=seed, name=f"pole-{seed}") for seed in (0, 1)]

    def edit(event: str) -> None:
        if "started" in event:
            file.write_text(FILE + "# changed\n", encoding="utf-8")

    outcomes = sweep(configs, on_event=edit)
    assert [outcome.state for outcome in outcomes] == ["finished", "failed"]
    assert "has changed since the command started" in outcomes[1].detail


def test_another_task_object_is_refused_for_a_run_of_a_file(run: Run) -> None:
    with pytest.raises(InputError, match="not trained with a Task object"):
        open_run(run.folder, task=make_task("hopper"))


def test_a_changed_robot_file_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    robot = tmp_path / "cart.xml"
    robot.write_text(resources.files("ahac.envs").joinpath("assets/cartpole.xml").read_text("utf-8"), encoding="utf-8")
    assert main(["new", str(robot), "--out", str(tmp_path / "own.py"), "--name", "cart"]) == 0
    run = ahac.train(f"{tmp_path}/own.py:cart", "shac", out=str(tmp_path), **SMALL)
    _ = open_run(run.folder).task
    assert "has changed" not in caplog.text
    robot.write_text(robot.read_text(encoding="utf-8") + "<!-- heavier -->\n", encoding="utf-8")
    _ = open_run(run.folder).task
    assert "the robot file has changed since" in caplog.text


def push(world: World) -> list[AppliedForce]:
    return [world.apply_force("nowhere", Vec3(1.0, 0.0, 0.0))]


@pytest.mark.parametrize(
    "changes",
    [
        {"reward": {"x": lambda world, action: max(world.q[0], 0.0)}},
        {"reward": {"x": lambda world, action: max(world.after.q[0] - world.q[0], 0.0)}},
        {"alive": lambda world: max(world.q[0], 0.0)},
        {"control": lambda world, action: [max(action[0], 0.0)]},
        {"forces": [push]},
    ],
)
def test_a_task_with_a_broken_function_leaves_no_run_folder(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"truth value|no body"):
        ahac.train(replace(make_task("cartpole"), **changes), "shac", out=str(tmp_path), device="cpu")
    assert not list(tmp_path.iterdir())


def test_progress_per_step_may_be_a_divisor() -> None:
    task = replace(make_task("cartpole"), reward={"x": lambda w, action: 1.0 / (w.after.q[0] - w.q[0])})
    assert plan(task).policy == plan(make_task("cartpole")).policy


def test_notes_on_a_robot_are_logged_once_per_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = '<body pos="0 {0} 1"><freejoint/><geom name="g{0}" size=".1"/></body>'
    robot = f"<mujoco model='pair'><worldbody>{body.format(0)}{body.format(1)}</worldbody></mujoco>"
    code = f"""
from dataclasses import replace
from ahac.envs import make_task
from ahac.sim import load_model

load_model({robot!r}, ground=True)
cart = replace(make_task("cartpole"), name="cart")
"""
    (tmp_path / "own.py").write_text(code, encoding="utf-8")
    run = ahac.train(f"{tmp_path}/own.py:cart", "shac", out=str(tmp_path), **SMALL)
    assert "contact between" in caplog.text
    log_once.cache_clear()
    caplog.clear()
    _ = open_run(run.folder).task
    assert "contact between" not in caplog.text
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "stranger"))
    _ = open_run(run.folder, trust=True).task
    assert "contact between" in caplog.text


def test_errors_name_the_term() -> None:
    task = make_task("cartpole")

    def bad(world: World, action: object) -> object:
        return world.position("polo")

    with pytest.raises(TraceError, match=r"reward 'bad': the model has no body .* 'polo' \(did you mean pole\?\)"):
        ahac.make(replace(task, reward={**task.reward, "bad": bad}), num_envs=2)
