"""The command line: help, lists, training, evaluation and errors."""

import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from ahac.algos.config import ShortHorizonConfig
from ahac.algos.recipes import ALGOS
from ahac.cli.main import COMMANDS, main
from ahac.envs import tasks
from ahac.training.run import Run, create_run, open_run
from ahac.training.trainer import train
from support.marks import keep
from support.small_runs import small_config, state, table

SMALL = ["--num-envs", "4", "--iterations", "2", "--eval-episodes", "3", "--device", "cpu",
         "--algorithm.actor.hidden", "8", "8"]  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


class Shell:
    """Runs commands in this process, in a temporary folder."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self.captured = captured

    def __call__(self, *arguments: str) -> Outcome:
        try:
            status = main(arguments)
        except SystemExit as end:
            status = 0 if end.code is None else int(end.code)
        out, err = self.captured.readouterr()
        return Outcome(status, out, err)


@pytest.fixture
def ahac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(small_config(tmp_path_factory.mktemp("runs"), name="trained"))
    train(run, display=False)
    return run


def test_help_names_every_command(ahac: Shell) -> None:
    asked, bare = ahac("--help"), ahac()
    assert asked.status == bare.status == 0
    assert asked.out == bare.out
    width = max(map(len, COMMANDS))
    assert all(f"\n  {name:{width}}  {summary}\n" in asked.out for name, (summary, _) in COMMANDS.items())


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str, ahac: Shell) -> None:
    done = ahac(command, "--help")
    assert done.status == 0
    assert "usage" in done.out.lower()
    assert command in done.out
    assert not list(Path().iterdir()), "help leaves nothing behind"


def test_version_matches_the_package(ahac: Shell) -> None:
    done = ahac("--version")
    assert (done.status, done.out) == (0, f"ahac {version('ahac')}\n")


def test_train_help_shows_recipe_defaults(ahac: Shell) -> None:
    text = " ".join(ahac("train", "hopper", "--algo", "ahac", "--help-all").out.split())
    assert re.search(r"--num-envs INT .{0,60}default: 256", text)
    assert re.search(r"--algorithm\.horizon\.rule .{0,120}default: growth", text)
    assert re.search(r"--algorithm\.actor\.learning-rate FLOAT", text)


def test_train_help_follows_task_and_algorithm(ahac: Shell) -> None:
    text = " ".join(ahac("train", "cartpole", "--algo", "shac", "--help-all").out.split())
    assert re.search(r"--num-envs INT .{0,60}default: 64", text)
    assert re.search(r"--algorithm\.horizon\.rule .{0,120}default: fixed", text)


def test_train_help_shows_critic_options(ahac: Shell) -> None:
    text = " ".join(ahac("train", "hopper", "--help-all").out.split())
    assert re.search(r"--algorithm\.critic\.learning-rate FLOAT .{0,120}default: 0\.004", text)


def test_critic_options_are_applied(ahac: Shell) -> None:
    done = ahac("train", "cartpole", "--algorithm.critic.learning-rate", "0.125", *SMALL)
    assert done.status == 0, done.err
    algorithm = open_run("runs/cartpole-ahac-s0").config.algorithm
    assert isinstance(algorithm, ShortHorizonConfig)
    assert algorithm.critic is not None
    assert algorithm.critic.learning_rate == 0.125


@pytest.mark.parametrize("algo", ["ahac", "bptt"])
def test_train_prints_the_evaluation_and_the_folder(algo: str, ahac: Shell) -> None:
    done = ahac("train", "cartpole", "--algo", algo, "--seed", "7", *SMALL)
    folder = Path("runs") / f"cartpole-{algo}-s7"
    assert done.status == 0, done.err
    evaluation, where = done.out.splitlines()
    assert evaluation.startswith("3 episodes: mean")
    assert where == str(folder)
    assert done.err.startswith(f"{algo} on cartpole, 4 worlds on cpu, in {folder}\n")
    assert "2/2" in done.err
    assert f"next: `ahac play {folder}`, `ahac eval {folder} --engine mujoco`, " in done.err.splitlines()[-1]
    assert len(table(folder)) == 2
    config = open_run(folder).config
    assert (config.task, config.algo, config.seed) == ("cartpole", algo, 7)
    assert isinstance(config.algorithm, ShortHorizonConfig)
    assert config.algorithm.actor.hidden == (8, 8)
    assert (config.algorithm.critic is None) == (algo == "bptt")


@pytest.mark.parametrize("algo", keep(1, ["ppo", "sac", "svg", "fasttd3"]))
def test_baselines_can_be_trained_resumed_and_evaluated(algo: str, ahac: Shell) -> None:
    small = [
        "--num-envs",
        "4",
        "--iterations",
        "3",
        "--eval-episodes",
        "3",
        "--device",
        "cpu",
        "--algorithm.steps-per-env",
        "8",
    ]
    replay = [] if algo == "ppo" else ["--algorithm.batch-size", "16", "--algorithm.learning-starts", "30"]
    done = ahac("train", "cartpole", "--algo", algo, "--algorithm.hidden", "8", "8", *small, *replay)
    folder = Path("runs") / f"cartpole-{algo}-s0"
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == str(folder)
    assert (folder / "replay").is_dir() == (algo != "ppo")
    assert ahac("resume", str(folder), "--iterations", "4").status == 0
    assert len(table(folder)) == 4
    assert "mean" in ahac("eval", str(folder), "--episodes", "2").out
    assert algo in ahac("list", "runs").out


@pytest.mark.parametrize("arguments", [[*SMALL, "cartpole"], ["--num-envs", "4"], []])
def test_task_must_come_first(ahac: Shell, arguments: list[str]) -> None:
    done = ahac("train", *arguments)
    assert done.status == 2
    (line,) = done.err.splitlines()
    assert "ahac train TASK" in line
    assert "cartpole" in done.err


def test_task_is_not_an_option(ahac: Shell) -> None:
    assert ahac("train", "hopper", "--task", "cartpole", *SMALL).status == 2


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (["train", "moonwalk"], tasks()),
        (["train", "cartpole", "--algo", "dqn"], list(ALGOS)),
        (["train", "cartpole", "--preset", "best"], ["default", "paper", "released"]),
        (["train", "cartpole", "--variant", "draft", *SMALL], ["paper", "released"]),
        (["train", "cartpole", "--algorithm.horizon.rule", "longer"], ["fixed", "growth"]),
        (["fly"], list(COMMANDS)),
        (["list", "dogs"], ["tasks", "algos", "runs"]),
    ],
)
def test_unknown_names_are_rejected_with_the_known_ones(arguments: list[str], known: list[str], ahac: Shell) -> None:
    done = ahac(*arguments)
    assert done.status == 2
    assert all(name in done.err for name in known)
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["train", "cartpol"], "no task named 'cartpol' (did you mean cartpole?)"),
        (["train", "HalfCheetah-v5"], "no task named 'HalfCheetah-v5' (did you mean half_cheetah?)"),
        (["train", "cartpole", "--algo", "ahca"], "no algorithm named 'ahca' (did you mean ahac?)"),
        (["train", "cartpole", "--preset", "papr"], "no preset named 'papr' (did you mean paper?)"),
        (["play", "cartpol"], "or trajectory (.npz) (did you mean cartpole?)"),
        (["inspect", "cartpol"], "or task (did you mean cartpole?)"),
        (["tran"], "unknown command 'tran' (did you mean train?)"),
    ],
)
def test_misspelled_names_are_guessed(arguments: list[str], guess: str, ahac: Shell) -> None:
    done = ahac(*arguments)
    assert done.status == 2
    assert guess in done.err


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--num-envs", "0", "num_envs must be a whole number of at least 1, got 0"),
        ("--env-steps", "1.5", "--env-steps: expected a whole number, got '1.5'"),
        ("--num-envs", "many", "--num-envs: expected a whole number, got 'many'"),
        ("--iterations", "-3", "iterations must be a whole number of at least 1, got -3"),
        ("--algorithm.gamma", "2", "gamma must lie between 0 and 1"),
        ("--no-such-option", "1", "unknown option --no-such-option"),
        ("--iteration", "1", "unknown option --iteration (did you mean --iterations?)"),
        ("--name", "../x", "without a path, got '../x'"),
    ],
)
def test_invalid_values_are_rejected_in_one_line(option: str, value: str, named: str, ahac: Shell) -> None:
    done = ahac("train", "cartpole", option, value)
    assert done.status == 2
    (line,) = done.err.splitlines()
    assert line.startswith("ahac: ")
    assert named in line
    assert not Path("runs").exists()


def test_unknown_device_is_rejected(ahac: Shell) -> None:
    done = ahac("train", "cartpole", "--device", "tpu")
    assert done.status == 2
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--algorithm.horizon.initial", "0"),
        ("--algorithm.actor.hidden", "-3"),
        ("--algorithm.actor.learning-rate", "-1"),
    ],
)
def test_algorithm_settings_out_of_range_are_rejected(option: str, value: str, ahac: Shell) -> None:
    done = ahac("train", "cartpole", "--algo", "shac", "--num-envs", "4", "--iterations", "1", option, value)
    assert done.status == 2
    assert not Path("runs").exists()


def test_unwritable_folder_is_rejected(ahac: Shell) -> None:
    Path("file").write_text("in the way", encoding="utf-8")
    assert ahac("train", "cartpole", "--out", "file", *SMALL).status == 2


def test_list_tasks_shows_all_with_sizes(ahac: Shell) -> None:
    done = ahac("list", "tasks")
    head, *rows = done.out.splitlines()
    assert done.status == 0
    assert head.split() == ["task", "observations", "actions", "substeps", "episode", "steps"]
    assert [row.split()[0] for row in rows] == tasks()
    assert next(row.split()[1:3] for row in rows if row.startswith("hopper")) == ["11", "3"]


def test_list_algos_shows_all_with_descriptions(ahac: Shell) -> None:
    head, *rows = ahac("list", "algos").out.splitlines()
    assert head.split() == ["algo", "description"]
    assert [row.split(maxsplit=1) for row in rows] == [[name, text] for name, text in ALGOS.items()]


def test_list_runs_shows_progress(trained: Run, ahac: Shell) -> None:
    done = ahac("list", "runs", "--out", str(trained.folder.parent))
    head, row = done.out.splitlines()
    assert head.split()[0] == "run"
    assert row.split()[:6] == [str(trained.folder), "hopper", "shac", "12/12", "yes", "768"]
    assert float(row.split()[6]) == pytest.approx(float(table(trained.folder)[-1]["episode_return"]), abs=0.051)


def test_list_runs_accepts_a_single_run(trained: Run, ahac: Shell) -> None:
    _, row = ahac("list", "runs", "--out", str(trained.folder)).out.splitlines()
    assert row.split()[0] == str(trained.folder)


def test_list_runs_reports_empty_folders(ahac: Shell) -> None:
    Path("empty").mkdir()
    for folder in ("nowhere", "empty"):
        done = ahac("list", "runs", "--out", folder)
        assert (done.status, done.out) == (0, f"no runs in {folder}; `--out FOLDER` lists another folder\n")


def test_list_runs_shows_runs_that_have_not_started(ahac: Shell) -> None:
    create_run(small_config(Path("runs"), name="fresh"))
    assert ahac("list", "runs").out.splitlines()[1].split() == [
        "runs/fresh",
        "hopper",
        "shac",
        "0/12",
        "no",
        "0",
        "-",
        "-",
    ]


def test_doctor_shows_versions_and_devices(ahac: Shell) -> None:
    done = ahac("doctor")
    lines = done.out.splitlines()
    assert done.status == 0
    assert f"ahac {version('ahac')}" in lines
    assert f"torch {version('torch')}" in lines
    assert all(any(line.startswith(word) for line in lines) for word in ("python", "cpu:", "cuda:", "runs:"))


def test_quiet_training_prints_only_the_result(ahac: Shell) -> None:
    done = ahac("train", "cartpole", *SMALL, "--quiet")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "runs/cartpole-ahac-s0"


def test_doctor_writes_to_the_folder_of_runs(ahac: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path.cwd()
    done = ahac("doctor")
    assert (done.status, done.out.splitlines()[-1]) == (0, f"runs: {here / 'runs'} (writable)")
    assert not list(here.iterdir()), "it leaves nothing behind"
    Path("runs").write_text("in the way", encoding="utf-8")
    done = ahac("doctor")
    assert done.status == 1
    assert done.out.splitlines()[-1].startswith(f"runs: {here / 'runs'} (NOT writable: Not a directory; work in")


def test_eval_is_reproducible_by_seed(trained: Run, ahac: Shell) -> None:
    folder = str(trained.folder)
    first, again = (ahac("eval", folder, "--episodes", "5", "--seed", "3") for _ in range(2))
    other = ahac("eval", folder, "--episodes", "5", "--seed", "4")
    assert first.status == 0
    assert first.out.startswith("5 episodes: mean")
    assert first.out == again.out
    assert first.out != other.out


def test_eval_uses_the_requested_checkpoint(trained: Run, ahac: Shell) -> None:
    before = state(trained.folder)
    lines = {
        ahac("eval", str(trained.folder), "--episodes", "4", "--checkpoint", name).out
        for name in ("last", "iteration-000004")
    }
    assert len(lines) == 2
    assert state(trained.folder) == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--checkpoint", "worst"], "no checkpoint 'worst'; it has: best, iteration-000004"),
        (["--episodes", "0"], "0"),
        (["--episodes", "few"], "--episodes"),
    ],
)
def test_eval_rejects_invalid_values(options: list[str], named: str, trained: Run, ahac: Shell) -> None:
    done = ahac("eval", str(trained.folder), *options)
    assert done.status == 2
    assert named in done.err


@pytest.mark.parametrize("command", ["resume", "eval"])
def test_folders_that_are_not_runs_are_rejected(command: str, ahac: Shell) -> None:
    done = ahac(command, "nowhere")
    assert done.status == 2
    assert done.err.startswith("ahac: nowhere is not a run: the folder does not exist; `ahac list runs`")


def test_resuming_a_complete_run_evaluates_it(trained: Run, ahac: Shell) -> None:
    done = ahac("resume", str(trained.folder))
    assert done.status == 0
    assert done.out.splitlines()[-1] == str(trained.folder)
    assert len(table(trained.folder)) == trained.config.iterations
