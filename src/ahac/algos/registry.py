"""Registry of algorithms: their names, and which class belongs to which settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from inspect import getdoc
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from ahac.algos.algorithm import Algorithm
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.fasttd3 import FastTD3, FastTD3Config
from ahac.algos.networks import BUILT_IN, Networks
from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.sac import SAC, SACConfig
from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.algos.svg import SVG, SVGConfig
from ahac.core.distributed import SINGLE_PROCESS, ProcessGroup
from ahac.core.env import EnvSpec
from ahac.core.errors import InputError
from ahac.core.registry import Registry

__all__ = [
    "AlgorithmConfig",
    "Registration",
    "algorithms",
    "check_process_group",
    "check_settings",
    "make_algorithm",
    "register_algorithm",
    "saved_settings_class",
    "settings_class",
]


@runtime_checkable
class AlgorithmConfig(Protocol):
    """Settings of an algorithm: any frozen dataclass that is registered with one."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


MakeAlgorithm = Callable[..., Algorithm]
"""Takes settings, `EnvSpec`, seed and `ProcessGroup`, and returns an algorithm."""


class Registration(NamedTuple):
    """What is registered under the name of an algorithm."""

    make: MakeAlgorithm
    config: type[Any]
    """Settings dataclass."""
    distributed: bool = False
    """Whether it trains in several processes."""


_algorithms: Registry[tuple[Any, ...]] = Registry("algorithm", "ahac.algorithms")


def register_algorithm(name: str, make: MakeAlgorithm, config: type[Any], *, distributed: bool = False) -> None:
    """Register an algorithm under a name, for `ahac.train(task, name)` and the command line.

    A package can register an algorithm without being imported, through an entry point in the group "ahac.algorithms":
    a function without arguments that returns `(make, config)`.

    Args:
        name: A name that is not built in; a name that was registered before gets the new algorithm.
        make: Takes the settings, the environment's `EnvSpec`, a seed and the `ProcessGroup`, and returns an object with
            the methods of `ahac.algos.algorithm.Algorithm`.
        config: Settings, a frozen dataclass with a default for each field. Fields are options of the command line,
            their docstrings the help.
        distributed: Whether the algorithm trains in several processes; if not, torchrun is refused.
    """
    if not callable(make):
        raise InputError(f"make of algorithm {name!r} must be a function that creates one, got {make!r}")
    _check_settings_class(name, config)
    if (other := _name_of(config)) not in (None, name):
        raise InputError(
            f"{config.__name__} already has the algorithm {other!r}; settings select their algorithm: give {name!r} a "
            "dataclass of its own, which may be a subclass"
        )
    _algorithms.add(name, lambda: Registration(make, config, distributed))


def algorithms() -> dict[str, str]:
    """Return the names of all registered algorithms, with the first line of their settings' docstring."""
    registered = {name: _registered(name).config for name in _algorithms.names()}
    return {name: (getdoc(config) or "").partition("\n")[0].rstrip(".") for name, config in registered.items()}


def settings_class(name: str) -> type[Any]:
    """Return the settings dataclass of the algorithm with this name."""
    return _registered(name).config


def saved_settings_class(algo: str) -> type[Any]:
    """Return the dataclass of settings that were saved for an algorithm."""
    if algo in _algorithms.names():
        return settings_class(algo)
    raise InputError(
        f"its algorithm {algo!r} is not known in this program; known: {', '.join(_algorithms.names())}. If it is your "
        "own, call ahac.register_algorithm before you open the run, from Python; the command line finds algorithms of "
        'installed packages with an entry point in the group "ahac.algorithms"'
    )


def check_settings(algo: str, config: AlgorithmConfig) -> None:
    """Raise unless the settings are those of the algorithm with this name, if there is one."""
    if algo not in _algorithms.names():
        return
    expected = settings_class(algo)
    if _registration(config).config is not expected:
        raise InputError(
            f"algorithm must be a {expected.__name__} for algo {algo!r}, got a {type(config).__name__}; "
            "start from ahac.training.api.configure(task, algo).algorithm and replace the fields that differ"
        )


def make_algorithm(
    config: AlgorithmConfig,
    spec: EnvSpec,
    seed: int,
    ranks: ProcessGroup = SINGLE_PROCESS,
    networks: Networks = BUILT_IN,
) -> Algorithm:
    """Make the algorithm that these settings belong to, with custom networks if it takes them."""
    check_process_group(config, ranks)
    custom = {"networks": networks} if networks else {}
    return _registration(config).make(config, spec, seed, ranks, **custom)


def check_process_group(config: AlgorithmConfig, ranks: ProcessGroup) -> None:
    """Raise if the algorithm cannot train in several processes."""
    if ranks.size > 1 and not _registration(config).distributed:
        name = type(config).__name__.removesuffix("Config")
        raise InputError(f"{name} trains in one process, got {ranks.size} ranks; start it without torchrun")


def _registration(config: AlgorithmConfig) -> Registration:
    """Return the algorithm of these settings; a subclass without an algorithm of its own has that of its base."""
    for kind in type(config).__mro__:
        if (name := _name_of(kind)) is not None:
            return _registered(name)
    raise InputError(
        f"config must be the settings of an algorithm, got a {type(config).__name__}; register your own with "
        "ahac.register_algorithm(name, make, config)"
    )


def _name_of(config: type[Any]) -> str | None:
    """Return the first algorithm with this settings class."""
    return next((name for name in _algorithms.names() if _registered(name).config is config), None)


def _registered(name: str) -> Registration:
    return Registration(*_algorithms.lookup(name)())


def _check_settings_class(name: str, config: object) -> None:
    """Raise unless the settings are a frozen dataclass that can be made without arguments."""
    if not (isinstance(config, type) and is_dataclass(config)):
        raise InputError(f"config of algorithm {name!r} must be a dataclass, got {config!r}")
    if not getattr(config, "__dataclass_params__").frozen:  # noqa: B009 - not declared by typeshed
        raise InputError(f"{config.__name__} must be frozen: @dataclass(frozen=True, kw_only=True)")
    try:
        config()
    except TypeError as error:
        raise InputError(f"every field of {config.__name__} must have a default: {error}") from error


def _in_one_process(kind: Callable[[Any, EnvSpec, int], Algorithm]) -> MakeAlgorithm:
    """Return a function that makes an algorithm without a process group."""

    def make(config: object, spec: EnvSpec, seed: int, _: ProcessGroup) -> Algorithm:
        return kind(config, spec, seed)

    return make


def _add_built_in(names: Iterable[str], registration: Registration) -> None:
    for name in names:
        _algorithms.add(name, lambda: registration, builtin=True)


_short_horizon = Registration(ShortHorizonActorCritic, ShortHorizonConfig, distributed=True)
_add_built_in(("ahac", "ahac1", "shac", "sapo", "rpo", "ivwh", "bptt"), _short_horizon)
_add_built_in(["ppo"], Registration(_in_one_process(PPO), PPOConfig))
_add_built_in(["sac"], Registration(_in_one_process(SAC), SACConfig))
_add_built_in(["svg"], Registration(_in_one_process(SVG), SVGConfig))
_add_built_in(["fasttd3"], Registration(_in_one_process(FastTD3), FastTD3Config))
