"""Divide a fixed total strength among Hopper's three motors by the gradient of its return.

    python examples/codesign_hopper.py [seed]              train one policy for many designs, then improve designs
    python examples/codesign_hopper.py verify 1,1,1 SEED  train a policy from scratch for one design

The first policy sees the design and has trained on random ones, so it fits every design that the gradient visits.
"""

import sys
from dataclasses import replace

import torch
from torch import Tensor

import ahac
from ahac.algos.recipes import recipe
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.env import Step
from ahac.envs import Task, make_task, observations, uniform
from ahac.training.run import Run

MOTORS = "actuator_strength:*"
COUNT = 3
LOW, HIGH = 0.4, 1.8  # strengths that the policy for many designs trains with; the model's are 1
WINDOW = 16  # steps: gradients of longer windows are noise, because they pass more contacts; the critic adds the rest


def many_designs() -> Task:
    """Return Hopper with strengths drawn anew for each episode, which policy and critic see."""
    task = make_task("hopper")
    observation = {**task.policy_observation, "design": observations.parameters(MOTORS)}
    return replace(task, observation=observation, randomize={MOTORS: uniform(LOW, HIGH)})


def one_design(strengths: list[float]) -> Task:
    """Return Hopper with other motors."""
    task = make_task("hopper")
    return replace(task, model=task.model.parameters(MOTORS).apply(task.model, strengths))


def train(name: str, task: Task, seed: int, num_envs: int = 256, iterations: int = 400, out: str = "runs") -> Run:
    """Train with AHAC and the settings of Hopper."""
    ahac.register_task(name, lambda variant: task)
    settings = recipe("hopper", "ahac").algorithm
    return ahac.train(name, seed=seed, num_envs=num_envs, iterations=iterations, out=out, algorithm=settings)


def divide(logits: Tensor) -> Tensor:
    """Return strengths above LOW whose mean is that of the model, 1."""
    return LOW + COUNT * (1.0 - LOW) * torch.softmax(logits, dim=-1)


class Designs:
    """Worlds of a design each, and a trained policy and critic."""

    def __init__(self, run: Run, num_worlds: int, seed: int = 0) -> None:
        assert isinstance(run.algo, ShortHorizonActorCritic)
        assert run.algo.critic is not None
        self.env = ahac.make(many_designs(), num_envs=num_worlds, device=run.device, seed=seed)
        self.actor, self.critic, self.normalize = run.algo.actor, run.algo.critic, run.algo.normalizer.frozen()
        self.gamma = run.algo.config.gamma

    def step(self, design: Tensor) -> Step:
        """Advance by the policy's mean action, with gradients to the design [N, 3]."""
        self.env.set_buffers([*self.env.buffers[:-1], design])  # the parameters, in place of those of the last reset
        seen = (2.0 * design - (LOW + HIGH)) / (HIGH - LOW)
        return self.env.step(self.actor(self.normalize(torch.cat([self.env.obs[:, :-COUNT], seen], dim=-1))))

    def value(self, design: Tensor) -> Tensor:
        """Return the discounted rewards of a window and the critic's value of its end, [N]."""
        self.env.detach()
        total, weight = torch.zeros_like(design[:, 0]), torch.ones_like(design[:, 0])
        for _ in range(WINDOW):
            step = self.step(design)
            total = total + weight * step.reward
            weight = self.gamma * torch.where(step.terminated, 0.0, weight)
        return total + weight * self.critic(self.normalize(step.final_obs))

    @torch.no_grad()
    def returns(self, design: Tensor) -> Tensor:
        """Return the return of one episode per world, [N]."""
        self.env.reset()
        total, running = torch.zeros_like(design[:, 0]), torch.ones_like(design[:, 0], dtype=torch.bool)
        while running.any():
            step = self.step(design)
            total = torch.where(running, step.episode_return, total)
            running &= ~step.done
        return total


def improve(run: Run, starts: Tensor, updates: int = 100, copies: int = 16) -> Tensor:
    """Return the designs [K, 3] that gradient ascent reaches from logits [K, 3]."""
    worlds = Designs(run, len(starts) * copies)
    logits = starts.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.05)
    for _ in range(updates):
        loss = -worlds.value(divide(logits).repeat_interleave(copies, dim=0)).sum() / copies
        (gradient,) = torch.autograd.grad(loss, logits)
        logits.grad = gradient / gradient.norm(dim=-1, keepdim=True).clamp(min=1.0)
        optimizer.step()
    return divide(logits.detach())


def mean_returns(run: Run, designs: Tensor, copies: int = 16) -> Tensor:
    """Return the mean return of each design [K, 3] over some episodes, [K]."""
    worlds = Designs(run, len(designs) * copies, seed=1)
    return worlds.returns(designs.repeat_interleave(copies, dim=0)).view(-1, copies).mean(dim=-1)


if __name__ == "__main__":
    seed = int(sys.argv[-1]) if len(sys.argv) > 1 else 0
    if "verify" in sys.argv:
        strengths = [float(x) for x in sys.argv[2].split(",")]
        result = train("hopper_design", one_design(strengths), seed).evaluate()
        sys.stdout.write(f"{sys.argv[2]}, seed {seed}: {result.mean:.0f}\n")
    else:
        run = train("hopper_designs", many_designs(), seed)
        starts = torch.randn(8, COUNT, generator=torch.Generator().manual_seed(seed)).to(run.device)
        sys.stdout.write("thigh, leg, foot: return of the policy for many designs\n")
        for title, designs in (("random", divide(starts)), ("improved", improve(run, starts))):
            for design, mean in zip(designs.tolist(), mean_returns(run, designs).tolist(), strict=True):
                sys.stdout.write(f"{title:<10}{', '.join(f'{x:.2f}' for x in design)}: {mean:.0f}\n")
