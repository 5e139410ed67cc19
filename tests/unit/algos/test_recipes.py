"""Recipes: the appendix's numbers, and that all of them can be built."""

from dataclasses import replace

import pytest
import torch

import ahac
from ahac.algos.config import (
    ActorConfig,
    CriticConfig,
    HorizonConfig,
    ShortHorizonConfig,
    StiffnessConfig,
    UpdateConfig,
)
from ahac.algos.hyperparameters import PAPER
from ahac.algos.recipes import ALGOS, FIRST_ORDER, PRESETS, recipe
from ahac.algos.registry import make_algorithm
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError
from ahac.native.build import Kernel

# Actor, critic rate, share of the target kept, α_φ.
APPENDIX = {
    "hopper": ((128, 64, 32), 4e-3, 0.2, 2e-4),
    "ant": ((128, 64, 32), 2e-3, 0.2, 1e-5),
    "anymal": ((256, 128), 2e-3, 0.2, 1e-5),
    "humanoid": ((256, 128), 5e-4, 0.995, 1e-5),
    "snu_humanoid": ((512, 256), 5e-4, 0.995, 1e-5),
}


def spec(task: str) -> EnvSpec:
    return EnvSpec(
        name=task,
        num_envs=2,
        obs_size=11,
        critic_obs_size=11,
        action_size=3,
        episode_steps=1000,
        dt=1 / 60,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


def test_every_task_has_its_own_recipe() -> None:
    assert set(PAPER) == set(ahac.tasks())


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("task", [*PAPER, "one of a user's own"])
def test_every_recipe_builds(task: str, algo: str, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "prepare", lambda kernel: None)  # nothing is fitted here: seconds of compiling each
    made = recipe(task, algo, preset)
    assert made.num_envs >= 1
    assert made.iterations >= 1
    algorithm = make_algorithm(made.algorithm, spec(task), seed=0)
    if isinstance(algorithm, ShortHorizonActorCritic):
        assert algorithm.horizon.steps == round(made.algorithm.horizon.initial)
    assert algorithm.act(torch.zeros(2, 11)).shape == (2, 3)


@pytest.mark.parametrize("task", APPENDIX)
def test_the_paper_preset_of_ahac_has_the_appendix_numbers(task: str) -> None:
    hidden, critic_rate, _, horizon_rate = APPENDIX[task]
    algorithm = recipe(task, "ahac", "paper").algorithm
    assert algorithm.actor.hidden == hidden
    assert algorithm.actor.learning_rate == 2e-3
    assert algorithm.horizon.rule == "paper"
    assert algorithm.horizon.learning_rate == horizon_rate
    assert algorithm.stiffness.threshold == 500.0
    assert algorithm.stiffness.lagrangian
    assert (algorithm.gamma, algorithm.td_lambda) == (0.99, 0.95)
    assert algorithm.critic is not None
    assert algorithm.critic.learning_rate == critic_rate
    assert algorithm.critic.num_critics == 2
    assert algorithm.critic.target_alpha is None


@pytest.mark.parametrize("task", APPENDIX)
def test_the_paper_preset_of_shac_has_the_appendix_numbers(task: str) -> None:
    hidden, critic_rate, kept, _ = APPENDIX[task]
    algorithm = recipe(task, "shac", "paper").algorithm
    assert algorithm.actor.hidden == hidden
    assert (algorithm.horizon.rule, algorithm.horizon.initial) == ("fixed", 32)
    assert algorithm.critic is not None
    assert (algorithm.critic.learning_rate, algorithm.critic.target_alpha) == (critic_rate, kept)
    assert (algorithm.critic.num_critics, algorithm.critic.epochs, algorithm.critic.plateau_tolerance) == (1, 16, None)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_makes_each_algorithm(preset: str) -> None:
    shac, ahac_, ahac1, bptt = (recipe("hopper", algo, preset).algorithm for algo in ("shac", "ahac", "ahac1", "bptt"))
    assert bptt.critic is None
    assert {x.horizon.rule for x in (shac, ahac1, bptt)} == {"fixed"}
    assert ahac_.horizon.rule != "fixed"
    assert [x.stiffness.truncate for x in (shac, ahac_, ahac1, bptt)] == [False, False, True, False]
    assert ahac1.critic == ahac_.critic
    assert ahac_.critic is not None
    assert ahac_.critic.plateau_tolerance == 0.2


@pytest.mark.parametrize(("task", "preset"), [("humanoid", "default"), ("ant", "paper"), ("ant", "released")])
def test_ivwh_is_shac_with_mixed_gradients(task: str, preset: str) -> None:
    shac, ivwh = (recipe(task, algo, preset) for algo in ("shac", "ivwh"))
    assert ivwh == replace(shac, algorithm=replace(shac.algorithm, update=UpdateConfig(gradient="mixed")))


def test_rpo_is_shac_with_five_policy_epochs() -> None:
    shac, rpo = (recipe("humanoid", algo) for algo in ("shac", "rpo"))
    assert rpo == replace(shac, algorithm=replace(shac.algorithm, update=UpdateConfig(epochs=5, kl_coef=0.2)))


@pytest.mark.parametrize("algo", ["sapo", "rpo", "ivwh"])
def test_rollouts_of_16_steps_on_hopper_ant_and_robots_of_a_users_own(algo: str) -> None:
    for task in PAPER:
        made, shac = recipe(task, algo), recipe(task, "shac")
        halved = task in ("hopper", "ant")
        assert made.algorithm.horizon.initial == shac.algorithm.horizon.initial / (2 if halved else 1)
        assert made.iterations == shac.iterations * (2 if halved else 1)
        assert made.num_envs == shac.num_envs
    assert recipe("one of a user's own", algo).algorithm.horizon.initial == 16
    assert [recipe(task, algo).iterations for task in ("hopper", "ant")] == [1600, 4000]


def test_shac_and_the_published_presets_keep_rollouts_of_32_steps() -> None:
    for task in ("hopper", "ant", "one of a user's own"):
        assert recipe(task, "shac").algorithm.horizon.initial == 32
        for preset in PRESETS[1:]:
            assert {recipe(task, x, preset).algorithm.horizon.initial for x in ("shac", "sapo", "rpo", "ivwh")} == {32}
            assert recipe(task, "rpo", preset).iterations == recipe(task, "shac", preset).iterations


def test_ahac_has_several_policy_epochs_and_half_the_iterations_on_go1_and_go2() -> None:
    several = {task for task in PAPER if recipe(task, "ahac").algorithm.update == UpdateConfig(epochs=5, kl_coef=0.2)}
    assert several == {"go1", "go2"}
    assert [recipe("go1", algo).iterations for algo in ("ahac", "shac", "rpo", "ahac1")] == [400, 800, 800, 800]
    published = recipe("go1", "ahac", "paper")
    assert (published.iterations, published.algorithm.update) == (800, UpdateConfig())


def test_ppo_has_a_larger_target_kl_on_snu_humanoid_in_the_default_preset_only() -> None:
    made = {task: recipe(task, "ppo") for task in ("hopper", "ant", "anymal", "humanoid", "snu_humanoid")}
    assert [x.algorithm.target_kl for x in made.values()] == [0.008, 0.008, 0.008, 0.008, 0.1]
    assert [(x.num_envs, x.iterations) for x in made.values()] == [(1024, 600), *[(4096, 1500)] * 3, (4096, 2000)]
    assert {recipe(task, "ppo", preset).algorithm.target_kl for task in made for preset in PRESETS[1:]} == {0.008}


def test_the_released_sac_acts_randomly_for_nine_iterations() -> None:
    for task in ("hopper", "ant", "snu_humanoid"):
        made = recipe(task, "sac", "released")
        assert made.algorithm.learning_starts == 9 * made.algorithm.steps_per_env * made.num_envs


def test_sac_makes_four_updates_per_step_on_hopper_and_ant_in_the_default_preset_only() -> None:
    made = {task: recipe(task, "sac") for task in ("hopper", "ant", "anymal", "cartpole")}
    assert [(x.algorithm.updates, x.algorithm.batch_size // x.num_envs) for x in made.values()] == [(4, 8)] * 2 + [
        (1, 32)
    ] * 2
    assert [(x.num_envs, x.iterations) for x in made.values()] == [(64, 500), (64, 1000), (64, 5000), (64, 100)]
    for preset in PRESETS[1:]:
        published = recipe("ant", "sac", preset)
        assert (published.algorithm.updates, published.algorithm.batch_size, published.num_envs) == (1, 4096, 128)


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_the_published_settings_of_sapo(preset: str) -> None:
    made = recipe("ant", "sapo", preset)
    assert (made.num_envs, made.iterations, made.algorithm.horizon.initial) == (64, 2000, 32)
    assert made.algorithm.critic is not None
    assert (made.algorithm.actor.hidden, made.algorithm.critic.hidden) == ((128, 64, 32), (64, 64))
    assert (made.algorithm.actor.learning_rate, made.algorithm.critic.learning_rate) == (2e-3, 5e-4)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algo", FIRST_ORDER)
def test_a_task_without_hyperparameters_has_those_of_ant(algo: str, preset: str) -> None:
    assert recipe("robot", algo, preset) == recipe("ant", algo, preset)


def test_the_published_settings_of_rpo() -> None:
    assert [recipe(task, "rpo", "paper").num_envs for task in ("ant", "hopper")] == [128, 512]
    rpo = recipe("ant", "rpo", "paper").algorithm
    assert (rpo.update.epochs, rpo.update.clip_low, rpo.update.clip_high) == (5, 0.8, 1.0)
    assert (rpo.update.kl_coef, rpo.update.entropy_coef) == (0.2, 0.2)
    assert rpo.critic is not None
    assert rpo.critic.num_critics == 2
    for network in (rpo.actor, rpo.critic):
        assert (network.hidden, network.activation, network.learning_rate) == ((400, 200, 100), "silu", 5e-4)
        assert network.weight_decay > 0.0


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'dqn'.*ahac, ahac1, shac, sapo, rpo, ivwh, bptt, ppo, sac, svg, fasttd3"):
        recipe("hopper", "dqn")
    with pytest.raises(InputError, match=r"'fast'.*default, paper, released"):
        recipe("hopper", "shac", "fast")
    with pytest.raises(InputError, match=r"'endless'.*fixed, paper, released, shrink, growth, esnr"):
        HorizonConfig(rule="endless")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"'loudness'.*dynamics, contact, contact_normalized, force"):
        StiffnessConfig(signal="loudness")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("field", "value"), [("gamma", 1.5), ("gamma", -0.1), ("td_lambda", 2.0)])
def test_discounts_outside_zero_and_one_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        ShortHorizonConfig(**{field: value})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("field", ["num_critics", "epochs", "minibatches"])
def test_critics_of_nothing_are_refused(field: str) -> None:
    with pytest.raises(InputError, match="at least 1"):
        CriticConfig(**{field: 0})  # pyright: ignore[reportArgumentType]


def test_bounds_without_a_horizon_between_them_are_refused() -> None:
    with pytest.raises(InputError, match=r"horizon\.min must not exceed horizon\.max, got 9 and 8"):
        HorizonConfig(rule="growth", min=9, max=8)


NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (HorizonConfig, "initial", 0),
        (HorizonConfig, "initial", NAN),
        (HorizonConfig, "growth_limit", 1.0),
        (HorizonConfig, "growth_limit", 0.0),
        (HorizonConfig, "speed", 0.0),
        (HorizonConfig, "speed", NAN),
        (HorizonConfig, "learning_rate", -1.0),
        (HorizonConfig, "min", 0),
        (ActorConfig, "max_grad_norm", -1.0),
        (ActorConfig, "init_log_std", NAN),
        (CriticConfig, "max_grad_norm", 0.0),
        (CriticConfig, "plateau_tolerance", NAN),
        (CriticConfig, "target_alpha", 1.0),
        (StiffnessConfig, "limit", 0.0),
        (StiffnessConfig, "probes", 0),
    ],
)
def test_invalid_settings_are_refused_by_name(kind: type, field: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{field} must .* got"):
        kind(**{field: value})


def test_the_lagrangian_needs_multipliers_and_a_gradient() -> None:
    with pytest.raises(InputError, match="needs multipliers"):
        ShortHorizonConfig(stiffness=StiffnessConfig(lagrangian=True))
    with pytest.raises(InputError, match="needs a signal with a gradient"):
        ShortHorizonConfig(
            horizon=HorizonConfig(rule="paper"), stiffness=StiffnessConfig(lagrangian=True, signal="dynamics")
        )
    ShortHorizonConfig(horizon=HorizonConfig(rule="paper", min=32, max=32), stiffness=StiffnessConfig(lagrangian=True))


def test_an_explicit_limit_overrides_the_default() -> None:
    assert StiffnessConfig(signal="contact", limit=7.0).threshold == 7.0
    assert StiffnessConfig(signal="dynamics").threshold == 500.0
