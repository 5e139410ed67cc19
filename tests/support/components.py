"""A small robot with a task that uses every component of tasks with memory, and the record of its episodes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ahac.envs import (
    ActionDelay,
    ActionHistory,
    Curriculum,
    FootContacts,
    GaitClock,
    NoisyReset,
    ObservationDelay,
    ObservationHistory,
    RandomPushes,
    Task,
    VecEnv,
    VelocityCommand,
    noisy,
    observations,
    rewards,
)
from ahac.sim import Model, load_model
from support.robots import mjcf

__all__ = [
    "DT", "EPISODE", "STEPS", "TRUNK", "WORLDS", "Record", "actions", "at_start", "command", "depths", "feet",
    "make_task", "previous", "rollout", "rotation", "yaw_frame",
]  # fmt: skip

WORLDS, STEPS, EPISODE, DT = 48, 150, 40, 0.02
TRUNK = "trunk"

ROBOT = mjcf(
    """
<geom name="floor" type="plane" size="1 1 1" conaffinity="1"/>
<body name="trunk" pos="0 0 0.42"><freejoint name="root"/>
  <geom name="belly" type="box" size="0.2 0.1 0.05" mass="3" contype="0"/>
  <body name="left" pos="0 0.1 0"><joint name="left" type="slide" axis="0 0 1" range="-0.2 0.2" damping="5"/>
    <geom name="left_shin" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.3" contype="0"/>
    <geom name="left_heel" type="sphere" size="0.05" pos="-0.1 0 -0.35" mass="0.1"/>
    <geom name="left_toe" type="sphere" size="0.05" pos="0.1 0 -0.35" mass="0.1"/></body>
  <body name="right" pos="0 -0.1 0"><joint name="right" type="slide" axis="0 0 1" range="-0.2 0.2" damping="5"/>
    <geom name="right_shin" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.3" contype="0"/>
    <geom name="right_heel" type="sphere" size="0.05" pos="-0.1 0 -0.35" mass="0.1"/>
    <geom name="right_toe" type="sphere" size="0.05" pos="0.1 0 -0.35" mass="0.1"/></body></body>
""",
    rest="""
<actuator>
  <position joint="left" kp="600" kv="10" ctrlrange="-0.15 0.15"/>
  <position joint="right" kp="600" kv="10" ctrlrange="-0.15 0.15"/>
</actuator>
""",
)
"""A trunk on two telescopic legs, each with a heel and a toe."""

command = VelocityCommand(
    lin_vel_x=(-1.0, 2.0), lin_vel_y=(-0.5, 0.5), ang_vel_z=0.3, resample_every=(0.1, 0.3), standing=0.25, level="level"
)
lasting = VelocityCommand(resample_every=0.2, standing=0.0, name="lasting")
curriculum = Curriculum(lasting.track_lin_vel_xy(TRUNK), threshold=10.0, start=0.5, up=0.2, down=0.1)
clock = GaitClock(frequency=(1.0, 3.0), offsets=(0.0, 0.5))
actions = ActionHistory(2, steps=3)
delay = ActionDelay(2, steps=(0, 3))
late = ObservationDelay(observations.joint_pos("left", "right"), 2, steps=(1, 2), name="late", history=2)
past = ObservationHistory(observations.height(TRUNK), 1, steps=4, name="past")
noisy_past = ObservationHistory(noisy(observations.height(TRUNK), std=0.1), 1, steps=3, name="noisy past")
pushes = RandomPushes(TRUNK, velocity=0.4, every=(0.1, 0.2))
feet = FootContacts(("left_*", "right_*"))
soft = FootContacts(("left_*", "right_*"), smooth=0.004)


def make_task() -> Task:
    return Task(
        name="components",
        model=load_model(ROBOT),
        dt=DT,
        episode_steps=EPISODE,
        reset=NoisyReset(keyframe=None, root_position=0.02, root_rotation=0.3, joint_position=0.05, velocity=0.5),
        alive=lambda world: world.position(TRUNK).z - 0.28,
        control=delay.control,
        forces=[pushes.force],
        memory={
            **command.memory, **lasting.memory, **curriculum.memory, **clock.memory, **actions.memory, **delay.memory,
            **late.memory, **past.memory, **noisy_past.memory, **pushes.memory, **feet.memory,
        },
        observation={
            "command": command.observation,
            "level": curriculum.observation,
            "clock": clock.observation,
            "actions": actions.observation,
            "joints": observations.joint_pos("left", "right"),
            "late": late.observation,
            "height": observations.height(TRUNK),
            "past": past.observation,
            "noisy past": noisy_past.observation,
            "normal": noisy(observations.height(TRUNK), std=0.2),
            "uniform": noisy(observations.height(TRUNK), uniform=0.3),
            "push": pushes.observation,
            "contacts": feet.observation,
            "soft": soft.observation,
            "air times": feet.air_times,
            "lin vel": observations.base_lin_vel(TRUNK),
            "ang vel": observations.base_ang_vel(TRUNK),
            "gravity": observations.projected_gravity(TRUNK),
        },
        reward={
            "track_lin_vel_xy": command.track_lin_vel_xy(TRUNK, std=0.6),
            "track_ang_vel_z": command.track_ang_vel_z(TRUNK, std=0.7),
            "score": lasting.track_lin_vel_xy(TRUNK),
            "action_rate_l2": actions.action_rate_l2,
            "action_acc_l2": actions.action_acc_l2,
            "feet_air_time": feet.feet_air_time(target=0.06),
            "commanded": feet.feet_air_time(target=0.06, command=command, min_command=0.3),
            "gait": clock.track_contacts(soft),
            "lin_vel_z_l2": rewards.lin_vel_z_l2(TRUNK),
            "ang_vel_xy_l2": rewards.ang_vel_xy_l2(TRUNK),
            "flat_orientation_l2": rewards.flat_orientation_l2(TRUNK),
        },
    )  # fmt: skip


@dataclass
class Record:
    """What an environment did, [steps, worlds, ...]; everything is from the start of the step unless it says so."""

    obs: dict[str, np.ndarray]
    final_obs: dict[str, np.ndarray]
    """At the end of the step, before a reset."""
    memory: dict[str, np.ndarray]
    reward: dict[str, np.ndarray]
    action: np.ndarray
    q: np.ndarray
    v: np.ndarray
    next_q: np.ndarray
    next_v: np.ndarray
    done: np.ndarray
    """Whether the episode ended with the step."""
    steps: np.ndarray
    """Steps of the episode before this one."""
    model: Model

    @property
    def time(self) -> np.ndarray:
        return self.steps * DT

    @property
    def first(self) -> np.ndarray:
        return self.steps == 0


def rollout(env: VecEnv, count: int, seed: int) -> Record:
    generator = torch.Generator().manual_seed(seed)
    kept: dict[str, list[Any]] = {name: [] for name in ("obs", "final", "memory", "reward", "step", "steps")}
    age = torch.zeros(env.spec.num_envs, dtype=env.spec.dtype)
    with torch.no_grad():
        for _ in range(count):
            kept["obs"].append(env.obs)
            kept["memory"].append(env.memory)
            kept["steps"].append(age)
            step = env.step(2.0 * torch.rand(env.spec.num_envs, 2, generator=generator, dtype=env.spec.dtype) - 1.0)
            kept["step"].append(step)
            age = torch.where(step.terminated | step.truncated, 0.0, age + 1.0)
            assert not step.diverged.any()

    def stacked(values: list[torch.Tensor]) -> np.ndarray:
        return torch.stack(values).numpy()

    def parts(values: list[torch.Tensor], sizes: dict[str, int]) -> dict[str, np.ndarray]:
        split = torch.stack(values).split(list(sizes.values()), dim=-1)
        return {name: part.numpy() for name, part in zip(sizes, split, strict=True)}

    steps = kept["step"]
    return Record(
        obs=parts(kept["obs"], env.obs_layout),
        final_obs=parts([s.final_obs for s in steps], env.obs_layout),
        memory={name: stacked([m[name] for m in kept["memory"]]) for name in env.task.memory},
        reward={n: stacked([s.reward_terms[:, i] for s in steps]) for i, n in enumerate(env.task.reward)},
        action=stacked([s.action for s in steps]),
        q=stacked([s.state.q for s in steps]),
        v=stacked([s.state.v for s in steps]),
        next_q=stacked([s.next_state.q for s in steps]),
        next_v=stacked([s.next_state.v for s in steps]),
        done=stacked([s.terminated | s.truncated for s in steps]),
        steps=stacked(kept["steps"]),
        model=env.sim.model,
    )


def rotation(q: np.ndarray) -> np.ndarray:
    """[..., 3, 3] of the trunk."""
    w, x, y, z = np.moveaxis(q[..., 3:7], -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def yaw_frame(r: Record) -> tuple[np.ndarray, np.ndarray]:
    """Velocity in the yaw frame [..., 2] and yaw rate [...]."""
    axes = rotation(r.q)
    yaw = np.arctan2(axes[..., 1, 0], axes[..., 0, 0])
    x, y = r.v[..., 0], r.v[..., 1]
    planar = np.stack([np.cos(yaw) * x + np.sin(yaw) * y, np.cos(yaw) * y - np.sin(yaw) * x], axis=-1)
    return planar, np.einsum("...i,...i->...", axes[..., 2, :], r.v[..., 3:6])


def depths(q: np.ndarray) -> np.ndarray:
    """Depth of each foot's deepest point [..., 2], from the lowest points of its two spheres."""
    axes, found = rotation(q), []
    for side, joint in ((0.1, 7), (-0.1, 8)):
        spheres = []
        for x in (-0.1, 0.1):
            up = axes[..., 2, 0] * x + axes[..., 2, 1] * side + axes[..., 2, 2] * (q[..., joint] - 0.35)
            spheres.append(0.05 - (q[..., 2] + up))
        found.append(np.maximum(*spheres))
    return np.stack(found, axis=-1)


def previous(r: Record, values: np.ndarray, steps: int, before: np.ndarray | float) -> np.ndarray:
    """Values some steps earlier in the same episode, or `before` where it had not begun."""
    shifted = np.concatenate([values[:1].repeat(steps, axis=0), values])[: len(values)]
    shape = (*r.steps.shape, *(1,) * (values.ndim - 2))
    return np.where((r.steps >= steps).reshape(shape), shifted, before)


def at_start(r: Record, values: np.ndarray) -> np.ndarray:
    """Values at the start of each step's episode."""
    rows = np.arange(len(values))[:, None] - r.steps.astype(int)
    return values[rows, np.arange(values.shape[1])]
