"""Short help, and full help with the name, description and default of every setting."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from ahac.cli.main import COMMANDS, main
from ahac.cli.train import BASIC
from ahac.training.api import configure
from ahac.training.config import RunConfig


def help_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str, asked: str = "--help"
) -> str:
    """Return the help as one line."""
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        main([*arguments, asked])
    assert end.value.code in (None, 0)
    return " ".join(capsys.readouterr().out.split())


def settings(config: Any, prefix: str = "") -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the value of every setting by option name, nested ones included."""
    options = {}
    for item in fields(config):
        if not item.metadata.get("option", True):
            continue
        value = getattr(config, item.name)
        name = f"{prefix}{item.name.replace('_', '-')}"
        options |= settings(value, f"{name}.") if is_dataclass(value) else {f"--{name}": value}
    return options


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value) or "''"


SCREEN = 45
"""Lines of a short help at 80 columns."""
BASELINES = [
    ["ant", "--algo", "ppo"],
    ["hopper", "--algo", "sac"],
    ["ant", "--algo", "svg", "--preset", "paper"],
    ["ant", "--algo", "fasttd3"],
]


@pytest.mark.parametrize(
    "given", [["hopper"], ["ant", "--algo", "shac"], ["cartpole", "--preset", "paper"], *BASELINES]
)
def test_help_lists_every_setting_with_description_and_default(
    given: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = help_of(capsys, monkeypatch, "train", *given, asked="--help-all").split("show this help and exit")
    options = dict(zip(given[1::2], given[2::2], strict=True))
    recipe = configure(given[0], options.get("--algo", "ahac"), options.get("--preset", "default"))
    recipe = replace(recipe, algo="ahac", preset="default")  # defaults, whatever was given
    expected = settings(recipe)
    assert " --task " not in text, "it is positional"
    text = text.replace(",", " ,")  # --graphs, --no-graphs
    places = sorted((text.index(f" {name} "), name, value) for name, value in expected.items())
    for (begin, name, value), (end, *_) in zip(places, [*places[1:], (len(text),)], strict=True):
        entry = text[begin:end]
        assert f"(default: {shown(value)})" in entry, name
        # More than name, type and default.
        assert len(entry.split("(default:")[0].split()) >= 3, f"{name} has no description"


def test_help_names_the_recipe_and_the_choices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("train", "ant", "--algo", "bptt", "--preset", "released")
    text = help_of(capsys, monkeypatch, *given, asked="--help-all")
    assert "the recipe of bptt on ant, preset released" in text
    assert "TASK: hopper, ant," in text
    assert "--algo: ahac, ahac1, shac, sapo, rpo, ivwh, bptt" in text
    assert "--preset: default, paper, released" in text
    assert "--algorithm.critic" not in text, "bptt has none"


@pytest.mark.parametrize("asked", ["--help", "--help-all"])
def test_help_without_a_task_names_no_recipe(
    asked: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, "train", "--algo", "shac", asked=asked)
    assert "recipe" not in text
    assert "--num-envs INT number of worlds simulated in parallel (default: by task and algorithm)" in text
    assert "--env-steps INT|None total environment steps" in text
    assert "--seed INT random seed for network initialization, action noise and episode resets (default: 0)" in text
    assert ("--torch-threads" in text) == (asked == "--help-all")
    assert text.endswith("lists all options, those of the algorithm included, with the task's defaults")


def test_general_help_has_the_settings_of_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, "train", asked="--help-all")
    names = {item.name for item in fields(RunConfig)} - {"task", "task_source", "algorithm"}
    assert all(f"--{name.replace('_', '-')} " in text.replace(",", " ") for name in names)


def test_short_help_fits_a_screen_and_tells_how_to_see_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["train", "hopper", "--algo", "shac", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= SCREEN
    shown = {line.split()[0] for line in lines if line.startswith("  --")}
    assert shown == set(BASIC)
    with pytest.raises(SystemExit):
        main(["train", "hopper", "--algo", "shac", "--help-all"])
    full = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
    assert len(full) > 3 * len(shown)
    count = len(full) - 1  # without --help-all itself
    assert lines[-1] == f"`ahac train hopper --algo shac --help-all` lists all {count} options"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "train"])
def test_help_of_every_command_fits_a_screen(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"usage: ahac {command}")
    assert len(lines) <= SCREEN
    assert "  -h, --help " in "\n".join(lines)


def test_resume_help_explains_learning_rates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, "resume")
    assert "--iterations N" in text
    assert "Learning rates then decay over N: they jump" in text
