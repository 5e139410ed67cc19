"""Evaluations in run folders, and how `ahac list runs` shows them."""

import json
from pathlib import Path

import pytest

from ahac.cli.main import main
from ahac.training.evaluate import Evaluation
from ahac.training.run import EVAL_SEED, Run, create_run, open_run, prepare
from ahac.training.trainer import train
from support.small_runs import small_config, table


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = create_run(small_config(tmp_path / "runs", name="mine", iterations=4, seed=3))
    train(run, display=False)
    return run


def kept(run: Run) -> dict[str, object]:
    return json.loads((run.folder / "evaluation.json").read_text(encoding="utf-8"))


def test_final_evaluation_is_saved(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert not (run.folder / "evaluation.json").exists(), "Python's train does not evaluate"
    assert main(["resume", str(run.folder)]) == 0
    evaluation = kept(run)
    assert set(evaluation) == {
        "episodes",
        "mean",
        "iqm",
        "interval",
        "length",
        "checkpoint",
        "iteration",
        "env_steps",
        "seed",
        "checksum",
    }
    assert (evaluation["episodes"], evaluation["checkpoint"], evaluation["seed"]) == (4, "last", 3 + EVAL_SEED)
    assert (evaluation["iteration"], evaluation["env_steps"]) == (4, 256)
    assert (
        f"4 episodes: mean {evaluation['mean']:.1f}, interquartile mean {evaluation['iqm']:.1f}"
        in capsys.readouterr().out
    )


def test_eval_saves_the_same_evaluation(run: Run) -> None:
    main(["resume", str(run.folder)])
    first = kept(run)
    (run.folder / "evaluation.json").unlink()
    assert main(["eval", str(run.folder)]) == 0
    assert kept(run) == first


def test_eval_with_more_episodes_replaces_the_saved_evaluation(run: Run) -> None:
    main(["resume", str(run.folder)])
    main(["eval", str(run.folder), "--episodes", "6", "--seed", str(run.eval_seed)])
    assert kept(run)["episodes"] == 6


@pytest.mark.parametrize(
    "options", [["--seed", "5"], ["--checkpoint", "iteration-000004"], ["--episodes", "3"], ["--checkpoint", "best"]]
)
def test_other_evaluations_are_only_printed(options: list[str], run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    main(["resume", str(run.folder)])
    before = (run.folder / "evaluation.json").read_bytes()
    run.save("best", run.restore("last"))
    capsys.readouterr()
    assert main(["eval", str(run.folder), *options]) == 0
    assert "episodes: mean" in capsys.readouterr().out
    assert (run.folder / "evaluation.json").read_bytes() == before


def test_list_shows_evaluations_of_the_last_policy_only(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    def listed() -> list[str]:
        capsys.readouterr()
        assert main(["list", "runs", "--out", str(run.folder.parent)]) == 0
        return capsys.readouterr().out.splitlines()[1].split()

    assert listed()[-1] == "-"
    main(["resume", str(run.folder)])
    evaluation = kept(run)
    low, high = evaluation["interval"]  # pyright: ignore[reportGeneralTypeIssues]
    assert listed()[:6] == ["mine", "hopper", "shac", "4/4", "yes", "256"]
    assert listed()[-3:] == [f"{evaluation['iqm']:.1f}", f"[{low:.1f},", f"{high:.1f}]"]
    longer = open_run(run.folder)
    assert main(["resume", str(run.folder), "--iterations", "3"]) == 2
    assert "has done 4 iterations" in capsys.readouterr().err
    assert longer.config == open_run(run.folder).config


def test_extended_run_is_evaluated_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    main(["resume", str(run.folder)])
    assert main(["resume", str(run.folder), "--iterations", "6"]) == 0
    assert len(table(run.folder)) == 6
    assert (kept(run)["iteration"], kept(run)["env_steps"]) == (6, 384)
    main(["list", "runs", "--out", str(run.folder.parent)])
    assert "6/6" in capsys.readouterr().out


def test_outdated_evaluation_is_not_listed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    main(["resume", str(run.folder)])
    train(prepare(run, iterations=6), 5, display=False)
    capsys.readouterr()
    main(["list", "runs", "--out", str(run.folder.parent)])
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:5] == ["mine", "hopper", "shac", "5/6", "no"]
    assert row[-1] == "-"


def test_damaged_run_does_not_hide_the_others(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    bad = run.folder.parent / "bad"
    bad.mkdir()
    (bad / "config.json").write_text('{"task"', encoding="utf-8")
    assert main(["list", "runs", "--out", str(run.folder.parent)]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("bad ")
    assert "config.json is damaged or cannot be read" in first
    assert second.startswith("mine ")


def test_ctrl_c_in_the_final_evaluation_explains_how_to_continue(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(self: Run) -> Evaluation:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "evaluate", interrupt)
    assert main(["resume", str(run.folder)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"ahac: interrupted; continue with `ahac resume {run.folder}`"
