"""`ahac grad`: every command at small size, with figures, cache and exit status."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ahac.algos.config import HorizonConfig, ShortHorizonConfig
from ahac.cli.main import main
from ahac.core.errors import InputError
from ahac.experiments import sweep as sweeping
from ahac.gradients import gait_runs, load_study
from ahac.gradients.gait_runs import gait_configs
from ahac.gradients.policies import load_target
from ahac.training.config import RunConfig
from ahac.training.run import create_run
from ahac.training.trainer import finish, train
from support.small_runs import small_algorithm, small_config

Call = Callable[..., tuple[int, str]]
BALL = ["--samples", "16", "--horizon", "14", "--stiffnesses", "1e4", "1e5", "--refinements", "4", "8"]
TASK = ["--samples", "8", "--horizons", "2", "4", "--gait-steps", "20", "--probes", "1"]
OWN = """
from dataclasses import replace
from ahac.envs import make_task
from ahac.sim import stop_gradient
cartpole = make_task("cartpole")
right = replace(cartpole, name="right")
wrong = replace(cartpole, name="wrong", reward={"blind": lambda world, action: stop_gradient(world.q[0])})
"""


@pytest.fixture
def grad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str]:
        status = main(["grad", *arguments])
        out, err = capsys.readouterr()
        return status, out + err

    return call


def pictures(out: str) -> list[Path]:
    """Return the figures that a command printed, after checking that they exist."""
    paths = [Path(line) for line in out.splitlines() if line.endswith((".png", ".svg"))]
    for path in paths:
        begin = path.read_bytes()[:5]
        assert begin.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml"), path
    return paths


@pytest.mark.extended
def test_heaviside_study_is_cached(grad: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out = grad("study", "heaviside", "--samples", "50", "--points", "40")
    assert status == 0
    assert "1.99% of samples" in out
    drawn = pictures(out)
    assert [path.name for path in drawn] == [
        "heaviside.png",
        "heaviside.svg",
        "heaviside-appendix.png",
        "heaviside-appendix.svg",
    ]
    assert drawn[0].parent == Path("runs/gradients")
    before = [path.read_bytes() for path in drawn]
    monkeypatch.setattr("ahac.gradients.heaviside.study", lambda *given: pytest.fail("computed again"))
    assert pictures(grad("study", "heaviside", "--samples", "50", "--points", "40")[1]) == drawn
    assert [path.read_bytes() for path in drawn] == before
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        grad("study", "heaviside", "--samples", "50", "--points", "40", "--redo")


@pytest.mark.extended
def test_ball_study_plots_and_reports_the_bound(grad: Call) -> None:
    status, out = grad("study", "ball", *BALL, "--out", "here")
    assert status == 0
    assert "the lemma's bound holds at every horizon" in out
    assert "the bound along the trajectory holds at every horizon" in out
    assert [path.name for path in pictures(out)] == ["ball.png", "ball.svg", "ball-stiffness.png", "ball-stiffness.svg"]
    assert load_study(Path("here/ball.npz"))["error"].shape == (14,)


@pytest.mark.extended
def test_task_study_is_plotted(grad: Call) -> None:
    status, out = grad("study", "cartpole", *TASK)
    assert status == 0
    assert "first norm" in out
    assert "gait: contacts are not periodic" in out, "a cart touches nothing"
    assert [path.name for path in pictures(out)][::2] == ["cartpole-study.png", "cartpole-gait-and-stiffness.png"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, a and b."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate("ab"):
        train(create_run(small_config(folder, name=name, iterations=2, seed=seed)), display=False)
    return folder


@pytest.mark.extended
def test_studies_of_several_runs_share_a_folder(grad: Call, runs: Path) -> None:
    few = ("--samples", "4", "--horizons", "2", "--gait-steps", "0", "--probes", "1")
    for name in "ab":
        status, out = grad("study", str(runs / name), *few, "--out", "here")
        assert status == 0
        assert pictures(out) == [Path(f"here/{name}-study.png"), Path(f"here/{name}-study.svg")]
    norms = [load_study(Path(f"here/{name}-study.npz"))["first_norm"].tolist() for name in "ab"]
    assert norms[0] != norms[1]
    assert pictures(grad("study", str(runs / "a"), *few)[1])[0] == runs / "a" / "gradients" / "study.png"


def test_missing_checkpoint_is_rejected(grad: Call, runs: Path) -> None:
    for command in ("study", "landscape"):
        status, out = grad(command, str(runs / "a"), "--checkpoint", "nope")
        assert status == 2
        assert "has no checkpoint 'nope'; it has: " in out
        assert "last" in out


@pytest.mark.parametrize(
    "given",
    [
        ("heaviside", "--widths"),
        ("heaviside", "--sigmas"),
        ("ball", "--refinements"),
        ("ball", "--stiffnesses"),
        ("cartpole", "--horizons"),
    ],
)
def test_empty_lists_are_rejected(given: tuple[str, str], grad: Call) -> None:
    status, out = grad("study", *given)
    assert status == 2
    assert f"{given[1][2:]} must have at least one number, got none" in out


def test_direction_file_determines_the_slopes(grad: Call, tmp_path: Path) -> None:
    size = sum(p.numel() for p in load_target("cartpole", worlds=1).actor.parameters())
    few = ("--samples", "4", "--horizon", "2", "--points", "2", "--along", "d.npy")
    slopes = []
    for direction in (np.arange(size), np.ones(size), np.ones(size)):
        np.save(tmp_path / "d.npy", direction)
        status, out = grad("landscape", "cartpole", *few)
        assert status == 0
        slopes.append([line for line in out.splitlines() if "-order slope: " in line])
    assert slopes[0] != slopes[1] == slopes[2]
    (tmp_path / "d.npy").unlink()
    status, out = grad("landscape", "cartpole", *few)
    assert status == 2
    assert "the direction 'd.npy' cannot be read" in out


def test_landscape_is_plotted(grad: Call) -> None:
    status, out = grad("landscape", "cartpole", "--samples", "8", "--horizon", "3", "--points", "5")
    assert status == 0
    assert "first-order slope: " in out
    assert [path.name for path in pictures(out)] == ["cartpole-landscape-random.png", "cartpole-landscape-random.svg"]


def test_check_reports_wrong_gradients_by_exit_status(grad: Call, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    few = ("--states", "3", "--steps", "12")
    status, out = grad("check", "own.py:right", *few)
    verdict = "right, 3 states: all derivatives agree with finite differences to 1e-05"
    assert (status, out.splitlines()[-1]) == (0, verdict)
    assert "by output of a step" in out
    status, out = grad("check", "own.py:wrong", *few)
    assert status == 1
    assert out.splitlines()[-1].startswith("wrong, 3 states: WRONG: position of ")
    assert out.splitlines()[-1].endswith("reward: blind")
    status, out = grad("check", "own.py:neither", *few)
    assert status == 2
    assert "own.py: it has no 'neither'; it defines: " in out
    (tmp_path / "own.py").write_text("right = (", encoding="utf-8")
    status, out = grad("check", "own.py:right", *few)
    assert status == 2
    assert "own.py: SyntaxError: " in out
    status, out = grad("check", "no.xml", *few)
    assert status == 2
    assert "no file 'no.xml'; expected the MJCF or URDF file of a robot, or a task" in out
    assert "XML text" not in out


@pytest.mark.parametrize("words", [["gait"], ["study", "--help"], ["landscape", "--help"], ["check", "--help-all"]])
def test_commands_without_a_target_show_help(words: list[str], grad: Call) -> None:
    with pytest.raises(SystemExit) as end:
        grad(*words)
    assert end.value.code in (None, 0)


def test_missing_target_is_rejected(grad: Call) -> None:
    for command in ("study", "landscape", "check"):
        for options in ([], ["--samples", "3"]):
            assert grad(command, *options) == (
                2,
                f"ahac: TARGET must come first: ahac grad {command} TARGET [options]; TARGET is {TARGETS[command]}\n",
            )


TARGETS = {
    "study": "heaviside, ball, a task, FILE.py:NAME, or a run folder",
    "landscape": "a task, FILE.py:NAME, or a run folder",
    "check": "a task, FILE.py:NAME, or the MJCF or URDF file of a robot",
}


def horizon_of(config: RunConfig) -> HorizonConfig:
    assert isinstance(config.algorithm, ShortHorizonConfig)
    return config.algorithm.horizon


def test_configs_of_the_gait_study() -> None:
    configs = gait_configs([16, 44], [0, 1], num_envs=64)
    assert [c.name for c in configs] == ["ant-shac-h16-0", "ant-shac-h44-0", "ant-shac-h16-1", "ant-shac-h44-1"]
    assert [horizon_of(c).initial for c in configs] == [16, 44, 16, 44]
    assert {(c.task, c.algo, c.num_envs, horizon_of(c).rule) for c in configs} == {("ant", "shac", 64, "fixed")}
    for horizons, seeds, name in (([], [0], "horizons"), ([16], [], "seeds")):
        with pytest.raises(InputError, match=f"{name} must have at least one number, got none"):
            gait_configs(horizons, seeds)


@pytest.mark.extended
def test_gait_study_trains_measures_and_plots(grad: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(configs: Sequence[RunConfig], *rest: object) -> list[sweeping.Outcome]:
        """Train in this process, with small networks and short evaluations."""
        learners = [replace(small_algorithm("hopper", "shac"), horizon=horizon_of(config)) for config in configs]
        for config, learner in zip(configs, learners, strict=True):
            finish(create_run(replace(config, algorithm=learner, eval_episodes=2)))
        return [sweeping.Outcome(name=c.name, state="finished", log=Path("log")) for c in configs]

    monkeypatch.setattr(sweeping, "sweep", trained)
    few = ("--task", "hopper", "--horizons", "4", "6", "--seeds", "0", "--num-envs", "4", "--iterations", "2")
    assert grad("gait", "run", *few, "--device", "cpu", "--out", "gaits")[0] == 0
    create_run(small_config(Path("gaits"), name="begun"))
    finish(create_run(small_config(Path("gaits"), "ahac", name="other", iterations=2, eval_episodes=2)))
    status, out = grad("gait", "draw", "gaits", "--worlds", "2", "--steps", "20", "--skip", "2")
    assert status == 0
    assert "skipped 1 unfinished runs" in out
    assert "skipped 1 runs that are not SHAC with a fixed horizon" in out
    rows = [line.split() for line in out.splitlines()]
    assert [row[:2] for row in rows[rows.index(["H", "seed", "period", "return"]) :][1:3]] == [["4", "0"], ["6", "0"]]
    assert [path.name for path in pictures(out)] == ["gaits.png", "gaits.svg"]
    assert load_study(Path("gaits/gaits.npz"))["horizon"].tolist() == [4.0, 6.0]
    monkeypatch.setattr(gait_runs, "log_contacts", lambda *given, **more: pytest.fail("watched again"))
    assert grad("gait", "draw", "gaits", "--worlds", "2", "--steps", "20", "--skip", "2")[0] == 0
    assert "got 0 incomplete and 1 other runs" in grad("gait", "draw", "gaits/other")[1]
    finish(create_run(small_config(Path("gaits"), name="cart", task="cartpole", iterations=2, eval_episodes=2)))
    status, out = grad("gait", "draw", "gaits")
    assert status == 2
    assert "all runs in gaits must be of the same task, got cartpole, hopper; use a separate folder per task" in out


def test_gait_figure_shows_periods_and_returns(tmp_path: Path) -> None:
    from ahac.gradients.figures.gaits import draw
    from ahac.gradients.study import Study

    arrays = {
        "horizon": np.array([16.0, 16.0, 28.0]),
        "seed": np.array([0.0, 1.0, 0.0]),
        "period": np.array([17.0, np.nan, 28.0]),
        "score": np.array([5e3, 6e3, 8e3]),
    }
    draw(Study("gaits", {"task": "ant", "runs": 3}, arrays), [tmp_path / "a.svg"])
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for label in ("SHAC on ant", "gait period [steps]", "period = horizon", "return in evaluation"):
        assert label in text


def test_gait_draw_without_runs_explains_the_fix(grad: Call, tmp_path: Path) -> None:
    assert "create the runs with `ahac grad gait run --out none`" in grad("gait", "draw", "none")[1]
    (tmp_path / "empty").mkdir()
    status, out = grad("gait", "draw", "empty")
    assert status == 2
    assert "empty has no complete run" in out
