"""`ahac completion`: what the script offers in bash, and its form in the other shells."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ahac.cli.main import COMMANDS, main
from ahac.cli.names import ALGOS, PRESETS, TASKS
from ahac.cli.sweep import LAUNCHERS
from ahac.experiments.study import available

Complete = Callable[[str], list[str]]
RUN_FOLDERS = ["runs/ant shac", "runs/ant-ahac-s0"]


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Return what bash offers for a line; the last word is to be completed."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "ahac.sh").write_text(script("bash", capsys), encoding="utf-8")
    for folder in RUN_FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "runs" / "notes.txt").touch()

    def offered(line: str) -> list[str]:
        code = 'source ./ahac.sh; read -ra COMP_WORDS <<< "$1"; [ "${1% }" = "$1" ] || COMP_WORDS+=("")\n'
        code += 'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ahac; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", code, "bash", line], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return [word for word in done.stdout.splitlines() if word]

    return offered


def test_commands_are_completed(complete: Complete) -> None:
    assert complete("ahac ") == list(COMMANDS)
    assert complete("ahac ex") == ["export"]
    assert complete("ahac --v") == ["--version"]
    assert complete("ahac bench tr") == ["train"]
    assert complete("ahac bench study paper-a") == ["paper-ablation", "paper-ahac1"]
    assert complete("ahac list ") == ["tasks", "algos", "runs", "pretrained", "studies"]


def test_options_are_those_of_the_command(complete: Complete) -> None:
    assert complete("ahac eval runs/x --ep") == ["--episodes"]
    assert complete("ahac train ant --env") == ["--env-steps"]
    assert complete("ahac train ant --no-g") == ["--no-graphs"]
    assert complete("ahac resume --ep") == []
    assert complete("ahac bench train --al") == ["--algos"]


def test_names_are_completed(complete: Complete) -> None:
    assert complete("ahac train ") == list(TASKS)
    assert complete("ahac train cart") == ["cartpole"]
    assert complete("ahac train ant --algo ") == list(ALGOS)
    assert complete("ahac train ant --preset ") == list(PRESETS)
    assert complete("ahac grad check hop") == ["hopper"]
    assert complete("ahac sweep ") == list(available())
    assert complete("ahac sweep smoke --launcher ") == list(LAUNCHERS)


def test_run_folders_are_completed(complete: Complete) -> None:
    assert complete("ahac eval ") == RUN_FOLDERS
    assert complete("ahac resume runs/ant-") == ["runs/ant-ahac-s0"]
    assert complete("ahac play an") == ["ant", "anymal"]
    assert complete("ahac compare runs/x runs/a") == RUN_FOLDERS
    assert complete("ahac sweep docs/") == [], "bash completes files"


def test_zsh_uses_the_functions_for_bash(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("zsh", capsys)
    assert text.endswith(script("bash", capsys))
    assert "bashcompinit" in text


def test_fish_has_a_line_for_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    lines = script("fish", capsys).splitlines()
    assert all(line.startswith(("complete -c ahac ", "#")) for line in lines)
    for name, (summary, _) in COMMANDS.items():
        assert any(f" -a {name} " in line and summary in line for line in lines)
    assert any(line.endswith(f"-l algo -x -a '{' '.join(ALGOS)}'") for line in lines)
    assert any("contains -- eval " in line and line.endswith("-l episodes") for line in lines)
