"""Policy and critic of first-order algorithms: our own networks, or the user's torch modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase as RunningNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.dropout import _DropoutNd as Dropout  # pyright: ignore[reportPrivateUsage]

from ahac.algos.config import ActorConfig, CriticConfig, ShortHorizonConfig
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError
from ahac.nets.actor import Actor, CustomActor, SquashedGaussian, StateStdActor
from ahac.nets.critic import Critic, CustomCritic, Ensemble

__all__ = [
    "BUILT_IN",
    "CriticFactory",
    "Networks",
    "PolicyFactory",
    "check_networks",
    "make_actor",
    "make_critic",
    "with_networks",
]

Config = TypeVar("Config")

PolicyFactory = Callable[[int, int], nn.Module]
CriticFactory = Callable[[int], nn.Module]


@dataclass(frozen=True)
class Networks:
    """Functions that make the user's own networks; None for ours. Networks get normalized observations."""

    policy: PolicyFactory | None = None
    """`policy(obs_size, num_actions)` returns a module from [B, obs_size] to [B, num_actions], the mean before the
    tanh."""
    critic: CriticFactory | None = None
    """`critic(obs_size)` returns a module from [B, obs_size] to [B] or [B, 1], the value."""

    def __post_init__(self) -> None:
        for name, make in (("policy", self.policy), ("critic", self.critic)):
            if make is not None and (isinstance(make, nn.Module) or not callable(make)):
                raise InputError(
                    f"{name} must be a function or class that makes a new torch module from its sizes, got "
                    f"{type(make).__name__}; give for example {name}=MyNetwork, not {name}=MyNetwork(...)"
                )

    def __bool__(self) -> bool:
        return self.policy is not None or self.critic is not None


BUILT_IN = Networks()
"""No custom networks."""


def with_networks(config: Config, networks: Networks) -> Config:
    """Return an algorithm's settings with the names of custom networks, as config.json records them."""
    if not networks:
        return config
    if not isinstance(config, ShortHorizonConfig):
        raise InputError(
            "policy= and critic= are for the algorithms ahac, ahac1, shac, sapo, rpo, ivwh and bptt, got a "
            f"{type(config).__name__}; omit them, or write your own algorithm (ahac.register_algorithm)"
        )
    actor, critic = config.actor, config.critic
    if networks.policy is not None:
        if actor.state_std:
            raise InputError(
                "a custom policy has one standard deviation per action, got actor.state_std = True; set it to False"
            )
        actor = replace(actor, network=_name(networks.policy))
    if networks.critic is not None:
        if critic is None:
            raise InputError("critic= is for algorithms with a critic, got the settings of bptt; omit it")
        critic = replace(critic, network=_name(networks.critic))
    return replace(config, actor=actor, critic=critic)


def make_actor(
    config: ActorConfig, spec: EnvSpec, seed: int, rng: torch.Generator, networks: Networks
) -> SquashedGaussian:
    """Make the policy, whose weights come from `rng` if it is ours, and from `seed` if it is the user's."""
    _check_given("policy", config.network, networks.policy)
    sizes = spec.obs_size, spec.action_size
    if networks.policy is None:
        function, log_std, bounds = config.activation, config.init_log_std, config.log_std_bounds
        if config.state_std:
            actor = StateStdActor(*sizes, config.hidden, function=function, log_std=log_std, bounds=bounds, rng=rng)
        else:
            actor = Actor(*sizes, config.hidden, function=function, log_std=log_std, rng=rng)
    else:
        (net,) = _make_networks(networks.policy, sizes, seed, 1)
        _check_network("policy", net, spec.obs_size, [(2, spec.action_size)])
        actor = CustomActor(net, spec.action_size, config.init_log_std)
    return actor.to(spec.device, spec.dtype)


def make_critic(config: CriticConfig, spec: EnvSpec, seed: int, rng: torch.Generator, networks: Networks) -> Ensemble:
    """Make the critic, as `make_actor` does the policy."""
    _check_given("critic", config.network, networks.critic)
    if networks.critic is None:
        critic = Critic(
            spec.critic_obs_size, config.hidden, members=config.num_critics, rng=rng, function=config.activation
        )
    else:
        nets = _make_networks(networks.critic, (spec.critic_obs_size,), seed + 1, config.num_critics)
        for net in nets:
            _check_network("critic", net, spec.critic_obs_size, [(2,), (2, 1)])
            if frozen := [name for name, weight in net.named_parameters() if not weight.requires_grad]:
                raise InputError(f"all parameters of the critic are trained, got requires_grad=False for {frozen[0]}")
        critic = CustomCritic(nets)
    return critic.to(spec.device, spec.dtype)


def check_networks(config: ShortHorizonConfig, spec: EnvSpec, networks: Networks) -> None:
    """Make the custom networks once, to raise their errors before a run is created."""
    if networks.policy is not None:
        make_actor(config.actor, spec, 0, torch.Generator(), networks)
    if networks.critic is not None and config.critic is not None:
        make_critic(config.critic, spec, 0, torch.Generator(), networks)


def _name(make: Callable[..., object]) -> str:
    return getattr(make, "__name__", type(make).__name__)


def _check_given(kind: str, name: str, make: object) -> None:
    """Raise if a custom network is named in the settings but not given, or the other way round."""
    if name and make is None:
        given = name if name.isidentifier() else f"make_{kind}"
        raise InputError(
            f"the {kind} of this run is a custom network, {name!r}, which config.json cannot store; open the run in "
            f"Python and give it again: ahac.resume(folder, {kind}={given}), open_run(folder, {kind}={given})"
        )
    if make is not None and not name:
        raise InputError(f"the {kind} of this run is not a custom network; omit {kind}=")


def _make_networks(make: Callable[..., object], sizes: tuple[int, ...], seed: int, count: int) -> list[nn.Module]:
    """Make networks with weights from a seed, without side effects on torch's global generator."""
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        torch.default_generator.manual_seed(seed)
        made = [make(*sizes) for _ in range(count)]
    for net in made:
        if not isinstance(net, nn.Module):
            raise InputError(f"{_name(make)}{sizes} must return a torch.nn.Module, got {type(net).__name__}")
    return [net for net in made if isinstance(net, nn.Module)]


def _check_network(kind: str, net: nn.Module, obs_size: int, shapes: list[tuple[int, ...]]) -> None:
    """Raise if a network has no weights, has layers that cannot be used here, or an output of a wrong shape."""
    if next(net.parameters(), None) is None:
        raise InputError(f"the {kind} must have parameters to train, got {type(net).__name__} without any")
    for layer in net.modules():
        if isinstance(layer, Dropout | RunningNorm):
            raise InputError(
                f"the {kind} must compute the same in training and evaluation, got a layer {type(layer).__name__}; "
                "use nn.LayerNorm instead, or remove it (observations are normalized already)"
            )
    with torch.no_grad():
        output: object = net.cpu().float()(torch.zeros(2, obs_size))
    shape = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
    if shape not in shapes:
        expected = " or ".join(str(list(expected)) for expected in shapes)
        raise InputError(
            f"the {kind} must return a tensor of shape {expected} for observations [2, {obs_size}], got "
            f"{list(shape) if isinstance(shape, tuple) else shape}"
        )
