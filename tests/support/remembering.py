"""A cart on a rail whose task uses every kind of memory: commands, a clock, histories, pushes, delays, a level."""

from collections.abc import Mapping, Sequence
from typing import Any

from ahac.envs import Action, Draw, Memory, Task
from ahac.sim import AppliedForce, Model, Real, World, load_model, sin, stop_gradient, where
from support.robots import mjcf

__all__ = ["CART", "DT", "EPISODE", "remembering_task"]

CART = mjcf(
    """<body name="cart"><joint name="rail" type="slide" axis="1 0 0" damping="0.4"/>
  <geom name="box" type="sphere" size="0.1" mass="1.5" pos="0.02 0 0"/></body>""",
    rest='<actuator><motor name="drive" joint="rail" gear="2" ctrlrange="-2 2"/></actuator>',
    option='gravity="0 0 0"',
)
DT = 0.05
EPISODE = 6
Values = Mapping[str, Sequence[Real]]


def reset(model: Model, draw: Draw) -> tuple[list[Real], list[Real]]:
    return [draw(-0.5, 0.5)], [draw.normal(0.0, 0.2)]


def new_command(world: World, action: Action, memory: Values, draw: Draw) -> Real:
    """Change the command now and then."""
    changed, fresh = draw.chance(0.4), draw.uniform(-1.0, 1.0)
    return where(changed > 0.5, fresh, memory["command"][0])


def gust(world: World) -> list[AppliedForce]:
    return [world.apply_joint_force("rail", memory_push(world))]


def memory_push(world: World) -> Real:
    return 0.5 * world.memory["push"][0] + 0.1 * sin(world.memory["phase"][0])


def delayed(world: World, action: Action) -> list[Real]:
    """Half of the action acts at once, half of it one step later."""
    return [0.5 * a + 0.5 * b for a, b in zip(action, world.memory["last action"], strict=True)]


def smoothness(world: World, action: Action) -> Real:
    return -sum(((a - b) ** 2 for a, b in zip(action, world.memory["last action"], strict=True)), 0.0)


def remembering_task(**changes: Any) -> Task:  # noqa: ANN401 - fields of a task
    memory = {
        "command": Memory(1, start=lambda world, memory, draw: draw(-1.0, 1.0), update=new_command),
        "phase": Memory(1, start=0.25, update=lambda world, action, memory, draw: memory["phase"][0] + 3.0 * DT),
        "last action": Memory(1, update=lambda world, action, memory, draw: action),
        "stopped action": Memory(1, update=lambda world, action, memory, draw: [stop_gradient(a) for a in action]),
        "push": Memory(1, update=lambda world, action, memory, draw: draw.chance(0.3) * draw.normal(0.0, 2.0)),
        "trail": Memory(
            2,
            start=lambda world, memory, draw: [world.q[0], world.q[0]],
            update=lambda world, action, memory, draw: [world.q[0], memory["trail"][0]],
        ),
        "level": Memory(
            1, start=lambda world, memory, draw: memory["level"][0] + where(memory["phase"][0] > 0.9, 1, 0)
        ),
    }
    noisy = {
        "position": lambda world, action: world.q[0] + world.draw.normal(0.0, 0.01),
        "trail": lambda world, action: world.memory["trail"],
        "command": lambda world, action: world.memory["command"],
    }
    exact = {"position": lambda world, action: world.q[0], "time": lambda world, action: world.time}
    settings = {
        "name": "remembering",
        "model": load_model(CART),
        "observation": {"policy": noisy, "critic": {**exact, "push": lambda world, action: world.memory["push"]}},
        "reward": {
            "tracking": lambda world, action: -((world.v[0] - world.memory["command"][0]) ** 2),
            "smoothness": smoothness,
            "lag": lambda world, action: 0.3 * world.after.memory["trail"][1] * world.q[0],
        },
        "reset": reset,
        "memory": memory,
        "forces": [gust],
        "control": delayed,
        "dt": DT,
        "substeps": 2,
        "episode_steps": EPISODE,
    }
    return Task(**{**settings, **changes})
