"""`ahac sweep`: lists and studies, errors with line numbers, and small sweeps."""

import sys
from pathlib import Path

import pytest

from ahac.algos.config import ShortHorizonConfig
from ahac.cli import sweep as module
from ahac.cli.main import main
from ahac.cli.sweep import read_configs, read_list
from ahac.core.errors import InputError
from ahac.experiments.run_files import find_runs, read_run
from ahac.experiments.study import configure_runs, read_study
from ahac.experiments.sweep import Outcome
from ahac.training.run import create_run
from support.marks import keep

STUDIES = sorted((Path(__file__).parents[3] / "docs" / "studies").glob("*.txt"))
LIST = """# a comment
one hopper --algo shac --num-envs 8   # another

@seeds 0 3
many ant --algorithm.critic.num-critics 1
@seeds
last hopper --seed 5
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "list.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_list_is_parsed(tmp_path: Path) -> None:
    runs = read_list(written(tmp_path, LIST), str(tmp_path / "runs"))
    assert [(run.name, run.task, run.algo, run.seed) for run in runs] == [
        ("one", "hopper", "shac", 0),
        ("many-0", "ant", "ahac", 0),
        ("many-3", "ant", "ahac", 3),
        ("last", "hopper", "ahac", 5),
    ]
    assert runs[0].num_envs == 8
    algorithm = runs[1].algorithm
    assert isinstance(algorithm, ShortHorizonConfig)
    assert algorithm.critic is not None
    assert algorithm.critic.num_critics == 1
    assert {run.out for run in runs} == {str(tmp_path / "runs")}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a hoper", "no task named 'hoper'"),
        ("a", "the task is missing: NAME TASK"),
        ("a --algo shac", "the task is missing: NAME TASK"),
        ("a hopper --algo dqn", "no algorithm named 'dqn'; known: ahac"),
        ("a hopper --preset x", "no preset named 'x'"),
        (
            "a hopper --sed 3",
            r"unknown option --sed \(did you mean --seed\?\); run `ahac train hopper --algo ahac --help`",
        ),
        ("a hopper --seed x", "--seed: expected a whole number, got 'x'"),
        ("a hopper --algo", "--algo: expected one argument"),
        (
            "a hopper --algorithm.horizon.rule x",
            "--algorithm.horizon.rule: expected one of fixed, paper, .*, got 'x'",
        ),
        ("a hopper --variant x", "variant"),
        ("a hopper --name b", "--name cannot be used in a list"),
        ("a hopper --out=b", "--out cannot be used in a list"),
        ("a hopper --help", "--help cannot be used in a list"),
        ("a hopper 'x", "No closing quotation"),
        ("one hopper", "the name 'one' is used by a line above"),
        ("a/b hopper", "without a path, got 'a/b'"),
        ("a hopper --watch", "--watch cannot be used in a list"),
        ("one.log hopper", "the run 'one.log' and the run 'one' clash: one is named like the other's log; rename one"),
        ("a\0b hopper", r"name must have printable characters only, got 'a\\x00b'"),
        ("a\x1b[31m hopper", "name must have printable characters only"),
        ("a\u202eb hopper", "name must have printable characters only"),
        ("a\x0cb hopper", "name must have printable characters only"),
        (".a hopper", "name must not begin with a dot"),
        (r"'a\b' hopper", "name must be a folder name without a path"),
        (f"{'é' * 101} hopper", "name must have at most 200 bytes, got 202"),
        ("@seeds 0 x", "seeds must be whole numbers, as in `@seeds 0 1 2`; got 'x'"),
        ("@seeds 0 1\na hopper --seed 2", "--seed cannot be combined with `@seeds`"),
    ],
)
def test_errors_name_the_line_and_nothing_starts(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"# first\none hopper\n{line}\n")
    number = 3 + line.count("\n")
    with pytest.raises(InputError, match=rf"list\.txt, line {number}: .*{message}"):
        read_list(path, str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_byte_order_mark_and_windows_line_ends_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes("\ufeff-x hopper\r\nb hopper\r\n".encode())
    assert [run.name for run in read_list(path, str(tmp_path))] == ["-x", "b"]


def test_dry_run_shows_damaged_folders_and_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, name in (("a", "config.json"), ("b", "manifest.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("{", encoding="utf-8")
    path = written(tmp_path, "a hopper\nb hopper\n")
    assert main(["sweep", str(path), "--dry-run", "--out", str(tmp_path)]) == 1
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "status", "details"]
    assert first.split()[:2] == ["a", "damaged"]
    assert "config.json is damaged" in first
    assert second.split()[:2] == ["b", "new"]


def test_files_that_are_not_lists_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tmp_path / "none.txt")]) == 2
    assert main(["sweep", str(written(tmp_path, "# nothing\n"))]) == 2
    (tmp_path / "image").write_bytes(b"\x89PNG")
    assert main(["sweep", str(tmp_path / "image")]) == 2
    assert main(["sweep", str(tmp_path)]) == 2
    assert main(["sweep", str(tmp_path / "image" / "a.txt")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all("; expected a text file with one run per line: NAME TASK" in line for line in lines)
    assert lines[0].startswith(f"ahac: no such file: {tmp_path / 'none.txt'}; ")
    assert "list.txt lists no runs; " in lines[1]
    assert "image is not a list of runs: " in lines[2]
    assert lines[3].startswith(f"ahac: {tmp_path} is a folder; ")
    assert lines[4].startswith(f"ahac: no such file: {tmp_path / 'image' / 'a.txt'}; ")


@pytest.mark.parametrize("path", keep(1, STUDIES), ids=lambda path: path.stem)
def test_every_study_is_valid(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(path), "--dry-run", "--out", str(tmp_path)]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.split()[1] == "new" for line in lines)
    assert not list(tmp_path.iterdir())


def test_studies_exist() -> None:
    assert {"hopper-horizons", "ant", "ant-critics"} <= {path.stem for path in STUDIES}


STUDY = """
name = "trial"
seeds = "0-1"
settings = {device = "cpu", num_envs = 8}
[[runs]]
tasks = ["cartpole", "hopper"]
algos = ["shac"]
"""


def dry_run(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the names of the runs that a command would train."""
    assert main(["sweep", *words, "--dry-run"]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def four_runs(file: Path) -> str:
    """Write Cartpole and Hopper with two seeds as a study or as a list, by the suffix; return the file's name."""
    lines = "".join(f"{task}-shac-s{seed} {task} --seed {seed}\n" for seed in (0, 1) for task in ("cartpole", "hopper"))
    file.write_text(STUDY if file.suffix == ".toml" else lines, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("name", ["trial.toml", "list.txt"])
def test_runs_of_studies_and_lists_are_selected_by_name(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (four_runs(tmp_path / name), "--out", str(tmp_path / "runs"))
    every = ["cartpole-shac-s0", "hopper-shac-s0", "cartpole-shac-s1", "hopper-shac-s1"]
    assert dry_run(capsys, *words) == every
    assert dry_run(capsys, *words, "--only", "hopper-*", "--only", "*-s0") == [*every[:2], every[3]]
    assert dry_run(capsys, *words, "--except", "hopper-*", "--except", "*-s0") == ["cartpole-shac-s1"]
    assert dry_run(capsys, *words, "--only", "hopper-*", "--except", "*-s0") == ["hopper-shac-s1"]
    assert main(["sweep", *words, "--except", "*"]) == 2
    assert "'*' leaves out every selected run" in capsys.readouterr().err
    assert main(["sweep", *words, "--only", "hopper-*", "--only", "x"]) == 2
    assert "no run is named like 'x'; runs: cartpole-shac-s0" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["trial.toml", "list.txt"])
def test_all_runs_whose_settings_changed_are_named_and_can_be_left_out(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (four_runs(tmp_path / name), "--out", str(tmp_path / "runs"))
    for config in read_configs(str(tmp_path / name), out=str(tmp_path / "runs"), overrides=["num_envs=9"], only=["h*"]):
        create_run(config)
    assert main(["sweep", *words, "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "2 of 4 runs were created with different settings: hopper-shac-s0, hopper-shac-s1 (num_envs 9" in line
    assert dry_run(capsys, *words, "--except", "hopper-*") == ["cartpole-shac-s0", "cartpole-shac-s1"]


def test_settings_of_all_runs_replace_those_of_a_list(tmp_path: Path) -> None:
    (run,) = read_list(written(tmp_path, "a hopper --iterations 9 --seed 3"), overrides={"iterations": 5})
    assert (run.name, run.iterations, run.seed) == ("a", 5, 3)
    with pytest.raises(InputError, match=r"line 1: no setting named 'iteration' .*; got the overrides iteration"):
        read_list(written(tmp_path, "a hopper"), overrides={"iteration": 5})


def test_runs_of_a_study_are_in_a_folder_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text(STUDY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    config = configure_runs(read_study(Path("mine.toml")).runs, "runs/trial", {"iterations": 5})[0]
    create_run(config)
    assert main(["sweep", "mine.toml", "--set", "iterations=5", "--dry-run"]) == 0
    status = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    assert (status["cartpole-shac-s0"], status["hopper-shac-s0"]) == ("unfinished", "new")


@pytest.mark.extended
def test_the_study_smoke_trains_and_is_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "smoke", "--out", str(tmp_path), "--jobs", "2"]
    assert main(words) == 0
    trained = [read_run(folder) for folder in find_runs(tmp_path)]
    assert len(trained) == 12
    assert all(run.complete and run.evaluation is not None for run in trained)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().out == "12 runs: 12 complete\n"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == before


def test_a_folder_does_not_hide_a_study_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "smoke").mkdir()
    monkeypatch.chdir(tmp_path)
    assert dry_run(capsys, "smoke", "--only", "cartpole-ahac-*") == ["cartpole-ahac-s0", "cartpole-ahac-s1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["smoky"], "no such file and no study named 'smoky' (did you mean smoke?)"),
        (["none.toml"], "no such file: none.toml; expected a study"),
        (["smoke.toml"], "no such file: smoke.toml (did you mean smoke?); expected a study"),
        (["smoke", "--dry-run", "--out", "/dev/null"], "/dev/null is not a folder; expected a folder"),
        (["smoke", "--set", "iterations"], "expected KEY=VALUE, as in iterations=5, got 'iterations'"),
        (["smoke", "--launcher", "pbs"], "--launcher: expected one of local, ray, slurm, got 'pbs'"),
        (["smoke", "--slurm", "partition=x"], "--slurm needs --launcher slurm, got local"),
        (["smoke", "--launcher", "ray", "--no-mps"], "--no-mps needs --launcher local, got ray"),
        (["smoke", "--launcher", "slurm", "--slurm", "x"], "--slurm: expected KEY=VALUE, as in partition=gpu, got 'x'"),
        (["smoke", "--jobs", "0"], "jobs must be a whole number of at least 1"),
        (["smoke", "--retries", "-1"], "retries must be a whole number of at least 0"),
    ],
)
def test_wrong_commands_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("launcher", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_launchers_without_their_package_say_how_to_install_it(
    launcher: str, package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["sweep", "smoke", "--launcher", launcher, "--out", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"pip install 'ahac[{launcher}]'" in line


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (["complete", "finished"], 0),
        (["finished", "failed", "waiting"], 1),
        (["stopped"], 130),
        (["waiting"], 130),
    ],
)
def test_exit_status_follows_the_outcomes(
    states: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = [
        Outcome(name=f"n{k}", state=state, log=tmp_path / "log", detail="why")  # pyright: ignore[reportArgumentType]
        for k, state in enumerate(states)
    ]
    assert module.summary(outcomes) == status
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{len(states)} run")
    assert all(f"1 {state}" in first for state in states)
    assert others == [f"n{k} failed: why (log: {tmp_path / 'log'})" for k, x in enumerate(states) if x == "failed"]


@pytest.mark.extended
def test_small_sweep_trains_and_is_complete_the_second_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "hopper --num-envs 16 --env-steps 1000 --device cpu --eval-episodes 4"
    command = ["sweep", str(written(tmp_path, f"@seeds 0 1\nh {small}\n")), "--out", str(tmp_path / "runs")]
    assert main([*command, "--jobs", "2"]) == 0
    output = capsys.readouterr()
    assert output.out == "2 runs: 2 finished\n"
    assert output.err.count("started") == output.err.count("finished: mean return") == 2
    runs = [read_run(tmp_path / "runs" / name) for name in ("h-0", "h-1")]
    assert [run.settings["seed"] for run in runs] == [0, 1]
    assert all(run.last("env_steps") >= 1000 and run.evaluation is not None for run in runs)
    assert main(command) == 0
    assert capsys.readouterr().out == "2 runs: 2 complete\n"


@pytest.mark.extended
def test_the_smoke_study_trains_on_two_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "smoke", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "12 runs: 12 finished\n"
    runs = [read_run(folder) for folder in find_runs(tmp_path)]
    assert {(run.settings["task"], run.settings["algo"], run.settings["seed"]) for run in runs} == {
        (task, algo, seed) for task in ("cartpole", "hopper") for algo in ("ahac", "shac", "ppo") for seed in (0, 1)
    }
    assert all(run.complete and run.evaluation is not None for run in runs)
