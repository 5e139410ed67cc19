"""Evaluations in run folders, and how `ahac list runs` shows them."""

import json
from pathlib import Path

import pytest

from ahac.cli.main import main
from ahac.training.evaluate import Evaluation
from ahac.training.prepare import prepare
from ahac.training.run import EVAL_SEED, Run, create_run, open_run
from ahac.training.trainer import train
from support.small_runs import small_config, state, table


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
    assert listed()[:6] == [str(run.folder), "hopper", "shac", "4/4", "yes", "256"]
    assert listed()[-3:] == [f"{evaluation['iqm']:.1f}", f"[{low:.1f},", f"{high:.1f}]"]
    longer = open_run(run.folder)
    assert main(["resume", str(run.folder), "--iterations", "3"]) == 2
    assert "has done 4 iterations" in capsys.readouterr().err
    assert longer.config == open_run(run.folder).config


def test_complete_run_is_not_evaluated_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", str(run.folder)]) == 0
    out, err = capsys.readouterr()
    complete = f"{run.folder} is complete (4/4 iterations); `--iterations N` makes it longer\n"
    assert err.startswith(complete)
    name = run.folder
    assert err.endswith(f"next: `ahac play {name}`, `ahac eval {name} --engine mujoco`, `ahac export {name}`\n")
    before = state(run.folder)
    monkeypatch.delattr(Run, "evaluate")
    assert main(["resume", str(run.folder)]) == 0
    again = capsys.readouterr()
    assert again.err == complete
    assert out.startswith(again.out.splitlines()[0]), "the same numbers"
    assert again.out.splitlines()[-1] == str(run.folder)
    assert state(run.folder) == before


@pytest.mark.parametrize("damage", ["{", '{"iteration": 3, "mean": 1, "iqm": 1, "interval": [1, 1], "episodes": 9}'])
def test_damaged_or_outdated_evaluation_is_replaced(damage: str, run: Run) -> None:
    main(["resume", str(run.folder)])
    expected = kept(run)
    (run.folder / "evaluation.json").write_text(damage, encoding="utf-8")
    assert main(["resume", str(run.folder)]) == 0
    assert kept(run) == expected


def test_resume_says_where_it_continues(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(run.folder), "--iterations", "1e1"]) == 0
    assert capsys.readouterr().err.startswith(f"{run.folder} continues after iteration 4 (4/10 iterations)\n")
    assert main(["resume", str(run.folder), "--env-steps", "700"]) == 0
    first = f"{run.folder} continues after iteration 10 (640/700 environment steps)\n"
    assert capsys.readouterr().err.startswith(first)
    assert main(["resume", str(run.folder)]) == 0
    last = f"{run.folder} is complete (704/700 environment steps); `--env-steps N` makes it longer\n"
    assert capsys.readouterr().err == last


def test_quiet_prints_only_the_result(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(run.folder), "--iterations", "6", "--quiet"]) == 0
    for _ in range(2):
        out, err = capsys.readouterr()
        result, folder = out.splitlines()
        assert (result.startswith("4 episodes: mean"), folder, err) == (True, str(run.folder), "")
        assert main(["resume", str(run.folder), "--quiet"]) == 0


def test_runs_are_found_by_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["resume", "mine", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "runs/mine"
    assert main(["eval", "mine"]) == 0
    assert main(["compare", "mine"]) == 0
    assert main(["play", "mine", "--record", "a.npz", "--seconds", "0.1"]) == 0
    capsys.readouterr()
    for command in ("resume", "eval", "export", "compare"):
        assert main([command, "mins"]) == 2
        message = "ahac: mins is not a run: the folder does not exist (did you mean mine?); `ahac list runs` lists"
        assert capsys.readouterr().err.startswith(message)
    (tmp_path / "mine").mkdir()
    assert main(["eval", "mine"]) == 2, "a path comes first"
    assert "mine is not a run: it has no config.json" in capsys.readouterr().err


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
    assert row[:5] == [str(run.folder), "hopper", "shac", "5/6", "no"]
    assert row[-1] == "-"


def test_damaged_run_does_not_hide_the_others(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    bad = run.folder.parent / "bad"
    bad.mkdir()
    (bad / "config.json").write_text('{"task"', encoding="utf-8")
    assert main(["list", "runs", "--out", str(run.folder.parent)]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{bad} ")
    assert "config.json is damaged or cannot be read" in first
    assert second.startswith(f"{run.folder} ")


def test_ctrl_c_in_the_final_evaluation_explains_how_to_continue(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(self: Run) -> Evaluation:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "evaluate", interrupt)
    assert main(["resume", str(run.folder)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"ahac: interrupted; continue with `ahac resume {run.folder}`"
