"""Memory of a task: when it changes, what it sees, how gradients pass through it, and that it is exact and finite."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from ahac.core.distributed import ProcessGroup
from ahac.core.errors import InputError, TraceError
from ahac.envs import Memory, Task, VecEnv
from ahac.sim import World, where
from support.episodes import assert_same, change, outcomes, random_actions, set_time_left
from support.remembering import DT, EPISODE, remembering_task

WORLDS = 5


@pytest.fixture(scope="module")
def made(device: torch.device) -> VecEnv:
    return VecEnv(remembering_task(), num_envs=WORLDS, dtype=torch.float64, device=device)


@pytest.fixture
def env(made: VecEnv) -> VecEnv:
    made.reset(seed=1)
    return made


def reaches(value: Tensor, action: Tensor) -> list[bool]:
    """In which worlds a value has a gradient in an action."""
    (found,) = torch.autograd.grad(value.sum(), action, retain_graph=True, allow_unused=True)
    return [False] * WORLDS if found is None else (found != 0.0).any(dim=-1).tolist()


# ------------------------------------------------------------------------------------------------------- time line


def test_memory_follows_its_time_line(env: VecEnv) -> None:
    actions = random_actions(env, EPISODE - 1, seed=2, bound=1.5)
    for t, action in enumerate(actions):
        before, start = env.memory, env.state
        step = env.step(action)
        after, clipped = env.memory, action.clamp(-1.0, 1.0)
        torch.testing.assert_close(after["phase"], before["phase"] + 3.0 * DT)
        assert torch.equal(after["last action"], clipped)
        assert torch.equal(after["trail"], torch.cat([env.state.q, before["trail"][:, :1]], dim=-1))
        kept = after["command"] == before["command"]
        assert (kept | (after["command"].abs() <= 1.0)).all()
        tracking = -((start.v - before["command"]) ** 2)
        smoothness = -((clipped - before["last action"]) ** 2)
        lag = 0.3 * after["trail"][:, 1:] * start.q
        wanted = torch.cat([tracking, smoothness, lag], dim=-1)
        torch.testing.assert_close(step.reward_terms, wanted, rtol=1e-9, atol=1e-12)
        assert torch.equal(step.obs[:, 1:], torch.cat([after["trail"], after["command"]], dim=-1))
        time = torch.full_like(env.state.q, DT * (t + 1))
        torch.testing.assert_close(step.critic_obs, torch.cat([env.state.q, time, after["push"]], dim=-1))
        assert not step.done.any()


def test_controls_and_force_laws_see_the_memory_during_the_step(env: VecEnv) -> None:
    env.step(random_actions(env, 1, seed=3)[0])
    before, action = env.memory, random_actions(env, 1, seed=4)[0]
    v = env.state.v
    env.step(action)
    control = 0.5 * action + 0.5 * before["last action"]
    force = 2.0 * 2.0 * control + 0.5 * before["push"] + 0.1 * before["phase"].sin()
    for _ in range(2):  # implicit damping, in two substeps
        v = (v + DT / 2 * force / 1.5) / (1.0 + DT / 2 * 0.4 / 1.5)
    torch.testing.assert_close(env.state.v, v, rtol=1e-9, atol=1e-12)


def test_an_episode_begins_with_start_of_the_last_memory(env: VecEnv) -> None:
    found = outcomes(env, random_actions(env, EPISODE, seed=5))
    assert found["truncated"][-1].all()
    memory, state = env.memory, env.state
    assert (memory["phase"] == 0.25).all()
    assert (memory["last action"] == 0.0).all()
    assert torch.equal(memory["trail"], state.q.expand(-1, 2))
    assert (memory["level"] == 1.0).all(), "the last phase of the episode was above 0.9"
    assert (memory["command"].unique().numel()) == WORLDS
    outcomes(env, random_actions(env, 2, seed=5))
    set_time_left(env, [0, 2], 1)
    outcomes(env, random_actions(env, 1, seed=5))
    assert env.memory["level"].flatten().tolist() == [1.0] * WORLDS, "the phase was 0.7 when these episodes ended"


def test_resets_keep_the_memory_unless_they_reseed(env: VecEnv) -> None:
    outcomes(env, random_actions(env, EPISODE - 1, seed=5))
    worlds = torch.tensor([i in (1, 3) for i in range(WORLDS)], device=env.spec.device)
    others = {name: value[~worlds] for name, value in env.memory.items()}
    env.reset_worlds(worlds)
    assert env.memory["level"].flatten().tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert (env.memory["phase"][worlds] == 0.25).all()
    assert_same({name: value[~worlds] for name, value in env.memory.items()}, others)
    env.reset()
    assert env.memory["level"].flatten().tolist() == [1.0] * WORLDS
    first = env.reset(seed=1)
    assert (env.memory["level"] == 0.0).all()
    assert torch.equal(env.reset(seed=1), first)


def test_final_observations_show_the_updated_memory(env: VecEnv) -> None:
    outcomes(env, random_actions(env, EPISODE - 1, seed=6))
    trail = env.memory["trail"]
    step = env.step(random_actions(env, 1, seed=7)[0])
    assert step.done.all()
    q = step.next_state.q
    assert torch.equal(step.final_obs[:, 1:3], torch.cat([q, trail[:, :1]], dim=-1))
    torch.testing.assert_close(step.final_critic_obs[:, :2], torch.cat([q, torch.full_like(q, EPISODE * DT)], dim=-1))
    assert torch.equal(step.critic_obs[:, :2], torch.cat([env.state.q, torch.zeros_like(q)], dim=-1))


def test_resets_and_termination_can_read_the_memory(device: torch.device) -> None:
    """A curriculum: episodes of successful worlds begin farther away."""

    def reset(model, draw, memory):  # noqa: ANN001, ANN202
        return [10.0 * memory["level"][0] + draw(0.0, 1.0)], [0.0]

    task = remembering_task(reset=reset, alive=lambda world: 0.25 + 4.5 * 3.0 * DT - world.memory["phase"][0])
    env = VecEnv(task, num_envs=WORLDS, device=device)
    assert (env.state.q < 1.0).all()
    found = outcomes(env, random_actions(env, 5, seed=8))
    assert found["terminated"].any(dim=-1).tolist() == [False] * 4 + [True]
    assert (env.state.q < 1.0).all(), "the reset sees the level before its own start"
    outcomes(env, random_actions(env, 5, seed=8))
    assert ((env.state.q >= 10.0) & (env.state.q < 11.0)).all()


# ------------------------------------------------------------------------------------------------------- randomness


def test_random_memory_has_the_distribution_it_asks_for(device: torch.device) -> None:
    env = VecEnv(remembering_task(), num_envs=2000, dtype=torch.float64, device=device, seed=3)
    commands, pushes, noise = [env.memory["command"]], [], []
    for _ in range(EPISODE - 1):
        env.step(torch.zeros(2000, 1, dtype=torch.float64, device=device))
        commands.append(env.memory["command"])
        pushes.append(env.memory["push"])
        noise.append(env.obs[:, :1] - env.state.q)
    changed = torch.stack([a != b for a, b in pairwise(commands)]).float()
    assert abs(changed.mean() - 0.4) < 0.02
    assert abs(torch.corrcoef(changed[..., 0])[0, 1]) < 0.1, "changes of different steps are independent"
    push, error = torch.stack(pushes), torch.stack(noise)
    assert abs((push != 0.0).float().mean() - 0.3) < 0.02
    assert abs(push[push != 0.0].std() - 2.0) < 0.1
    assert abs(error.std() / 0.01 - 1.0) < 0.05
    assert abs(torch.corrcoef(error[..., 0])[0, 1]) < 0.1


def test_runs_of_one_seed_are_equal_and_a_saved_state_continues_exactly(env: VecEnv) -> None:
    actions = random_actions(env, 3 * EPISODE, seed=9)
    first = outcomes(env, actions)
    env.reset(seed=1)
    head = outcomes(env, actions[:7])
    saved = env.state_dict()
    tail = outcomes(env, actions[7:])
    assert_same({name: torch.cat([head[name], tail[name]]) for name in first}, first)
    fresh = VecEnv(env.task, num_envs=WORLDS, dtype=torch.float64, device=env.spec.device, seed=77)
    fresh.load_state_dict(saved)
    assert_same(fresh.state_dict(), saved)
    assert_same(outcomes(fresh, actions[7:]), tail)
    assert torch.equal(fresh.critic_obs, env.critic_obs)


def test_saved_states_and_buffers_have_the_memory(env: VecEnv) -> None:
    assert {"memory", "critic_obs", "step_noise"} <= env.state_dict().keys()
    assert len(env.buffers) == 8
    actions = random_actions(env, 4, seed=10)
    buffers, generators = [x.clone() for x in env.buffers], [g.get_state() for g in env.generators]
    wanted = outcomes(env, actions)
    env.set_buffers(buffers)
    for generator, state in zip(env.generators, generators, strict=True):
        generator.set_state(state)
    assert_same(outcomes(env, actions), wanted)
    with pytest.raises(InputError, match="differs in memory"):
        env.load_state_dict({name: x for name, x in env.state_dict().items() if name != "memory"})


# ------------------------------------------------------------------------------------------------------- gradients


def rewards(env: VecEnv, saved: dict[str, Tensor], actions: Tensor) -> Tensor:
    """Sum of rewards and observations of each world."""
    env.load_state_dict(saved)
    total = torch.zeros(WORLDS, dtype=torch.float64, device=actions.device)
    for action in actions:
        step = env.step(action)
        total = total + step.reward + step.final_obs.sum(dim=-1) + 0.5 * step.final_critic_obs.sum(dim=-1)
    return total


def test_gradients_through_memory_are_those_of_central_differences(env: VecEnv) -> None:
    saved = env.state_dict()
    actions = random_actions(env, EPISODE - 1, seed=11, bound=0.9).requires_grad_()
    (found,) = torch.autograd.grad(rewards(env, saved, actions).sum(), actions)
    h = 1e-6
    wanted = torch.zeros_like(found)
    for t in range(len(actions)):
        with torch.no_grad():
            shift = torch.zeros_like(actions)
            shift[t] = h
            wanted[t, :, 0] = (rewards(env, saved, actions + shift) - rewards(env, saved, actions - shift)) / (2.0 * h)
    assert (wanted.abs() > 1e-3).all()
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8)


def test_no_gradient_of_memory_crosses_a_reset_or_a_detach(env: VecEnv) -> None:
    set_time_left(env, [1], 2)
    actions = [a.clone().requires_grad_() for a in random_actions(env, 4, seed=12, bound=0.9)]
    for action in actions[:2]:
        env.step(action)
    env.detach(torch.tensor([i == 3 for i in range(WORLDS)], device=env.spec.device))
    memory = env.memory["trail"] + env.memory["last action"]
    assert reaches(memory, actions[1]) == [i not in (1, 3) for i in range(WORLDS)]
    later = env.step(actions[2]).reward
    assert reaches(later, actions[1]) == [i not in (1, 3) for i in range(WORLDS)]
    env.detach()
    assert not any(x.requires_grad for x in env.memory.values())


def test_stop_gradient_stops_gradients_through_memory(env: VecEnv) -> None:
    action = random_actions(env, 1, seed=12, bound=0.9)[0].requires_grad_()
    env.step(action)
    assert torch.equal(env.memory["last action"], env.memory["stopped action"])
    assert reaches(env.memory["last action"], action) == [True] * WORLDS
    assert reaches(env.memory["stopped action"], action) == [False] * WORLDS


# ------------------------------------------------------------------------------------------------- diverged worlds


@pytest.mark.parametrize("value", [math.nan, 1e9])
def test_a_diverged_world_does_not_poison_its_memory(value: float, env: VecEnv) -> None:
    outcomes(env, random_actions(env, EPISODE, seed=13))
    assert (env.memory["level"] == 1.0).all()

    def edit(state: dict[str, Tensor]) -> None:
        state["q"][2, 0] = value

    change(env, edit)
    actions = [a.clone().requires_grad_() for a in random_actions(env, 3, seed=14, bound=0.9)]
    steps = [env.step(action) for action in actions]
    assert steps[0].diverged.tolist() == [i == 2 for i in range(WORLDS)]
    assert not steps[1].diverged.any()
    assert (steps[0].final_critic_obs[2] == 0.0).all()
    for name, numbers in env.memory.items():
        assert torch.isfinite(numbers).all(), name
    assert (env.memory["level"] == 1.0).all(), "the level survives"
    total = sum(step.reward.sum() + step.final_obs.sum() + step.final_critic_obs.sum() for step in steps)
    assert isinstance(total, Tensor)
    for gradient in torch.autograd.grad(total + sum(x.sum() for x in env.memory.values()), actions):
        assert torch.isfinite(gradient).all()


def test_memory_that_is_not_finite_makes_its_world_diverge(device: torch.device) -> None:
    bad = Memory(1, update=lambda world, action, memory, draw: 1.0 / where(action[0] < 0.0, 0.0, 1.0))
    base = remembering_task()
    env = VecEnv(replace(base, memory={**base.memory, "bad": bad}), num_envs=2, device=device)
    step = env.step(torch.tensor([[-0.5], [0.5]], device=device))
    assert step.diverged.tolist() == [True, False]
    assert env.memory["bad"].flatten().tolist() == [0.0, 1.0]
    assert torch.isfinite(torch.cat([step.obs, step.final_obs, step.critic_obs], dim=-1)).all()


def test_memory_that_is_not_finite_leaves_finite_gradients(device: torch.device) -> None:
    """Also where the memory would be infinite in the world that takes the place of the diverged one."""
    inverse = Memory(1, update=lambda world, action, memory, draw: 1.0 / (world.v[0] + memory["inverse"][0]))
    terms = {"inverse": lambda world, action: world.memory["inverse"], "v": lambda world, action: world.v[0]}
    task = remembering_task(
        memory={**remembering_task().memory, "inverse": inverse},
        reset=lambda model, draw: ([0.0], [0.0]),
        observation=terms,
        reward={"inverse": lambda world, action: world.after.memory["inverse"][0] + world.after.v[0]},
        forces=[],
    )
    env = VecEnv(task, num_envs=2, device=device, dtype=torch.float64)
    action = torch.tensor([[0.0], [0.5]], device=device, dtype=torch.float64, requires_grad=True)
    step = env.step(action)
    assert step.diverged.tolist() == [True, False]
    (first,) = torch.autograd.grad(step.reward.sum() + step.final_obs.sum(), action, retain_graph=True)
    assert first.isfinite().all()
    assert (first != 0.0).flatten().tolist() == [False, True]
    later = env.step(torch.full_like(action, 0.3))
    assert not later.diverged.any()
    (gradient,) = torch.autograd.grad(later.reward.sum() + step.reward.sum() + env.memory["inverse"].sum(), action)
    assert gradient.isfinite().all()


def test_memory_may_hold_large_numbers(device: torch.device) -> None:
    """A count of steps, for example."""
    count = Memory(1, start=1e7, update=lambda world, action, memory, draw: memory["count"][0] + 1.0)
    base = remembering_task()
    env = VecEnv(replace(base, memory={**base.memory, "count": count}), num_envs=2, device=device)
    step = env.step(torch.zeros(2, 1, device=device))
    assert not step.diverged.any()
    assert env.memory["count"].flatten().tolist() == [1e7 + 1.0] * 2


# --------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "Memory.size must be a whole number of at least 1, got 0"),
        ({"size": 2, "start": [1.0]}, "a number or 2 numbers, got 1 numbers"),
        ({"size": 1, "start": math.inf}, "Memory.start must be a finite number"),
        ({"size": 1, "start": "zero"}, "a number or 1 numbers, got 'zero'"),
        ({"size": 1, "update": 3.0}, "Memory.update must be a function of"),
    ],
)
def test_invalid_memory_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Memory(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": {"x": 3}}, r"memory 'x' must be a Memory\(size, start=..., update=...\), got 3"),
        ({"memory": {3: Memory(1)}}, "names of memory must be strings, got 3"),
        ({"memory": [Memory(1)]}, "memory must map names to Memory"),
        ({"forces": [1.0]}, "forces must be a list of functions"),
        ({"control": 1.0}, "control must be a function of"),
        ({"randomize": {"gravity": 1.0}}, "randomize must map patterns to uniform"),
        (
            {"observation": {"critic": {"q": lambda w, a: w.q}}},
            "must be 'policy' and, optionally, 'critic'; got 'critic'",
        ),
        ({"observation": {"policy": {"q": lambda w, a: w.q}, "actor": {}}}, "got 'policy', 'actor'"),
        ({"observation": {"policy": {}, "critic": {}}}, r"observation\['policy'\] must map one or more names"),
        ({"observation": {"policy": {"q": 1}}}, r"observation\['policy'\] term 'q' must be a function"),
    ],
)
def test_invalid_tasks_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        remembering_task(**changes)


def comparison(world: World, *others: object) -> Any:  # noqa: ANN401 - not what it should return
    return world.q[0] < 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": {"x": Memory(2, start=lambda w, m, d: 1.0)}}, "start of memory 'x' must return 2 numbers"),
        (
            {"memory": {"x": Memory(1, update=comparison)}},
            "update of memory 'x' must return numbers",
        ),
        ({"memory": {"x": Memory(1, update=lambda w, a, m, d: m["y"])}}, "no memory named 'y'; it has: x"),
        ({"reward": {"x": lambda w, a: w.memory["y"][0]}}, "no memory named 'y'; it has: command, phase"),
        ({"reward": {"x": lambda w, a: w.draw()}}, "world.draw works only in observation terms"),
        ({"forces": [lambda w: [w.apply_joint_force("rail", w.time)]]}, "world.time is known in observations"),
        ({"forces": [lambda w: [w.apply_joint_force("rail", w.memory["y"][0])]]}, "no memory named 'y'"),
        ({"control": lambda w, a: [0.0, 0.0]}, "must return a list of 1 controls"),
        ({"control": lambda w, a: [comparison(w)]}, "controller must return numbers, not comparisons or tensors"),
        ({"control": lambda w, a: w.memory["y"]}, "no memory named 'y'"),
    ],
)
def test_functions_that_misuse_memory_are_refused(changes: dict, message: str) -> None:
    task = remembering_task(**changes) if "memory" not in changes else _plain(**changes)
    with pytest.raises(TraceError, match=message):
        VecEnv(task, num_envs=1)


def _plain(**changes: object) -> Task:
    terms = {"observation": {"q": lambda w, a: w.q}, "reward": {"q": lambda w, a: w.q[0]}}
    return remembering_task(forces=(), control=None, **{**terms, **changes})


# ------------------------------------------------------------------------------------------------------------- ranks


class AlikeRanks(ProcessGroup):
    """Ranks whose episodes end in the same step."""

    def any(self, flag: Tensor) -> Tensor:
        return flag


def test_two_ranks_are_one_process_with_all_worlds(device: torch.device) -> None:
    settings = {"dtype": torch.float64, "device": device, "seed": 4}
    task = remembering_task()
    whole = VecEnv(task, num_envs=2 * WORLDS, **settings)
    parts = [VecEnv(task, num_envs=WORLDS, ranks=AlikeRanks(rank=i, size=2), **settings) for i in range(2)]
    actions = random_actions(whole, 2 * EPISODE, seed=15)
    wanted = outcomes(whole, actions)
    assert wanted["truncated"].any()
    found = [outcomes(env, part) for env, part in zip(parts, actions.split(WORLDS, dim=1), strict=True)]
    assert_same({name: torch.cat([part[name] for part in found], dim=1) for name in wanted}, wanted)
    memory = {name: torch.cat([env.memory[name] for env in parts]) for name in whole.memory}
    assert_same(memory, whole.memory)
