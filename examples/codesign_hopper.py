"""Improve Hopper's motors together with its policy: python examples/codesign_hopper.py [iterations] [seeds].

The three motors share a fixed total strength. Steps are differentiable in the strengths, so the gradient that trains
the policy (SHAC: 32 steps and a critic) also divides them. A policy learns with equal strengths first; two copies of it
go on, one with these strengths, and one that improves them.
"""

import sys
from copy import deepcopy

import torch
from torch import Tensor, nn

from ahac.envs import rewards
from ahac.envs.variants import load_bundled_model
from ahac.sim import Real, Simulator, State, World

WORLDS, HORIZON, EPISODE = 64, 32, 500
GAMMA, LAMBDA = 0.99, 0.95
MIN_HEIGHT = 0.8  # [m] below which Hopper has fallen
MOTORS = ("thigh", "leg", "foot")
TERMS = (
    rewards.forward_speed("torso"),
    rewards.height_reward("torso", MIN_HEIGHT),
    rewards.pitch_reward("root_pitch", 0.524),
    rewards.weighted(-0.1, rewards.action_l2()),
)


def observe(world: World) -> list[Real]:
    """Return all positions except that along x, and all velocities."""
    return [*world.q[1:], *world.v]


def reward(world: World) -> Real:
    """Return the task's reward: speed, height and pitch of the torso, and effort."""
    return sum((term(world, world.control) for term in TERMS), 0.0)


class Hoppers:
    """Worlds that begin a new episode where Hopper falls or time is up."""

    def __init__(self, seed: int) -> None:
        model = load_bundled_model("hopper")
        self.parameters = model.parameters(*(f"actuator_strength:{motor}" for motor in MOTORS))
        readouts = {"obs": observe, "reward": reward, "height": lambda world: world.position("torso").z}
        self.sim = Simulator(
            model,
            num_worlds=WORLDS,
            dt=1 / 60,
            substeps=4,
            parameters=self.parameters,
            readouts=readouts,
            num_threads=1,
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.restart()

    def fresh(self) -> State:
        """Return states near the model's reference pose."""
        rest = self.sim.rest_state()
        q, v = (x + 0.05 * (2.0 * torch.rand(x.shape, generator=self.generator) - 1.0) for x in (rest.q, rest.v))
        return State(q, v)

    def restart(self) -> None:
        """Begin new episodes in all worlds, which are of different age."""
        self.state = self.fresh()
        self.age = torch.randint(EPISODE, (WORLDS,), generator=self.generator)

    def obs(self) -> Tensor:
        """Return what the policy sees."""
        return torch.cat([self.state.q[:, 1:], self.state.v], dim=-1)

    def step(self, action: Tensor, strengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return rewards, observations before a new episode begins, which worlds fell, and which begin a new one."""
        end = self.sim.step(self.state, action, parameters=strengths.expand(WORLDS, -1))
        self.age += 1
        fell = end.readouts["height"].detach() < MIN_HEIGHT
        over = fell | (self.age >= EPISODE)
        self.age[over] = 0
        self.state = self.fresh().where(over, end)
        return end.readouts["reward"], end.readouts["obs"], fell, over


def network(outputs: int) -> nn.Sequential:
    """Return an MLP of observations."""
    layers: list[nn.Module] = []
    for inputs in (11, 128):
        layers += [nn.Linear(inputs, 128), nn.ELU(), nn.LayerNorm(128)]
    return nn.Sequential(*layers, nn.Linear(128, outputs))


def divide(logits: Tensor) -> Tensor:
    """Return positive strengths whose mean is that of the model, 1."""
    return len(MOTORS) * torch.softmax(logits, dim=0)


class Trainer:
    """Policy, critic and strengths."""

    def __init__(
        self,
        seed: int,
        iterations: int,
        codesign: bool = False,
        learning_rate: float = 2e-3,
        start: "Trainer | None" = None,
    ) -> None:
        torch.manual_seed(seed)
        self.worlds = Hoppers(seed)
        self.actor, self.critic = network(len(MOTORS)), network(1)
        if start is not None:
            self.actor, self.critic = deepcopy(start.actor), deepcopy(start.critic)
        self.target = deepcopy(self.critic)
        self.logits = torch.zeros(len(MOTORS), requires_grad=codesign)
        groups = [{"params": list(self.actor.parameters()), "lr": learning_rate}, {"params": [self.logits], "lr": 1e-2}]
        self.optimizers = [
            torch.optim.Adam(groups[: 1 + codesign], betas=(0.7, 0.95)),
            torch.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.7, 0.95)),
        ]
        self.schedules = [
            torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, iterations) for optimizer in self.optimizers
        ]

    def train(self, iterations: int) -> None:
        """Train for so many iterations."""
        for _ in range(iterations):
            self.iterate()

    def iterate(self) -> None:
        """Improve policy and strengths on one short rollout, then fit the critic to it."""
        self.worlds.state = self.worlds.state.detach()
        strengths, discount, loss = divide(self.logits), torch.ones(WORLDS), torch.zeros(())
        record: list[tuple[Tensor, ...]] = []
        for t in range(HORIZON):
            obs = self.worlds.obs()
            action = torch.tanh(self.actor(obs) + 0.2 * torch.randn(WORLDS, len(MOTORS)))
            reward, later, fell, over = self.worlds.step(action, strengths)
            value = torch.where(fell, 0.0, self.target(later).squeeze(-1))
            ends = over if t < HORIZON - 1 else torch.ones_like(over)
            loss = loss - (discount * (reward + GAMMA * value * ends)).sum()
            discount = torch.where(over, 1.0, GAMMA * discount)
            record.append((obs.detach(), reward.detach(), value.detach(), ends))
        self.optimizers[0].zero_grad()
        (loss / (WORLDS * HORIZON)).backward()
        # Gradients through contact explode now and then, so both are clipped.
        nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
        nn.utils.clip_grad_norm_([self.logits], 0.5)
        self.optimizers[0].step()
        self.fit_critic(record)
        for schedule in self.schedules:
            schedule.step()

    def fit_critic(self, record: list[tuple[Tensor, ...]]) -> None:
        """Fit the critic to TD(λ) targets."""
        targets: list[Tensor] = []
        later = torch.zeros(WORLDS)
        for _, reward, value, ends in reversed(record):
            later = reward + GAMMA * torch.where(ends, value, (1.0 - LAMBDA) * value + LAMBDA * later)
            targets.append(later)
        obs, wanted = torch.cat([step[0] for step in record]), torch.cat(targets[::-1])
        for batch in torch.cat([torch.randperm(len(obs)) for _ in range(4)]).split(len(obs) // 4):
            self.optimizers[1].zero_grad()
            (self.critic(obs[batch]).squeeze(-1) - wanted[batch]).square().mean().backward()
            nn.utils.clip_grad_norm_(self.critic.parameters(), 1.0)
            self.optimizers[1].step()
        for slow, fast in zip(self.target.parameters(), self.critic.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.8)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the mean return of one episode per world, without noise."""
        worlds, total, running = Hoppers(seed=12345), torch.zeros(WORLDS), torch.ones(WORLDS, dtype=torch.bool)
        worlds.age.zero_()
        for _ in range(EPISODE):
            reward, _, _, over = worlds.step(torch.tanh(self.actor(worlds.obs())), divide(self.logits))
            total += torch.where(running, reward, 0.0)
            running &= ~over
        return total.mean().item()


def compare(iterations: int, seed: int) -> tuple[list[float], Tensor]:
    """Return the returns before, with the same strengths, and with co-designed ones; and the latter."""
    start, more = Trainer(seed, iterations), max(3 * iterations // 4, 1)
    start.train(iterations)
    others = [Trainer(seed + 1000, more, codesign, learning_rate=1e-3, start=start) for codesign in (False, True)]
    for trainer in others:
        trainer.train(more)
    return [trainer.evaluate() for trainer in (start, *others)], divide(others[1].logits.detach())


if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    sys.stdout.write(f"{'seed':<6}{'before':>8}{'equal':>8}{'co-designed':>13}   strengths of {', '.join(MOTORS)}\n")
    for seed in range(seeds):
        (before, equal, codesigned), strengths = compare(iterations, seed)
        numbers = ", ".join(f"{x:.2f}" for x in strengths.tolist())
        sys.stdout.write(f"{seed:<6}{before:>8.0f}{equal:>8.0f}{codesigned:>13.0f}   {numbers}\n")
