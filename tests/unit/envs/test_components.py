"""Commands, clocks, histories, delays, noise, pushes, curricula and contact sensors, checked on recorded episodes.

One task uses all of them. What it observes, remembers and rewards is computed again in numpy from the states and
actions of the record.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import ahac
from ahac.core.errors import InputError, TraceError
from ahac.envs import (
    ActionDelay,
    ActionHistory,
    Curriculum,
    FootContacts,
    GaitClock,
    ObservationDelay,
    ObservationHistory,
    RandomPushes,
    VecEnv,
    VelocityCommand,
    noisy,
    observations,
)
from ahac.sim import Simulator, State
from support.components import (
    DT,
    EPISODE,
    STEPS,
    TRUNK,
    WORLDS,
    Record,
    actions,
    at_start,
    command,
    depths,
    feet,
    make_task,
    previous,
    rollout,
    rotation,
    yaw_frame,
)

THREE: Any = (1.0, 2.0, 3.0)
HALF: Any = 0.5
NO_TERM: Any = 3


@pytest.fixture(scope="module")
def env() -> VecEnv:
    return ahac.make(make_task(), num_envs=WORLDS, dtype=torch.float64)


@pytest.fixture(scope="module")
def record(env: VecEnv) -> Record:
    env.reset(seed=3)
    found = rollout(env, STEPS, 0)
    assert found.done[: EPISODE - 1].any(), "some episodes end early"
    assert (found.steps == EPISODE - 1).any(), "and some do not"
    return found


def test_commands_change_when_they_are_due_and_not_before(record: Record) -> None:
    for memory, (low, high) in ((record.memory["command"], (0.1, 0.3)), (record.memory["lasting"], (0.2, 0.2))):
        values, due = memory[..., :3], memory[..., 3]
        later = record.steps > 0
        changed = (values[1:, :, 0] != values[:-1, :, 0])[later[1:]]
        expected = (record.time[1:] > due[:-1] - 1e-4)[later[1:]]
        both_zero = (values[1:, :, 0] == 0.0)[later[1:]] & (values[:-1, :, 0] == 0.0)[later[1:]]
        assert np.array_equal(changed | both_zero, expected | both_zero)
        assert 0 < changed.sum() < 0.2 * changed.size
        waits = (due - record.time)[record.first | (np.diff(due, axis=0, prepend=due[:1]) != 0.0)]
        assert (waits >= low - 1e-9).all()
        assert (waits <= high + 1e-9).all()
    lasting_due = record.memory["lasting"][..., 3]
    assert np.allclose(lasting_due, 0.2 * (1.0 + np.floor(record.time / 0.2 + 1e-9)))


def test_commands_cover_their_ranges_and_stand_at_times(record: Record) -> None:
    x, y, yaw = np.moveaxis(record.memory["command"][..., :3], -1, 0)
    standing = x == 0.0
    assert np.array_equal(standing, y == 0.0)
    assert np.array_equal(yaw, np.where(standing, 0.0, 0.3))
    assert 0.15 < standing.mean() < 0.35
    for values, (low, high) in ((x[~standing], (-1.0, 2.0)), (y[~standing], (-0.5, 0.5))):
        assert values.min() >= low
        assert values.max() <= high
        assert values.min() < low + 0.1 * (high - low)
        assert values.max() > high - 0.1 * (high - low)
        assert abs(values.mean() - 0.5 * (low + high)) < 0.1 * (high - low)
    level = record.memory["level"][..., :1]
    assert np.allclose(record.obs["command"], record.memory["command"][..., :3] * level)
    assert level.max() > level.min()


def test_tracking_rewards_are_exponentials_of_the_error(record: Record) -> None:
    planar, rate = yaw_frame(record)
    wanted = record.obs["command"]
    error = ((planar - wanted[..., :2]) ** 2).sum(axis=-1)
    assert np.allclose(record.reward["track_lin_vel_xy"], np.exp(-error / 0.36))
    assert np.allclose(record.reward["track_ang_vel_z"], np.exp(-((rate - wanted[..., 2]) ** 2) / 0.49))
    error = ((planar - record.memory["lasting"][..., :2]) ** 2).sum(axis=-1)
    assert np.allclose(record.reward["score"], np.exp(-error / 0.25))


def test_a_clock_turns_at_the_frequency_of_its_episode(record: Record) -> None:
    start, frequency = np.moveaxis(at_start(record, record.memory["gait"]), -1, 0)
    angles = 2.0 * np.pi * (start + frequency * record.time)
    expected = np.stack([np.sin(angles), np.cos(angles), -np.sin(angles), -np.cos(angles)], axis=-1)
    assert np.allclose(record.obs["clock"], expected)
    assert (frequency.min() >= 1.0) & (frequency.max() <= 3.0)
    assert frequency[record.first].std() > 0.4
    assert 0.2 < start[record.first].std() < 0.4


def test_histories_hold_the_previous_actions(record: Record) -> None:
    earlier = [previous(record, record.action, k, 0.0) for k in (1, 2, 3)]
    assert np.allclose(record.obs["actions"], np.concatenate(earlier, axis=-1))
    a, b, c = record.action, *earlier[:2]
    assert np.allclose(record.reward["action_rate_l2"], ((a - b) ** 2).sum(axis=-1))
    assert np.allclose(record.reward["action_acc_l2"], ((a - 2.0 * b + c) ** 2).sum(axis=-1))


def test_delays_are_whole_steps_drawn_for_each_episode(record: Record) -> None:
    steps = np.floor(record.memory["action delay"][..., 0])
    assert np.array_equal(steps, at_start(record, steps))
    assert set(np.unique(steps)) == {0.0, 1.0, 2.0, 3.0}
    late = np.floor(record.memory["late delay"][..., 0])
    assert set(np.unique(late)) == {1.0, 2.0}


def test_delayed_actions_and_pushes_move_the_robot(env: VecEnv, record: Record) -> None:
    """A plain simulator with the action of some steps ago, and with the push as a generalized force, does the same."""
    steps = np.floor(record.memory["action delay"][..., :1])
    control = np.select([steps == k for k in range(4)], [previous(record, record.action, k, 0.0) for k in range(4)])
    mass = sum(link.mass for link in record.model.links)
    force = np.zeros_like(record.v)
    force[..., :2] = record.memory["push"][..., :2] * mass
    sim = Simulator(env.task.model, num_worlds=WORLDS, dt=DT, substeps=env.task.substeps, dtype=torch.float64)
    for t in range(0, STEPS, 7):
        q, v, u, f = (torch.from_numpy(x[t].copy()) for x in (record.q, record.v, control, force))
        end = sim.step(State(q, v), u, force=f)
        assert np.allclose(end.q, record.next_q[t], atol=1e-9)
        assert np.allclose(end.v, record.next_v[t], atol=1e-9)
    assert (force[::7] != 0.0).any()


def test_pushes_last_one_step_and_come_when_they_are_due(record: Record) -> None:
    kicks, due = record.memory["push"][..., :2] * DT, record.memory["push"][..., 2]
    later = ~record.first[1:]
    pushed = (kicks != 0.0).all(axis=-1)
    assert np.array_equal(pushed[1:][later], (record.time[1:] > due[:-1] - 1e-4)[later])
    assert not pushed[record.first].any()
    assert not (pushed[1:] & pushed[:-1] & later).any(), "pushes are further apart than a step"
    assert np.abs(kicks).max() <= 0.4 + 1e-9
    assert abs(kicks[pushed].mean()) < 0.05
    assert 0.2 < kicks[pushed].std() < 0.26
    assert np.array_equal(record.obs["push"] * DT, kicks)


def test_delayed_and_stacked_observations_are_earlier_ones(record: Record) -> None:
    joints, height = record.obs["joints"], record.obs["height"]
    steps = np.floor(record.memory["late delay"])
    choices = [previous(record, joints, k, at_start(record, joints)) for k in range(4)]
    for age, observed in enumerate(np.split(record.obs["late"], 2, axis=-1)):
        expected = np.select([steps == k for k in range(3)], choices[age : age + 3])
        assert np.allclose(observed, expected)
    stack = [previous(record, height, k, at_start(record, height)) for k in range(4)]
    assert np.allclose(record.obs["past"], np.concatenate(stack, axis=-1))


def test_stacked_noise_stays_what_it_was(record: Record) -> None:
    noisy = record.obs["noisy past"]
    newest = noisy[..., :1]
    stack = [previous(record, newest, k, at_start(record, newest)) for k in range(3)]
    assert np.allclose(noisy, np.concatenate(stack, axis=-1))
    assert 0.09 < (newest - record.obs["height"]).std() < 0.11


def test_noise_is_fresh_and_of_the_right_size(record: Record) -> None:
    height = record.obs["height"]
    normal, uniform = record.obs["normal"] - height, record.obs["uniform"] - height
    assert abs(normal.mean()) < 0.01
    assert 0.19 < normal.std() < 0.21
    assert 0.02 < (np.abs(normal) > 0.4).mean() < 0.07, "4.6 % are beyond two standard deviations"
    assert np.abs(uniform).max() <= 0.3
    assert abs(uniform.std() - 0.3 / np.sqrt(3.0)) < 0.005
    for noise in (normal[..., 0], uniform[..., 0]):
        assert abs(np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]) < 0.05
    assert abs(np.corrcoef(normal.ravel(), uniform.ravel())[0, 1]) < 0.05


def test_levels_follow_success(record: Record) -> None:
    level, score = np.full(WORLDS, 0.5), np.zeros(WORLDS)
    rises = falls = 0
    for t in range(STEPS):
        assert np.allclose(record.memory["level"][t, :, 0], level)
        assert np.allclose(record.memory["level"][t, :, 1], score)
        assert np.array_equal(record.memory["level"][t, :, 2], record.steps[t])
        score = score + record.reward["score"][t]
        success, done = score >= 10.0, record.done[t]
        changed = np.clip(np.where(success, level + 0.2, level - 0.1), 0.1, 1.0)
        rises, falls = rises + (done & success).sum(), falls + (done & ~success).sum()
        level, score = np.where(done, changed, level), np.where(done, 0.0, score)
    assert min(rises, falls) > 5


def test_contacts_and_air_times(record: Record) -> None:
    depth, after = depths(record.q), depths(record.next_q)
    touch, touch_after = depth > 0.0, after > 0.0
    assert np.array_equal(record.obs["contacts"], touch)
    assert np.allclose(record.obs["soft"], 0.5 + 0.5 * np.tanh(2.0 * depth / 0.004))
    last, landings = np.zeros((WORLDS, 2)), 0
    for t in range(STEPS):
        time = record.time[t][:, None]
        last = np.where(touch[t] & (time > 0.0), time, np.where(time > 0.0, last, 0.0))
        assert np.allclose(record.obs["air times"][t], time - last)
        landed = touch_after[t] & ~touch[t]
        expected = (landed * (time + DT - last - 0.06)).sum(axis=-1)
        assert np.allclose(record.reward["feet_air_time"][t], expected)
        moving = (record.obs["command"][t, :, :2] ** 2).sum(axis=-1) > 0.09
        assert np.allclose(record.reward["commanded"][t], np.where(moving, expected, 0.0))
        landings += landed.sum()
    assert landings > 100


def test_a_gait_is_rewarded_for_contacts_in_phase(record: Record) -> None:
    soft = record.obs["soft"]
    stance = record.obs["clock"][..., [0, 2]] > 0.0
    assert np.allclose(record.reward["gait"], np.where(stance, soft, 1.0 - soft).mean(axis=-1))


def test_terms_in_the_axes_of_a_body(record: Record) -> None:
    axes = rotation(record.q)
    velocity = np.einsum("...ji,...j->...i", axes, record.v[..., :3])
    assert np.allclose(record.obs["lin vel"], velocity)
    assert np.allclose(record.obs["ang vel"], record.v[..., 3:6])
    assert np.allclose(record.obs["gravity"], -axes[..., 2, :])
    rate = np.einsum("...ij,...j->...i", axes, record.v[..., 3:6])
    assert np.allclose(record.reward["lin_vel_z_l2"], record.v[..., 2] ** 2)
    assert np.allclose(record.reward["ang_vel_xy_l2"], (rate[..., :2] ** 2).sum(axis=-1))
    assert np.allclose(record.reward["flat_orientation_l2"], 1.0 - axes[..., 2, 2] ** 2)


def test_episodes_repeat_under_a_seed_and_from_a_saved_state(env: VecEnv) -> None:
    runs = []
    for seed in (5, 5, 6):
        env.reset(seed=seed)
        runs.append(rollout(env, 20, 1))
    first, again, other = runs
    for name, values in first.obs.items():
        assert np.array_equal(values, again.obs[name])
    assert not np.array_equal(first.obs["normal"], other.obs["normal"])
    assert not np.array_equal(first.obs["command"], other.obs["command"])
    saved = env.state_dict()
    ahead = rollout(env, 30, 2)
    env.load_state_dict(saved)
    assert np.array_equal(rollout(env, 30, 2).obs["noisy past"], ahead.obs["noisy past"])


def test_gradients_flow_through_histories_and_delays(env: VecEnv) -> None:
    """The action rate depends on the previous action, and the trunk on the action that its delay lets through."""
    env.reset(seed=1)
    steps = env.memory["action delay"][:, 0].floor()
    first, second = (torch.rand(WORLDS, 2, dtype=torch.float64) - 0.5 for _ in range(2))
    first.requires_grad_()
    env.step(first)
    end = env.step(second)
    (remembered,) = torch.autograd.grad(env.memory["actions"][:, 2:4].sum(), first, retain_graph=True)
    assert torch.equal(remembered, torch.ones_like(first))
    (moved,) = torch.autograd.grad(end.next_state.v[:, 2].sum(), first)
    assert torch.equal(moved.abs().sum(dim=-1) > 0.0, steps <= 1.0)
    assert len(set(steps.tolist())) == 4


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: VelocityCommand(lin_vel_x=(1.0, 0.0)), r"VelocityCommand.lin_vel_x must be \(low, high\) with low at"),
        (lambda: VelocityCommand(resample_every=0.0), "VelocityCommand.resample_every must be more than 0, got 0.0"),
        (lambda: VelocityCommand(standing=2.0), "VelocityCommand.standing must lie between 0 and 1, got 2.0"),
        (lambda: GaitClock(frequency=THREE), r"must be a number or two numbers \(low, high\), got \(1.0"),
        (lambda: GaitClock(offsets=()), "GaitClock.offsets must have at least one number"),
        (lambda: GaitClock().track_contacts(feet), "the clock has 1 offsets for 2 feet; use one each"),
        (lambda: ActionHistory(2, steps=0), "ActionHistory.steps must be a whole number of at least 1, got 0"),
        (lambda: ActionDelay(2, steps=(2, 1)), r"ActionDelay.steps must be \(least, most\) .* got \(2, 1\)"),
        (lambda: ActionDelay(2, steps=THREE), r"ActionDelay.steps must be a whole number or two of them .*, got \(1.0"),
        (lambda: Curriculum(actions.action_rate_l2, 1.0, bounds=THREE), "Curriculum.bounds must be two numbers"),
        (lambda: noisy(observations.height(TRUNK)), "noisy takes either std or uniform, got std=None and uniform=None"),
        (lambda: RandomPushes(TRUNK, velocity=-1.0), "RandomPushes.velocity must be a finite number of at least 0"),
        (lambda: Curriculum(actions.action_rate_l2, 1.0, start=2.0), r"must be within the bounds \(0.1, 1.0\), got 2"),
        (lambda: VelocityCommand(lin_vel_x=[1.0]), r"must be a number or two numbers \(low, high\), got \[1.0\]"),
        (lambda: ActionDelay(2, steps=[1, 2, 3]), r"must be a whole number or two of them .*, got \[1, 2, 3\]"),
        (lambda: GaitClock(offsets=HALF), r"GaitClock.offsets must be a list of numbers, one per foot, .*, got 0.5"),
        (lambda: noisy(NO_TERM, std=0.1), r"term of noisy must be a function of \(world, action\), got 3"),
        (lambda: ObservationHistory(NO_TERM, 1, 2, "past"), r"term of 'past' must be a function of \(world, action\)"),
        (lambda: ObservationDelay(NO_TERM, 1, 2, "late"), r"term of 'late' must be a function of \(world, action\)"),
        (lambda: Curriculum(NO_TERM, 1.0), r"Curriculum.score must be a function of \(world, action\), got 3"),
        (lambda: FootContacts("left_*"), "FootContacts.geoms must be a list of geom names, one per foot, got 'left_"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()


def test_names_that_do_not_exist_are_refused() -> None:
    task = make_task()
    tail = FootContacts(("tail",))
    with pytest.raises(InputError, match=r"no contact point is on a geom named 'tail'; .*: left_heel, left_toe, "):
        ahac.make(replace(task, observation={"contacts": tail.observation}), num_envs=2)
    short = ActionHistory(2, steps=1, name="one action")
    with pytest.raises(InputError, match=r"the history has 1 actions, but this needs 2: ActionHistory\(steps=...\)"):
        ahac.make(
            replace(task, memory={**task.memory, **short.memory}, reward={"acc": short.action_acc_l2}), num_envs=2
        )


def test_lists_are_ranges() -> None:
    assert VelocityCommand(lin_vel_x=[-1.0, 1.0]) == VelocityCommand(lin_vel_x=(-1.0, 1.0))
    assert GaitClock(frequency=[1, 2], offsets=[0, 0.5]) == GaitClock(frequency=(1.0, 2.0), offsets=(0.0, 0.5))
    assert RandomPushes(TRUNK, every=[1.0, 2.0]) == RandomPushes(TRUNK, every=(1.0, 2.0))
    assert ActionDelay(2, steps=[0, 2]) == ActionDelay(2, steps=(0, 2))
    assert Curriculum(actions.action_rate_l2, 1.0, bounds=[0.0, 2.0]).bounds == (0.0, 2.0)


@pytest.mark.parametrize("kind", [ObservationHistory, ObservationDelay])
@pytest.mark.parametrize("term", [command.observation, lambda world, action: world.memory.get("command", [0.0] * 3)])
def test_histories_and_delays_of_terms_that_read_memory_are_refused(
    kind: type[ObservationHistory | ObservationDelay],
    term: Any,  # noqa: ANN401
) -> None:
    """They would hold the values of the step before, or of the previous episode."""
    task, past = make_task(), kind(term, 3, 2, "old commands")
    with pytest.raises(TraceError, match=r"delay 'old commands' must not read memory, .*; it read 'command'"):
        ahac.make(replace(task, memory={**task.memory, **past.memory}), num_envs=2)


def test_a_score_that_reads_the_memory_after_the_step_is_refused() -> None:
    task, levels = make_task(), Curriculum(feet.feet_air_time(), threshold=1.0, name="other level")
    with pytest.raises(
        TraceError, match=r"must not read world.after.memory, .* reads world.memory only; it read 'feet"
    ):
        ahac.make(replace(task, memory={**task.memory, **levels.memory}), num_envs=2)


def test_parts_that_share_a_name_are_refused() -> None:
    task, left, right = make_task(), RandomPushes("left"), RandomPushes("right")
    with pytest.raises(
        TraceError, match=r"'push' of the task belongs to RandomPushes\(body='right'.* read by .*'left'"
    ):
        ahac.make(
            replace(
                task,
                memory={**task.memory, **left.memory, **right.memory},
                observation={"height": observations.height(TRUNK)},
                forces=[left.force, right.force],
            ),
            num_envs=2,
        )
    slower = replace(command, lin_vel_x=0.5)
    with pytest.raises(
        TraceError, match=r"give them different names \(name=...\); otherwise use one of them everywhere"
    ):
        ahac.make(replace(task, memory={**task.memory, **slower.memory}), num_envs=2)


def test_equal_parts_share_their_memory() -> None:
    task = replace(make_task(), memory={**make_task().memory, **replace(command).memory})
    assert ahac.make(task, num_envs=2).memory["command"].shape == (2, 4)


def test_a_delay_of_another_number_of_actions_is_refused() -> None:
    task, wrong = make_task(), ActionDelay(3, steps=1)
    with pytest.raises(InputError, match=r"ActionDelay.num_actions must be 2, the task's number of actions, got 3"):
        ahac.make(replace(task, memory={**task.memory, **wrong.memory}, control=wrong.control), num_envs=2)
