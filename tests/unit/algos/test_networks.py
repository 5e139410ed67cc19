"""Custom networks of policy and critic: training, resuming, evaluating and exporting with them, and errors."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ahac
from ahac.algos.networks import Networks, with_networks
from ahac.algos.registry import make_algorithm
from ahac.core.errors import InputError
from ahac.training.api import configure
from ahac.training.run import Run, open_run
from support.small_algorithms import SETTINGS, worlds
from support.small_runs import small_algorithm, state, table


class Residual(nn.Module):
    """A policy that is not a sequence of layers."""

    def __init__(self, obs_size: int, num_actions: int) -> None:
        super().__init__()
        self.linear = nn.Linear(obs_size, num_actions)
        self.rest = nn.Sequential(nn.Linear(obs_size, 8), nn.SiLU(), nn.Linear(8, num_actions))

    def forward(self, obs: Tensor) -> Tensor:
        assert obs.dim() == 2, "networks get rows"
        return self.linear(obs) + self.rest(obs)


def layers(obs_size: int, num_actions: int) -> nn.Module:
    return nn.Sequential(nn.Linear(obs_size, 8), nn.Tanh(), nn.Linear(8, num_actions))


class Features(nn.Module):
    """A critic with a buffer, and values without a last dimension."""

    scale: Tensor

    def __init__(self, obs_size: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))
        self.net = nn.Sequential(nn.Linear(obs_size, 8), nn.ELU(), nn.Linear(8, 1))

    def forward(self, obs: Tensor) -> Tensor:
        assert obs.dim() == 2, "networks get rows"
        return self.scale * self.net(obs).squeeze(-1)


def train(folder: Path, name: str, iterations: int = 4, algo: str = "shac", **networks: Any) -> Run:  # noqa: ANN401
    settings = {"num_envs": 8, "device": "cpu", "checkpoint_every": 4, "eval_episodes": 4}
    algorithm = small_algorithm("hopper", algo)
    return ahac.train(
        "hopper",
        algo,
        display=False,
        iterations=iterations,
        out=str(folder),
        name=name,
        algorithm=algorithm,
        **settings,
        **networks,
    )


@pytest.mark.parametrize("algo", ["shac", "ahac"])
def test_runs_with_custom_networks_resume_bit_exactly(algo: str, tmp_path: Path) -> None:
    networks: Any = {"policy": Residual, "critic": Features}
    whole = train(tmp_path, "whole", algo=algo, **networks)
    part = train(tmp_path, "part", algo=algo, callbacks=[lambda run, metrics: metrics["iteration"] < 2], **networks)
    assert state(part.folder)["iteration"] == 2.0
    ahac.resume(part.folder, display=False, **networks)
    assert state(part.folder) == state(whole.folder)
    assert table(part.folder) == table(whole.folder)
    assert "algo/actor.net.rest.0.weight" in state(whole.folder)


def test_custom_weights_come_from_the_seed_and_leave_torchs_generator_alone() -> None:
    env = worlds()
    config = ahac_config_with(Residual)

    def weights(seed: int) -> Tensor:
        algorithm: Any = make_algorithm(config, env.spec, seed, networks=Networks(Residual))
        return algorithm.actor.net.linear.weight

    before = torch.get_rng_state()
    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    assert torch.equal(torch.get_rng_state(), before)


def ahac_config_with(policy: Any) -> Any:  # noqa: ANN401
    return with_networks(SETTINGS["ahac"], Networks(policy))


def test_members_of_an_ensemble_have_their_own_weights_and_are_fitted() -> None:
    env, networks = worlds(), Networks(critic=Features)
    algorithm: Any = make_algorithm(with_networks(SETTINGS["ahac"], networks), env.spec, 0, networks=networks)
    first, second = algorithm.critic.theta.detach().clone()
    assert not torch.equal(first, second)
    obs = torch.randn(5, env.spec.obs_size)
    expected = Features(env.spec.obs_size)
    nn.utils.vector_to_parameters(second, expected.parameters())
    torch.testing.assert_close(algorithm.critic.values(obs)[1], expected(obs).detach())
    algorithm.iterate(env, 0.0)
    assert not torch.equal(algorithm.critic.theta[0], first)
    assert not torch.equal(algorithm.critic.theta[1], second)


def test_the_gradient_of_all_steps_at_once_is_that_of_each() -> None:
    updated: list[Tensor] = []
    for batched in (False, True):  # as on the CPU and on CUDA
        env = worlds()
        algorithm: Any = make_algorithm(ahac_config_with(Residual), env.spec, 0, networks=Networks(Residual))
        algorithm.actor_step.batched = batched
        algorithm.iterate(env, 0.0)
        updated.append(algorithm.actor.net.rest[0].weight.grad)
    torch.testing.assert_close(*updated, rtol=1e-4, atol=1e-6)


def test_frozen_parameters_stay_and_unused_ones_do_no_harm() -> None:
    class Partial(Residual):
        def __init__(self, obs_size: int, num_actions: int) -> None:
            super().__init__(obs_size, num_actions)
            self.linear.requires_grad_(False)
            self.unused = nn.Linear(2, 2)

    env = worlds()
    algorithm: Any = make_algorithm(ahac_config_with(Partial), env.spec, 0, networks=Networks(Partial))
    frozen, trained = (
        layer.weight.detach().clone() for layer in (algorithm.actor.net.linear, algorithm.actor.net.rest[0])
    )
    algorithm.iterate(env, 0.0)
    assert torch.equal(algorithm.actor.net.linear.weight, frozen)
    assert not torch.equal(algorithm.actor.net.rest[0].weight, trained)


def test_custom_networks_are_recorded_by_name(tmp_path: Path) -> None:
    run = train(tmp_path, "mine", 1, policy=Residual, critic=Features)
    settings = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))["algorithm"]
    assert settings["actor"]["network"] == "Residual"
    assert settings["critic"]["network"] == "Features"


def test_a_run_opened_with_its_networks_acts_as_it_did(tmp_path: Path) -> None:
    run = train(tmp_path, "mine", 1, policy=Residual)
    opened = open_run(run.folder, policy=Residual)
    obs = torch.randn(3, run.env.spec.obs_size)
    torch.testing.assert_close(opened.policy(obs), run.policy(obs), rtol=0.0, atol=0.0)
    assert opened.evaluate().mean == run.evaluate().mean


def test_a_run_opened_without_its_networks_says_how_to_give_them(tmp_path: Path) -> None:
    run = train(tmp_path, "mine", 1, policy=Residual)
    message = (
        r"the policy of this run is a custom network, 'Residual', which config.json cannot store; open the run in "
        r"Python and give it again: ahac.resume\(folder, policy=Residual\)"
    )
    with pytest.raises(InputError, match=message):
        open_run(run.folder).restore(with_env=False)
    with pytest.raises(InputError, match=message):
        ahac.resume(run.folder, 2)
    with pytest.raises(InputError, match=message):
        ahac.export(run.folder, format="torchscript")


def test_networks_for_a_run_without_any_are_refused(tmp_path: Path) -> None:
    run = train(tmp_path, "mine", 1)
    with pytest.raises(InputError, match="the policy of this run is not a custom network; omit policy="):
        ahac.resume(run.folder, 2, policy=Residual)


@pytest.mark.parametrize(
    ("policy", "format"), [(Residual, "torchscript"), (layers, "torchscript"), pytest.param(layers, "onnx")]
)
def test_custom_policies_are_exported(policy: Any, format: str, tmp_path: Path) -> None:  # noqa: ANN401
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    run = train(tmp_path, "mine", 1, policy=policy)
    assert ahac.export(run, format=format).is_file(), "export compares it with the policy"


def test_other_layers_are_not_exported_as_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    run = train(tmp_path, "mine", 1, policy=Residual)
    with pytest.raises(InputError, match="a layer Residual cannot be exported to ONNX; export it as torchscript"):
        ahac.export(run)


def test_only_first_order_algorithms_take_networks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"for the algorithms ahac, .*, ivwh and bptt, got a PPOConfig"):
        ahac.train("hopper", "ppo", policy=Residual, out=str(tmp_path))
    with pytest.raises(InputError, match=r"one standard deviation per action, got actor\.state_std = True"):
        ahac.train("hopper", "sapo", policy=Residual, out=str(tmp_path))
    with pytest.raises(InputError, match="critic= is for algorithms with a critic"):
        ahac.train("hopper", "bptt", critic=Features, out=str(tmp_path))
    assert not list(tmp_path.iterdir())


class NoModule:
    """Not a network."""

    def __init__(self, *_: int) -> None:
        pass


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Residual(5, 1), r"policy must be a function or class .* got Residual; give for example policy=MyNetwork"),
        (3, "policy must be a function or class .* got int"),
        (NoModule, r"NoModule\(2, 1\) must return a torch.nn.Module, got NoModule"),
        (lambda obs, actions: nn.Linear(obs, 7), r"shape \[2, 1\] for observations \[2, 2\], got \[2, 7\]"),
        (lambda obs, actions: nn.Tanh(), "must have parameters to train, got Tanh"),
        (lambda obs, actions: nn.Sequential(nn.Linear(obs, actions), nn.Dropout()), "got a layer Dropout"),
        (lambda obs, actions: nn.Sequential(nn.BatchNorm1d(obs), nn.Linear(obs, actions)), "a layer BatchNorm1d"),
    ],
)
def test_unusable_policies_are_refused(policy: Any, message: str) -> None:  # noqa: ANN401
    env = worlds()
    with pytest.raises(InputError, match=message):
        make_algorithm(ahac_config_with(policy), env.spec, 0, networks=Networks(policy))


def test_unusable_networks_leave_no_run_folder(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"policy": lambda obs, actions: nn.Linear(obs, 7)},
        {"critic": lambda obs: nn.Linear(obs, 7)},
    ]
    for networks in wrong:
        with pytest.raises(InputError, match=r"must return a tensor of shape"):
            ahac.train("cartpole", "shac", out=str(tmp_path), device="cpu", **networks)
    assert not list(tmp_path.iterdir())


def test_the_command_line_has_no_option_for_networks() -> None:
    from ahac.cli.options import add_settings
    from ahac.cli.parser import Parser

    parser = Parser("test", "", "")
    add_settings(parser, configure("cartpole", "shac").algorithm)
    options = parser.format_help()
    assert "--actor.normalize-obs" in options
    assert "network" not in options.replace("target network", "")
