"""A robot on one foot: a floating base, a leg with a filtered motor, a tail on a ball joint, and a task with memory."""

from typing import Any

import torch

from ahac.envs import Draw, Memory, Task, VecEnv
from ahac.sim import Model, Real, load_model
from support.robots import mjcf

__all__ = ["MASS", "standing_env", "standing_task"]

MASS = 3.0
"""Of the whole robot [kg]."""
ROBOT = mjcf(
    """<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body name="torso" pos="0 0 0.5"><freejoint name="root"/><geom type="sphere" size="0.1" mass="2"/>
  <body name="leg" pos="0 0 -0.1"><joint name="hip" axis="0 1 0" damping="0.2" armature="0.01"/>
    <geom name="shin" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3" mass="0.4"/>
    <geom name="foot" type="sphere" size="0.05" pos="0 0 -0.35" mass="0.5"/></body>
  <body name="tail" pos="-0.1 0 0"><joint name="root of tail" type="ball" damping="0.1" armature="0.01"/>
    <geom type="sphere" size="0.03" pos="-0.2 0 0" mass="0.1"/></body></body>""",
    rest="""<actuator><general name="motor" joint="hip" dyntype="filter" dynprm="0.05" gainprm="3"
  ctrlrange="-1 1" ctrllimited="true"/></actuator>""",
)
FOOT = 0.5
"""Height of the torso above the foot's lowest point, with the leg hanging down [m]."""


def reset(model: Model, draw: Draw) -> tuple[list[Real], list[Real]]:
    """Some feet press on the ground, others hover over it."""
    turn = [1.0, draw(-0.1, 0.1), draw(-0.1, 0.1), draw(-0.1, 0.1)]
    q = [draw(-0.1, 0.1), 0.0, FOOT + draw(-0.015, 0.006), *turn, draw(-0.1, 0.1), 1.0, draw(-0.1, 0.1), 0.0, 0.1]
    return q, [draw(-0.3, 0.3) for _ in range(model.nv)]


def standing_task(**changes: Any) -> Task:  # noqa: ANN401 - fields of a task
    settings: dict[str, Any] = {
        "name": "standing",
        "model": load_model(ROBOT),
        "observation": {
            "q": lambda world, action: world.q,
            "v": lambda world, action: world.v,
            "activation": lambda world, action: world.act,
            "trail": lambda world, action: world.memory["trail"],
            "noisy": lambda world, action: world.q[2] + world.draw.normal(0.0, 0.01),
        },
        "reward": {
            "height": lambda world, action: world.q[2] + 0.1 * world.v[6],
            "rise": lambda world, action: world.after.q[2] - world.memory["trail"][0],
        },
        "reset": reset,
        "memory": {
            "trail": Memory(
                2,
                start=lambda world, memory, draw: [world.q[2], world.q[7]],
                update=lambda world, action, memory, draw: [world.q[2], world.q[7] + 0.1 * memory["trail"][1]],
            )
        },
        "alive": lambda world: world.q[2] - 0.2,
        "dt": 0.02,
        "episode_steps": 50,
    }
    return Task(**{**settings, **changes})


def standing_env(num_envs: int, device: str | torch.device = "cpu", **changes: Any) -> VecEnv:  # noqa: ANN401 - of the task
    return VecEnv(standing_task(**changes), num_envs=num_envs, device=device, dtype=torch.float64)
