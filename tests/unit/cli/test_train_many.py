"""`ahac train TASK --algo A B --seeds 0 1`."""

from pathlib import Path

import pytest

from ahac.cli.main import main

SMALL = ("--iterations", "2", "--num-envs", "4", "--eval-episodes", "2", "--device", "cpu")


def test_all_combinations_are_trained_and_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["train", "cartpole", "--algo", "shac", "bptt", "--seeds", "3", "4", "--out", str(tmp_path), *SMALL]
    assert main([*command, "--jobs", "2"]) == 0
    names = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert names == {"cartpole-shac-s3", "cartpole-shac-s4", "cartpole-bptt-s3", "cartpole-bptt-s4"}
    out, err = capfd.readouterr()
    assert "the runs differ in environment steps; `--env-steps N` makes them equally long" in err
    table = [line.split()[:2] for line in out.splitlines() if line.startswith("cartpole-")]
    assert table == [["cartpole-shac", "2"], ["cartpole-bptt", "2"]]
    picture = tmp_path / "cartpole-shac-bptt.png"
    assert picture.stat().st_size > 1000
    assert str(picture) in out
    assert main(command) == 0  # continues what is left: nothing
    assert "4 runs: 4 complete" in capfd.readouterr().out


def test_several_algorithms_without_seeds_use_the_default_seed(tmp_path: Path) -> None:
    assert main(["train", "cartpole", "--algo", "shac", "bptt", "--out", str(tmp_path), *SMALL]) == 0
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"cartpole-shac-s0", "cartpole-bptt-s0"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0", "1", "--seed", "2"], "--seeds lists the seeds of several runs; omit --seed"),
        (["--seeds", "0", "--name", "x"], "omit --name"),
        (["--algo", "shac", "ahac", "--watch"], "omit --watch"),
        (["--jobs", "2"], "add --seeds, or several --algo"),
        (["--algo", "shac", "nope"], "no algorithm named 'nope'"),
        (["--seeds", "one"], "--seeds: expected a whole number, got 'one'"),
    ],
)
def test_wrong_combinations_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "cartpole", "--out", str(tmp_path), *SMALL, *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
