"""An environment on our own engine is `VecEnv`: same seed, same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import pytest
import torch

from ahac.engines import EngineEnv, NativeEngine
from ahac.envs import JointTargets, Task, VecEnv, make_task, observations, uniform
from ahac.sim import InputError
from support.components import make_task as components_task
from support.remembering import remembering_task

WORLDS, STEPS = 5, 60
ROUNDING = 1e-9
"""The two environments compute the same in differently compiled kernels, in double precision."""


def randomized() -> Task:
    """Pushes, delays, noise and memory, and randomized parameters of every kind of element."""
    task = components_task()
    return replace(
        task,
        actions=JointTargets(scale=0.1, kp=500.0, kd=10.0),
        randomize={
            "body_mass:trunk": uniform(-0.5, 0.5, "add"),
            "geom_friction:left_*": uniform(0.4, 1.2),
            "actuator_gain:*": uniform(0.8, 1.2, "scale"),
            "joint_offset:*": uniform(-0.02, 0.02),
            "actuator_delay": uniform(0.0, 0.03),
        },
        signals={"torque": observations.actuator_force(), "command": lambda world, action: world.memory["command"][:3]},
    )


CASES: dict[str, Callable[[], Task]] = {
    "remembering": remembering_task,
    "randomized": randomized,
    "hopper": lambda: make_task("hopper"),
}


@pytest.mark.parametrize("name", CASES)
def test_native_engine_reproduces_vec_env(name: str) -> None:
    task = replace(CASES[name](), episode_steps=25)
    expected = VecEnv(task, num_envs=WORLDS, seed=3, dtype=torch.float64)
    engine = NativeEngine(task, num_worlds=WORLDS, dtype=torch.float64)
    env = EngineEnv(task, engine, seed=3, dtype=torch.float64)
    assert env.spec == expected.spec
    generator = torch.Generator().manual_seed(0)
    ended = 0
    for _ in range(STEPS):
        shape = (WORLDS, env.spec.action_size)
        action = 2.4 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1.2
        with torch.no_grad():
            a, b = expected.step(action), env.step(action)
        for field in fields(a):
            one, other = getattr(a, field.name), getattr(b, field.name)
            if isinstance(one, torch.Tensor):
                torch.testing.assert_close(other, one, rtol=ROUNDING, atol=ROUNDING, msg=field.name)
        for one, other in zip(expected.buffers, env.buffers, strict=True):
            torch.testing.assert_close(other, one, rtol=ROUNDING, atol=ROUNDING)
        ended += int(a.done.sum())
    assert ended >= WORLDS
    assert env.signals.keys() == task.signals.keys()


def test_signals_see_the_controls_of_actuators() -> None:
    task = replace(randomized(), randomize={})
    env = EngineEnv(task, NativeEngine(task, num_worlds=2, dtype=torch.float64), dtype=torch.float64)
    for _ in range(3):
        step = env.step(torch.full((2, 2), 0.7, dtype=torch.float64))
    kp, kd = 500.0, 10.0
    # The delay of actions is up to three steps: the target is that of an action of 0.7 or of zero.
    spread = env.signals["torque"] + kp * step.next_state.q[:, 7:9] + kd * step.next_state.v[:, 6:8]
    assert (
        torch.isclose(spread, torch.tensor(0.0, dtype=torch.float64))
        .logical_or(torch.isclose(spread, torch.tensor(kp * 0.1 * 0.7, dtype=torch.float64)))
        .all()
    )


def test_engines_have_no_stiffness() -> None:
    task = remembering_task()
    env = EngineEnv(task, NativeEngine(task, num_worlds=1))
    step = env.step(torch.zeros(1, 1))
    assert not step.reward.requires_grad
    with pytest.raises(InputError, match="derivatives"):
        env.stiffness(step)
