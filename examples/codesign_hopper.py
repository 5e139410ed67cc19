"""Divide a fixed total strength among Hopper's three motors by the gradient of its return.

python examples/codesign_hopper.py [SEED]               trains one policy for many designs, then improves designs
python examples/codesign_hopper.py verify 1,1,1 SEED    trains a policy from scratch for one design
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

MOTORS = "actuator_strength:*"  # thigh, leg and foot; 1 in the model
TOTAL, LOW, HIGH = 3.0, 0.4, 2.2  # of all strengths; bounds of each, where HIGH is what two of LOW leave
WINDOW = 16  # steps of a gradient; the critic adds the value of what follows


def many_designs() -> Task:
    """Return Hopper with strengths that are drawn for each episode; policy and critic see them."""
    task = make_task("hopper")
    observation = {**task.policy_observation, "design": observations.parameters(MOTORS)}
    return replace(task, observation=observation, randomize={MOTORS: uniform(LOW, HIGH)})


def one_design(strengths: list[float]) -> Task:
    """Return Hopper with motors of these strengths."""
    task = make_task("hopper")
    return replace(task, model=task.model.parameters(MOTORS).apply(task.model, strengths))


def train(name: str, task: Task, seed: int, num_envs: int = 128, env_steps: int = 800_000, out: str = "runs") -> Run:
    """Train with AHAC and its settings for Hopper."""
    ahac.register_task(name, lambda variant: task)
    settings = recipe("hopper", "ahac").algorithm
    return ahac.train(name, seed=seed, num_envs=num_envs, env_steps=env_steps, out=out, algorithm=settings)


def divide(logits: Tensor) -> Tensor:
    """Return strengths between LOW and HIGH with a fixed total."""
    return LOW + (TOTAL - 3.0 * LOW) * torch.softmax(logits, dim=-1)


class Hoppers:
    """Several worlds of each design, with a trained policy and critic."""

    def __init__(self, run: Run, num_designs: int, copies: int = 16, seed: int = 0) -> None:
        assert isinstance(run.algo, ShortHorizonActorCritic)
        assert run.algo.critic is not None
        self.copies = copies
        self.env = ahac.make(many_designs(), num_envs=num_designs * copies, device=run.device, seed=seed)
        self.actor, self.critic, self.normalize = run.algo.actor, run.algo.critic, run.algo.normalizer.frozen()
        self.gamma = run.algo.config.gamma

    def step(self, designs: Tensor) -> Step:
        """Take the policy's mean action; gradients flow to the designs [K, 3]."""
        strengths = designs.repeat_interleave(self.copies, dim=0)
        self.env.set_parameters(strengths)
        seen = (2.0 * strengths - (LOW + HIGH)) / (HIGH - LOW)  # as the task shows them; a reset has drawn others
        return self.env.step(self.actor(self.normalize(torch.cat([self.env.obs[:, :-3], seen], dim=-1))))

    def values(self, designs: Tensor, window: int = WINDOW) -> Tensor:
        """Return the discounted return of each design from the current states: a window, then the critic."""
        self.env.detach()
        total, weight = torch.zeros_like(self.env.obs[:, 0]), torch.ones_like(self.env.obs[:, 0])
        for _ in range(window):
            step = self.step(designs)
            total = total + weight * step.reward
            weight = self.gamma * torch.where(step.terminated, 0.0, weight)
        return (total + weight * self.critic(self.normalize(step.final_obs))).view(-1, self.copies).mean(dim=-1)

    @torch.no_grad()
    def returns(self, designs: Tensor) -> Tensor:
        """Return the mean return of each design over one episode per world."""
        total = torch.zeros_like(self.env.reset()[:, 0])
        running = torch.ones_like(total, dtype=torch.bool)
        while running.any():
            step = self.step(designs)
            total, running = torch.where(running, step.episode_return, total), running & ~step.done
        return total.view(-1, self.copies).mean(dim=-1)


def improve(run: Run, logits: Tensor, updates: int = 100) -> Tensor:
    """Return the designs that gradient ascent reaches from logits [K, 3]."""
    hoppers, logits = Hoppers(run, len(logits)), logits.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.05, betas=(0.7, 0.95))
    for _ in range(updates):
        (logits.grad,) = torch.autograd.grad(-hoppers.values(divide(logits)).sum(), logits)
        optimizer.step()
    return divide(logits.detach())


if __name__ == "__main__":
    seed = int(sys.argv[-1]) if len(sys.argv) > 1 else 0
    if "verify" in sys.argv:
        strengths = [float(x) for x in sys.argv[2].split(",")]
        result = train("hopper_design", one_design(strengths), seed).evaluate()
        sys.stdout.write(f"{sys.argv[2]}, seed {seed}: {result.mean:.0f}\n")
    else:
        run = train("hopper_designs", many_designs(), seed, num_envs=256, env_steps=1_200_000)
        logits = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)).to(run.device)
        for title, designs in (("random", divide(logits)), ("improved", improve(run, logits))):
            for design, mean in zip(designs.tolist(), Hoppers(run, 8, seed=1).returns(designs).tolist(), strict=True):
                sys.stdout.write(f"{title:<10}{', '.join(f'{x:.2f}' for x in design)}: {mean:.0f}\n")
