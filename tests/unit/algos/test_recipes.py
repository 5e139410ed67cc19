"""Recipes: the appendix's numbers, and that all of them can be built."""

import pytest
import torch

import ahac
from ahac.algos.config import ActorConfig, CriticConfig, FirstOrderConfig, HorizonConfig, StiffnessConfig
from ahac.algos.first_order import FirstOrder
from ahac.algos.recipes import ALGOS, PAPER, PRESETS, recipe
from ahac.algos.registry import make_algorithm
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
        name=task, num_envs=2, obs_size=11, action_size=3, episode_steps=1000, dt=1 / 60, device=torch.device("cpu"),
        dtype=torch.float32,
    )  # fmt: skip


def test_every_task_has_a_recipe_of_its_own() -> None:
    assert set(PAPER) == set(ahac.tasks())


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("task", [*PAPER, "one of a user's own"])
def test_every_recipe_builds(task: str, algo: str, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "prepare", lambda kernel: None)  # nothing is fitted here: seconds of compiling each
    made = recipe(task, algo, preset)
    assert made.num_envs >= 1
    assert made.iterations >= 1
    learner = make_algorithm(made.learner, spec(task), seed=0)
    if isinstance(learner, FirstOrder):
        assert learner.horizon.steps == round(made.learner.horizon.first)
    assert learner.act(torch.zeros(2, 11)).shape == (2, 3)


@pytest.mark.parametrize("task", APPENDIX)
def test_the_paper_preset_of_ahac_has_the_appendix_numbers(task: str) -> None:
    hidden, critic_rate, _, horizon_rate = APPENDIX[task]
    learner = recipe(task, "ahac", "paper").learner
    assert learner.actor.hidden == hidden
    assert learner.actor.rate == 2e-3
    assert learner.horizon.rule == "paper"
    assert learner.horizon.rate == horizon_rate
    assert learner.stiffness.threshold == 500.0
    assert learner.stiffness.lagrangian
    assert (learner.gamma, learner.lam) == (0.99, 0.95)
    assert learner.critic is not None
    assert learner.critic.rate == critic_rate
    assert learner.critic.members == 2
    assert learner.critic.target_alpha is None


@pytest.mark.parametrize("task", APPENDIX)
def test_the_paper_preset_of_shac_has_the_appendix_numbers(task: str) -> None:
    hidden, critic_rate, kept, _ = APPENDIX[task]
    learner = recipe(task, "shac", "paper").learner
    assert learner.actor.hidden == hidden
    assert (learner.horizon.rule, learner.horizon.first) == ("fixed", 32)
    assert learner.critic is not None
    assert (learner.critic.rate, learner.critic.target_alpha) == (critic_rate, kept)
    assert (learner.critic.members, learner.critic.passes, learner.critic.plateau) == (1, 16, None)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_makes_each_algorithm(preset: str) -> None:
    shac, ahac_, ahac1, bptt = (recipe("hopper", algo, preset).learner for algo in ("shac", "ahac", "ahac1", "bptt"))
    assert bptt.critic is None
    assert {x.horizon.rule for x in (shac, ahac1, bptt)} == {"fixed"}
    assert ahac_.horizon.rule != "fixed"
    assert [x.stiffness.truncate for x in (shac, ahac_, ahac1, bptt)] == [False, False, True, False]
    assert ahac1.critic == ahac_.critic
    assert ahac_.critic is not None
    assert ahac_.critic.plateau == 0.2


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'dqn'.*ahac, ahac1, shac, bptt, ppo, sac, svg"):
        recipe("hopper", "dqn")
    with pytest.raises(InputError, match=r"'fast'.*default, paper, released"):
        recipe("hopper", "shac", "fast")
    with pytest.raises(InputError, match=r"'endless'.*fixed, paper, released, shrink, growth, esnr"):
        HorizonConfig(rule="endless")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"'loudness'.*dynamics, contact, contact_normalised, force"):
        StiffnessConfig(signal="loudness")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("field", "value"), [("gamma", 1.5), ("gamma", -0.1), ("lam", 2.0)])
def test_discounts_outside_zero_and_one_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        FirstOrderConfig(**{field: value})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("field", ["members", "passes", "minibatches"])
def test_critics_of_nothing_are_refused(field: str) -> None:
    with pytest.raises(InputError, match="at least 1"):
        CriticConfig(**{field: 0})  # pyright: ignore[reportArgumentType]


def test_bounds_without_a_horizon_between_them_are_refused() -> None:
    with pytest.raises(InputError, match=r"horizon\.least must not exceed horizon\.most, got 9 and 8"):
        HorizonConfig(rule="growth", least=9, most=8)


NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (HorizonConfig, "first", 0), (HorizonConfig, "first", NAN), (HorizonConfig, "growth", 1.0),
        (HorizonConfig, "growth", 0.0), (HorizonConfig, "speed", 0.0), (HorizonConfig, "speed", NAN),
        (HorizonConfig, "rate", -1.0), (HorizonConfig, "least", 0), (ActorConfig, "max_norm", -1.0),
        (ActorConfig, "log_std", NAN), (CriticConfig, "max_norm", 0.0), (CriticConfig, "plateau", NAN),
        (CriticConfig, "target_alpha", 1.0), (StiffnessConfig, "limit", 0.0), (StiffnessConfig, "probes", 0),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_learnt_with_are_refused_by_name(kind: type, field: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{field} must .* got"):
        kind(**{field: value})


def test_the_lagrangian_needs_multipliers_and_a_gradient() -> None:
    with pytest.raises(InputError, match="needs multipliers"):
        FirstOrderConfig(stiffness=StiffnessConfig(lagrangian=True))
    with pytest.raises(InputError, match="needs a signal with a gradient"):
        FirstOrderConfig(
            horizon=HorizonConfig(rule="paper"), stiffness=StiffnessConfig(lagrangian=True, signal="dynamics")
        )
    FirstOrderConfig(horizon=HorizonConfig(rule="paper", least=32, most=32), stiffness=StiffnessConfig(lagrangian=True))


def test_a_limit_that_is_given_counts() -> None:
    assert StiffnessConfig(signal="contact", limit=7.0).threshold == 7.0
    assert StiffnessConfig(signal="dynamics").threshold == 500.0
