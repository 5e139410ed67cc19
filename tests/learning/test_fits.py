"""Networks fitted to known functions: SVG's model to a motion, a critic to a smooth function."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from ahac.algos.parts.critic_fit import CriticFit
from ahac.algos.svg import SVG
from ahac.nets.critic import Critic
from ahac.nets.critic_training import make_critic_epoch
from learning.cases import Case, Limit, Measured, check
from learning.double_integrator import FORCE, TAU, DoubleIntegrator
from learning.toys import SVG_TOY
from support.marks import keep


def fit_model(seed: int) -> Measured:
    """Errors of SVG's model before and after six iterations, of one step and of three."""
    env = DoubleIntegrator(16, seed=seed)
    algorithm = SVG(replace(SVG_TOY, model_updates=2, sequence_steps=3), env.spec, seed)
    algorithm.iterate(env, 0.0)  # fills the replay buffer
    before = motion_errors(algorithm, 3)
    first, *_, last = [algorithm.iterate(env, 0.0).metrics for _ in range(6)]
    after = motion_errors(algorithm, 3)
    reported = {name: last[f"model_error_{name}"] / first[f"model_error_{name}"] for name in ("first", "last")}
    return {
        "error before": before[0].item(),
        "error of one step": (after[0] / before[0]).item(),
        "error of three steps": (after[2] / before[2]).item(),
        "growth of errors": (after[2] / after[0]).item(),
        "reported error of one step": reported["first"],
        "reported error of three steps": reported["last"],
    }


def motion_errors(algorithm: SVG, steps: int) -> Tensor:
    """[steps] root mean squares by which predictions miss the known motion, in meters and meters per second."""
    rng = torch.Generator().manual_seed(7)
    state = 2.0 * torch.rand(200, 2, generator=rng) - 1.0
    actions = 2.0 * torch.rand(steps, 200, 1, generator=rng) - 1.0
    view = algorithm.normalizer.frozen()
    with torch.no_grad():
        actual = view.denormalize(algorithm.model.dynamics.unroll(view(state), actions))
    errors = []
    for action, predicted in zip(actions, actual, strict=True):
        x, v = state.split(1, dim=-1)
        state = torch.cat([x + TAU * v, v + TAU * FORCE * action], dim=-1)
        errors.append((predicted - state).square().mean().sqrt())
    return torch.stack(errors)


def fit_critic(members: int, seed: int) -> Measured:
    """Loss of a critic's last epoch over a smooth function, relative to its variance."""
    generator = torch.Generator().manual_seed(seed)
    critic = Critic(3, (32, 32), members=members, rng=generator)
    obs = torch.randn(256, 3, generator=generator)
    target = obs[:, 0].sin() + obs[:, 1] * obs[:, 2]
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
    fit = CriticFit(
        make_critic_epoch(critic, optimizer, 1.0), optimizer, epochs=200, minibatches=4, tolerance=None, rng=generator
    )
    loss = fit(obs, target, torch.tensor(True)).loss.item()
    after = (critic.values(obs) - target).square().mean().item()
    return {"loss": loss / target.var().item(), "loss afterwards": after / loss}


CASES = {
    "model of svg": Case(
        train=fit_model,
        limits={
            "error before": Limit(above=0.05), "error of one step": Limit(below=0.2),
            "error of three steps": Limit(below=0.2), "growth of errors": Limit(above=1.0),
            "reported error of one step": Limit(below=0.4), "reported error of three steps": Limit(below=0.4),
        },
        compiled=False,
    ),
    **{
        f"critic, {members} members": Case(
            train=partial(fit_critic, members),
            limits={"loss": Limit(below=0.05), "loss afterwards": Limit(below=4.0, above=0.25)},
        )
        for members in (1, 2)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", keep(1, sorted(CASES)))
def test_it_is_learned(name: str) -> None:
    check(CASES[name])
