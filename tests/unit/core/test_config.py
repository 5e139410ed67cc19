"""Settings survive conversion to dictionaries; wrong ones are rejected by name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ahac.algos.config import CriticConfig, HorizonConfig, ShortHorizonConfig
from ahac.algos.recipes import ALGOS, PRESETS, recipe
from ahac.core.config import from_dict, to_dict
from ahac.core.errors import InputError
from ahac.training.config import SCHEMA, RunConfig, config_from_file, config_to_file


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the default settings as read from JSON, with one of them changed."""
    data: dict[str, Any] = json.loads(json.dumps(to_dict(RunConfig())))
    *owners, name = path.split(".")
    parent = data
    for owner in owners:
        parent = parent[owner]
    parent[name] = value
    return data


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algo", list(ALGOS))
def test_every_recipe_comes_back_equal_through_json(algo: str, preset: str) -> None:
    config = RunConfig(algo=algo, preset=preset, algorithm=recipe("hopper", algo, preset).algorithm)
    back = from_dict(RunConfig, json.loads(json.dumps(to_dict(config))))
    assert back == config
    assert hash(back) == hash(config), "lists must become tuples again"


def test_no_critic_comes_back_as_none() -> None:
    config = RunConfig(algorithm=ShortHorizonConfig(critic=None))
    assert to_dict(config)["algorithm"]["critic"] is None
    assert from_dict(RunConfig, to_dict(config)) == config


@pytest.mark.parametrize("hidden", [(), (8,), (1, 2, 3, 4)])
def test_tuples_of_any_length_come_back(hidden: tuple[int, ...]) -> None:
    config = CriticConfig(hidden=hidden)
    assert from_dict(CriticConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_an_integer_is_accepted_for_a_float() -> None:
    back = from_dict(HorizonConfig, {**to_dict(HorizonConfig()), "initial": 16})
    assert isinstance(back.initial, float)
    assert from_dict(CriticConfig, {**to_dict(CriticConfig()), "plateau_tolerance": 1}).plateau_tolerance == 1.0


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("num_envs", "many", "RunConfig.num_envs must be of type int"),
        ("num_envs", 8.0, "RunConfig.num_envs must be of type int"),
        ("num_envs", None, "RunConfig.num_envs must be of type int"),
        ("seed", [1], "RunConfig.seed must be of type int"),
        ("task", 3, "RunConfig.task must be of type str"),
        ("deterministic", "yes", "RunConfig.deterministic must be of type bool"),
        ("algorithm.gamma", "0.9", "ShortHorizonConfig.gamma must be of type float"),
        ("algorithm.gamma", True, "ShortHorizonConfig.gamma must be of type float"),
        ("algorithm.critic.plateau_tolerance", "none", "CriticConfig.plateau_tolerance must be of type float"),
        ("algorithm.actor.hidden", [8, "x"], "ActorConfig.hidden must be of type int"),
        ("algorithm.actor.hidden", "ab", "ActorConfig.hidden must be a list"),
        ("algorithm.horizon.rule", "longer", "HorizonConfig.rule must be one of fixed, paper"),
        ("algorithm.horizon.rule", None, "HorizonConfig.rule must be one of"),
        ("algorithm.stiffness.signal", "", "StiffnessConfig.signal must be one of dynamics"),
    ],
)
def test_a_wrong_type_is_rejected_by_name(path: str, value: object, named: str) -> None:
    with pytest.raises(InputError, match=named):
        from_dict(RunConfig, changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        pytest.param("num_envs", True, "RunConfig.num_envs"),
        pytest.param("algorithm.actor.hidden", 8, "ActorConfig.hidden"),
        pytest.param("algorithm.actor.hidden", None, "ActorConfig.hidden"),
        pytest.param("algorithm", 3, "algorithm"),
        pytest.param("algorithm.actor", [], "actor"),
    ],
)
def test_a_wrong_kind_of_value_is_rejected_by_name(path: str, value: object, named: str) -> None:
    with pytest.raises(InputError, match=named):
        from_dict(RunConfig, changed(path, value))


def test_an_unknown_setting_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"RunConfig has no setting numenvs; its settings are .*num_envs"):
        from_dict(RunConfig, changed("numenvs", 3))
    with pytest.raises(InputError, match=r"CriticConfig has no setting passes; its settings are .*epochs"):
        from_dict(RunConfig, changed("algorithm.critic.passes", 3))


@pytest.mark.parametrize("path", ["num_envs", "algorithm", "algorithm.gamma", "algorithm.critic.epochs"])
def test_a_missing_setting_takes_its_default(path: str) -> None:
    data = changed(path, None)
    *owners, name = path.split(".")
    parent = data
    for owner in owners:
        parent = parent[owner]
    del parent[name]
    assert config_from_file(data) == RunConfig()


def test_a_config_file_has_a_schema_version() -> None:
    content = json.loads(json.dumps(config_to_file(RunConfig(seed=3))))
    assert content["schema"] == SCHEMA
    assert config_from_file(content) == RunConfig(seed=3)
    del content["schema"]
    assert config_from_file(content) == RunConfig(seed=3), "version 0.1.0 wrote none"


@pytest.mark.parametrize(
    ("schema", "message"), [(SCHEMA + 1, "install a newer version"), ("1", "schema must be"), (-1, "schema must be")]
)
def test_an_unknown_schema_is_rejected(schema: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_from_file({"schema": schema})


@pytest.mark.parametrize("name", ["num_envs", "iterations", "torch_threads", "checkpoint_every", "eval_episodes"])
def test_counts_below_one_are_rejected(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be a whole number of at least 1, got 0"):
        replace(RunConfig(), **{name: 0})


@pytest.mark.parametrize(
    ("name", "value"), [("gamma", 1.5), ("gamma", -0.1), ("td_lambda", 2.0), ("td_lambda", float("nan"))]
)
def test_discounts_outside_of_the_unit_interval_are_rejected(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name} must lie between 0 and 1"):
        replace(ShortHorizonConfig(), **{name: value})
