"""Help lists every setting with its name, description and default."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from ahac.cli.main import main
from ahac.training.api import configure


def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return the help as one line."""
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    assert end.value.code in (None, 0)
    return " ".join(capsys.readouterr().out.split())


def settings(config: Any, prefix: str = "") -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the value of every setting by option name, nested ones included."""
    options = {}
    for item in fields(config):
        value = getattr(config, item.name)
        name = f"{prefix}{item.name.replace('_', '-')}"
        options |= settings(value, f"{name}.") if is_dataclass(value) else {f"--{name}": value}
    return options


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value) or "''"


BASELINES = [["ant", "--algo", "ppo"], ["hopper", "--algo", "sac"], ["ant", "--algo", "svg", "--preset", "paper"]]


@pytest.mark.parametrize(
    "given", [[], ["hopper"], ["ant", "--algo", "shac"], ["cartpole", "--preset", "paper"], *BASELINES]
)
def test_help_lists_every_setting_with_description_and_default(
    given: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = help_of(capsys, monkeypatch, "train", *given).split("show this help message and exit")
    options = dict(zip(given[1::2], given[2::2], strict=True))
    recipe = configure((given or ["hopper"])[0], options.get("--algo", "ahac"), options.get("--preset", "default"))
    recipe = replace(recipe, algo="ahac", preset="default")  # defaults, whatever was given
    expected = settings(recipe)
    assert expected.pop("--task") == recipe.task, "it is positional"
    places = sorted((text.index(f" {name}"), name, value) for name, value in expected.items())
    for (begin, name, value), (end, *_) in zip(places, [*places[1:], (len(text),)], strict=True):
        entry = text[begin:end]
        assert f"(default: {shown(value)})" in entry, name
        # More than name, type and default.
        assert len(entry.split("(default:")[0].split()) >= 3, f"{name} has no description"


def test_help_names_the_recipe_and_the_choices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, "train", "ant", "--algo", "bptt", "--preset", "released")
    assert "the recipe of bptt on ant, preset released" in text
    assert "TASK: hopper, ant," in text
    assert "--algo: ahac, ahac1, shac, bptt" in text
    assert "--preset: default, paper, released" in text
    assert "--algorithm.critic" not in text, "bptt has none"


def test_help_without_a_task_follows_the_algorithm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "the recipe of shac on hopper" in help_of(capsys, monkeypatch, "train", "--algo", "shac")


def test_train_without_arguments_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train"])
    assert end.value.code in (None, 0)
    assert "usage: ahac train TASK" in capsys.readouterr().out


def test_resume_help_explains_learning_rates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, "resume")
    assert "--iterations N" in text
    assert "Learning rates then decay over N: they jump" in text
