"""Domain randomization: distributions, physical values, and what worlds with other parameters do."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ahac.core.errors import InputError, TraceError
from ahac.envs import Distribution, NoisyReset, Task, VecEnv, log_uniform, normal, observations, uniform
from ahac.envs.draws import Draw
from ahac.envs.randomization import RandomizedValues
from ahac.envs.vec_env import BUFFERS
from ahac.sim import Real, World, load_model
from support.episodes import assert_same, outcomes, random_actions, set_time_left
from support.robots import mjcf

DT = 0.05
EPISODE = 6


def lift(mass: float = 1.5, kp: float = 20.0, damping: float = 0.4) -> str:
    """A servo that moves a mass up and down; its control range is not [-1, 1]."""
    return mjcf(
        f"""<body name="cage"><joint name="rail" type="slide" axis="0 0 1" damping="{damping}"/>
  <geom name="box" type="sphere" size="0.1" mass="{mass}"/></body>""",
        rest=f'<actuator><position name="servo" joint="rail" kp="{kp}" kv="2" ctrlrange="-0.5 1.5"/></actuator>',
    )


def lift_task(model: str | None = None, **changes: Any) -> Task:  # noqa: ANN401 - fields of a task
    settings = {
        "name": "lift",
        "model": load_model(model or lift()),
        "observation": {"state": lambda world, action: [world.q[0], world.v[0]]},
        "reward": {"height": lambda world, action: world.q[0]},
        "reset": NoisyReset(keyframe=None, joint_position=0.2),
        "dt": DT,
        "substeps": 2,
        "episode_steps": EPISODE,
    }
    return Task(**{**settings, **changes})


RANDOMIZE = {
    "body_mass:cage": uniform(-0.5, 1.0, "add"),
    "dof_damping:*": log_uniform(0.1, 10.0, "scale"),
    "actuator_gain:servo": normal(25.0, 2.0),
    "gravity": uniform([0.0, 0.0, -12.0], [0.0, 0.0, -8.0]),
    "actuator_delay": uniform(0.0, 0.1),
}
CRITIC = {"state": lambda world, action: world.q, "parameters": observations.parameters("*")}


@pytest.fixture(scope="module")
def made(device: torch.device) -> VecEnv:
    task = lift_task(randomize=RANDOMIZE)
    groups = {"policy": task.observation, "critic": CRITIC}
    return VecEnv(replace(task, observation=groups), num_envs=1500, dtype=torch.float64, device=device)


@pytest.fixture
def env(made: VecEnv) -> VecEnv:
    made.reset(seed=1)
    return made


def test_parameters_have_their_distributions(env: VecEnv) -> None:
    p = {name: value.cpu() for name, value in env.parameters.items()}
    mass, gain, delay = (p[name][:, 0] for name in ("body_mass:cage", "actuator_gain:servo", "actuator_delay"))
    damping = (p["dof_damping:rail"][:, 0] / 0.4).log()
    for values, low, high in ((mass, 1.0, 2.5), (damping, -math.log(10.0), math.log(10.0)), (delay, 0.0, 0.1)):
        assert ((values >= low) & (values <= high)).all()
        assert abs(values.mean() - 0.5 * (low + high)) < 0.05 * (high - low)
        assert abs(values.std() - (high - low) / math.sqrt(12.0)) < 0.05 * (high - low)
    assert abs(gain.mean() - 25.0) < 0.2
    assert abs(gain.std() - 2.0) < 0.15
    assert ((gain - 25.0).abs() <= 6.0 + 1e-9).all(), "clipped at three standard deviations"
    assert (p["gravity"][:, :2] == 0.0).all()
    assert ((p["gravity"][:, 2] >= -12.0) & (p["gravity"][:, 2] <= -8.0)).all()
    assert abs(torch.corrcoef(torch.stack([mass, gain, delay]))[0, 1]) < 0.1


def test_parameters_last_an_episode_and_are_drawn_anew_for_the_next(env: VecEnv) -> None:
    first = env.parameters
    set_time_left(env, [0, 7], 2)
    actions = random_actions(env, 3, seed=2)
    outcomes(env, actions[:1])
    assert_same(env.parameters, first)
    assert outcomes(env, actions[1:])["truncated"][0].nonzero().flatten().tolist() == [0, 7]
    for name, values in env.parameters.items():
        same = (values == first[name]).all(dim=-1)
        assert same.logical_not().nonzero().flatten().tolist() == [0, 7], name
    worlds = torch.arange(env.spec.num_envs, device=env.spec.device) == 3
    before = env.parameters["body_mass:cage"]
    env.reset_worlds(worlds)
    changed = (env.parameters["body_mass:cage"] != before)[:, 0]
    assert torch.equal(changed, worlds)


def test_critics_see_parameters_in_unit_range(env: VecEnv) -> None:
    seen, p = env.critic_obs[:, 1:], env.parameters
    assert env.critic_obs_layout == {"state": 1, "parameters": 7}
    assert env.spec.asymmetric
    assert env.spec.critic_obs_size == 8
    wanted = [
        (p["body_mass:cage"] - 1.75) / 0.75,
        (p["dof_damping:rail"] / 0.4).log() / math.log(10.0),
        (p["actuator_gain:servo"] - 25.0) / 2.0,
        torch.zeros_like(p["gravity"][:, :2]),
        (p["gravity"][:, 2:] + 10.0) / 2.0,
        (p["actuator_delay"] - 0.05) / 0.05,
    ]
    torch.testing.assert_close(seen, torch.cat(wanted, dim=-1), rtol=1e-9, atol=1e-12)
    outcomes(env, random_actions(env, 1, seed=3))
    assert torch.equal(env.critic_obs[:, 1:], seen)


def test_runs_are_reproducible_and_a_saved_state_continues_exactly(env: VecEnv) -> None:
    assert {"parameters", "past_controls"} <= env.state_dict().keys()
    actions = random_actions(env, 2 * EPISODE, seed=4)
    first = outcomes(env, actions)
    env.reset(seed=1)
    outcomes(env, actions[:4])
    saved = env.state_dict()
    fresh = VecEnv(env.task, num_envs=env.spec.num_envs, dtype=torch.float64, device=env.spec.device, seed=9)
    fresh.load_state_dict(saved)
    again = outcomes(fresh, actions[4:])
    assert_same(again, {name: values[4:] for name, values in first.items()})
    assert_same(fresh.parameters, (outcomes(env, actions[4:]), env.parameters)[1])


def test_worlds_move_like_robots_with_these_parameters(env: VecEnv, device: torch.device) -> None:
    """The rescaled control leaves gains physical: kp is that of the model file."""
    fixed = {"body_mass:cage": 2.0, "dof_damping:rail": 0.7, "actuator_gain:servo": 35.0, "actuator_delay": 0.0}
    names, saved = list(env.parameters), env.state_dict()
    columns = dict(zip(names, saved["parameters"].split([1, 1, 1, 3, 1], dim=-1), strict=True))
    for name, value in fixed.items():
        columns[name].fill_(value)
    columns["gravity"][:] = torch.tensor([0.0, 0.0, -9.81], dtype=torch.float64)
    saved["clock"][:, 0] = 0.0
    env.load_state_dict(saved)
    other = VecEnv(lift_task(lift(2.0, 35.0, 0.7)), num_envs=env.spec.num_envs, dtype=torch.float64, device=device)
    others = other.state_dict()
    other.load_state_dict({**others, **{name: saved[name] for name in ("q", "v", "obs", "clock")}})
    actions = random_actions(env, EPISODE - 1, seed=5)
    found, wanted = outcomes(env, actions), outcomes(other, actions)
    for name in ("q", "v", "reward"):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-9, atol=1e-12)


def test_parameters_can_be_set_with_gradients(env: VecEnv) -> None:
    """Past controls follow the parameters among the buffers."""
    before = [x.clone() for x in env.buffers]
    values = torch.cat(list(env.parameters.values()), dim=-1).mul(1.01).requires_grad_()
    env.set_parameters(values)
    names = [name for name in BUFFERS if name in env.state_dict()]
    for name, old, new in zip(names, before, env.buffers, strict=True):
        assert torch.equal(old, new) == (name != "parameters"), name
    step = env.step(torch.ones(env.spec.num_envs, env.spec.action_size, dtype=env.spec.dtype, device=env.spec.device))
    (gradient,) = torch.autograd.grad(step.next_state.v.sum(), values)
    assert gradient.abs().sum() > 0.0
    assert gradient.isfinite().all()
    with pytest.raises(InputError, match=r"values must be a torch.float64 tensor of shape .* got torch.float64"):
        env.set_parameters(values[:, :-1])
    plain = VecEnv(lift_task(randomize={}, observation={"v": lambda world, action: world.v[0]}), num_envs=1)
    with pytest.raises(InputError, match=r"has no parameters: set Task\(randomize="):
        plain.set_parameters(values)


def test_delays_hold_the_control_back(env: VecEnv) -> None:
    """A delay of 1.5 steps: half of the control acts one step later, half of it two steps later; before that, zero."""
    saved = env.state_dict()
    saved["parameters"][:, -1] = 1.5 * DT
    actions = random_actions(env, 4, seed=6, bound=2.0).requires_grad_()

    def velocities(controls: Tensor) -> list[Tensor]:
        env.load_state_dict(saved)
        return [env.step(action).next_state.v for action in controls]

    late = velocities(actions)
    for t, v in enumerate(late):
        (found,) = torch.autograd.grad(v.sum(), actions, retain_graph=True)
        assert torch.equal(found[:t] != 0.0, actions[:t].abs() <= 1.0)
        assert not (found[t:] != 0.0).any(), "the control of this step does not act yet"
    effective = torch.zeros_like(actions)
    clipped = actions.detach().clamp(-1.0, 1.0)
    effective[1] = 0.5 * clipped[0]
    effective[2:] = 0.5 * clipped[1:-1] + 0.5 * clipped[:-2]
    saved["parameters"][:, -1] = 0.0
    for v, wanted in zip(late, velocities(effective), strict=True):
        torch.testing.assert_close(v.detach(), wanted, rtol=1e-9, atol=1e-12)


def test_an_episode_begins_without_earlier_controls(env: VecEnv) -> None:
    set_time_left(env, [2], 2)
    outcomes(env, torch.ones(2, env.spec.num_envs, 1, dtype=torch.float64, device=env.spec.device))
    past = env.state_dict()["past_controls"]
    assert (past[2] == 0.0).all()
    assert (past[[0, 1, 3]] == 1.0).all()


def test_stiffness_is_that_of_the_worlds_own_parameters(env: VecEnv) -> None:
    """Without delay, ‖∇f‖ depends on the mass of the world before the step, although the episode has ended."""
    saved = env.state_dict()
    saved["parameters"][:] = saved["parameters"][0]
    saved["parameters"][:, -1] = 0.0
    saved["parameters"][1::2, 0] *= 0.5
    saved["clock"][:, 0] = EPISODE - 1
    env.load_state_dict(saved)
    step = env.step(random_actions(env, 1, seed=7, bound=0.9)[0])
    assert step.truncated.all()
    found = env.stiffness(step)
    torch.testing.assert_close(found[0::2], found[0].expand_as(found[0::2]))
    torch.testing.assert_close(found[1::2], found[1].expand_as(found[1::2]))
    assert found[1] > found[0] + 0.01


# ------------------------------------------------------------------------------------------------ tasks and errors


def test_gains_stay_physical_through_replace() -> None:
    plain = lift_task()
    assert plain.model.actuators[0].gain == 20.0 * 1.0
    for task in (
        replace(plain, randomize={"actuator_gain:*": uniform(0.9, 1.1, "scale")}),
        lift_task(randomize=RANDOMIZE),
    ):
        (servo,) = task.model.actuators
        assert (servo.gain, servo.bias[1], servo.control_map, servo.control_range) == (
            20.0,
            -20.0,
            (1.0, 0.5),
            (-1.0, 1.0),
        )
        assert replace(task, name="other").model is task.model
    assert replace(task, randomize={}).model == plain.model
    assert replace(plain, name="other").model is plain.model


def test_rescaled_gains_are_no_parameters() -> None:
    model = lift_task().model
    with pytest.raises(InputError, match=r"rescaled its control to \[-1, 1\]; select parameters of the model that you"):
        model.parameters("actuator_gain:*")
    assert model.parameters("actuator_strength:*").size == 1


def test_a_model_of_another_task_keeps_its_controls() -> None:
    first = lift_task()
    assert replace(first, model=lift_task().model).model.actuators[0].gain == first.model.actuators[0].gain


def draw_all(randomize: dict[str, Distribution], model: str) -> dict[str, list[Any]]:
    task = lift_task(model, randomize=randomize)
    assert task.randomization is not None
    numbers = torch.rand(50, generator=torch.Generator().manual_seed(1)).tolist()
    return task.randomization.parameters.by_name(task.randomization.draw(Draw(numbers)))


TWO = mjcf(
    """<body name="a"><joint name="one" type="slide" axis="0 0 1" damping="1"/>
  <geom type="box" size="0.1 0.2 0.3" mass="1"/>
<body name="b"><joint name="two" type="slide" axis="1 0 0" damping="2"/><geom type="box" size="0.1 0.2 0.1" mass="3"/>
</body></body>""",
    rest='<actuator><motor name="m" joint="one" ctrlrange="-1 1"/></actuator>',
)


def test_patterns_draw_separately_unless_shared() -> None:
    apart = draw_all({"dof_damping:*": uniform(0.5, 2.0, "scale")}, TWO)
    together = draw_all({"dof_damping:*": uniform(0.5, 2.0, "scale", shared=True)}, TWO)
    assert apart["dof_damping:two"][0] / apart["dof_damping:one"][0] != pytest.approx(2.0)
    assert together["dof_damping:two"][0] / together["dof_damping:one"][0] == pytest.approx(2.0)


def test_a_parameter_is_scaled_as_a_whole() -> None:
    drawn = draw_all({"body_inertia:*": uniform(0.5, 2.0, "scale")}, TWO)
    default = draw_all({"body_inertia:*": uniform(1.0, 1.0, "scale")}, TWO)
    for body in ("a", "b"):
        factors = [x / y for x, y in zip(drawn[f"body_inertia:{body}"], default[f"body_inertia:{body}"], strict=True)]
        assert factors == pytest.approx([factors[0]] * 3)
        assert factors[0] != pytest.approx(1.0)


def test_description_has_a_line_per_pattern() -> None:
    task = lift_task(
        TWO, randomize={"body_mass:b": uniform(-1.0, 0.5, "add"), "dof_damping:*": normal(1.0, 0.1, "scale")}
    )
    assert task.randomization is not None
    assert task.randomization.describe() == [
        "body_mass:b: + uniform(-1, 0.5), 2 to 3.5 kg (model: 3)",
        "dof_damping:* (2): × normal(1, 0.1), 0.7 to 2.6 N s/m (model: 1 to 2)",
    ]


@pytest.mark.parametrize(
    ("randomize", "message"),
    [
        ({"body_mass:cage": uniform(-2.0, 1.0, "add")}, "randomize can draw values that are not physical: .*body_mass"),
        ({"body_mass:cage": normal(1.5, 0.6)}, "randomize can draw values that are not physical"),
        ({"body_mass:wing": uniform(1.0, 2.0)}, "body_mass:wing"),
        ({"gravity": uniform(1.0, 2.0)}, "'gravity' has 3 components: give bounds for each"),
        ({"gravity": uniform([0.0, 1.0], [1.0, 2.0])}, "has 3 components, but its distribution has bounds for 2"),
        ({"dof_frictionloss:*": uniform(0.5, 2.0, "scale")}, r"'scale' has no effect on 'dof_frictionloss:\*', which"),
        ({"body_mass:*": uniform(1.0, 2.0), "body_mass:c*": uniform(1.0, 2.0)}, "matches several patterns"),
    ],
)
def test_impossible_randomization_is_refused(randomize: dict[str, Distribution], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lift_task(randomize=randomize)


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: uniform(2.0, 1.0), "lower bound must not exceed the upper one, got 2.0 and 1.0"),
        (lambda: uniform(0.0, math.inf), "bounds of uniform must be a finite number"),
        (lambda: uniform([0.0], [1.0, 2.0]), "two numbers, or two lists of equal length"),
        (
            lambda: uniform(0.0, 1.0, "times"),  # pyright: ignore[reportArgumentType]
            "operation must be 'set', 'add' or 'scale', got 'times'",
        ),
        (lambda: log_uniform(0.0, 1.0), "log_uniform needs bounds above zero, got 0.0"),
        (lambda: normal(0.0, -1.0), "standard deviation must not be negative, got -1.0"),
    ],
)
def test_invalid_distributions_are_refused(create: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=message):
        create()


def test_observing_parameters_that_are_not_randomized_is_refused() -> None:
    task = lift_task(observation={"p": observations.parameters("body_mass:*")})
    with pytest.raises(InputError, match="no parameter is randomized: set randomize="):
        VecEnv(task, num_envs=1)
    task = replace(task, randomize={"gravity": uniform(0.9, 1.1, "scale")})
    with pytest.raises(TraceError, match=r"no randomized parameter matches body_mass:\*; randomized are: gravity"):
        VecEnv(task, num_envs=1)
    task = replace(task, observation={"p": lambda world, action: world.parameters["body_mass:cage"]})
    with pytest.raises(TraceError, match=r"no randomized parameter is named 'body_mass:cage'; randomized are: gravity"):
        VecEnv(task, num_envs=1)


def test_force_laws_and_controls_see_parameters_like_all_functions_of_a_task() -> None:
    seen = []

    def record(world: World) -> list[Real]:
        assert isinstance(world.parameters, RandomizedValues)
        seen.append([len(world.parameters["gravity"]), len(world.parameters.normalized("*"))])
        return []

    task = lift_task(
        randomize={"gravity": uniform(0.9, 1.1, "scale")},
        forces=[record],
        control=lambda world, action: [*action, *record(world)],
    )
    VecEnv(task, num_envs=1)
    assert len(seen) >= 2
    assert all(sizes == [3, 3] for sizes in seen)


def test_actions_beyond_the_bounds_do_not_count_as_stiff(env: VecEnv) -> None:
    """With a delay, an action is clipped before it is mixed with earlier ones; stiffness must see it like the step."""
    env.reset(seed=1)
    late = env.parameters["actuator_delay"][:, 0] > 0.9 * DT
    start = env.state_dict()
    stiff = []
    for action in (0.5, 2.0):
        env.load_state_dict(start)
        stiff.append(env.stiffness(env.step(torch.full_like(late[:, None], action, dtype=torch.float64))))
    assert (stiff[1] < stiff[0] - 1e-6)[~late].all()


def test_measured_positions_include_encoder_offsets() -> None:
    terms = {
        "true": observations.joint_pos("one", "two"),
        "joints": observations.joint_pos("one", "two", measured=True),
        "limbs": observations.limb_joint_pos("a", measured=True),
    }
    env = VecEnv(lift_task(TWO, observation=terms, randomize={"joint_offset:*": uniform(-0.1, 0.1)}), num_envs=3)
    true, joints, limbs = env.obs.split([2, 2, 1], dim=-1)
    offsets = torch.cat([env.parameters[f"joint_offset:{name}"] for name in ("one", "two")], dim=-1)
    assert (offsets.abs() > 0.0).all()
    torch.testing.assert_close(joints, true + offsets)
    torch.testing.assert_close(limbs, joints[:, 1:])
