"""Settings of first-order algorithms: plain records, every field with meaning and unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from ahac.core.checks import check_finite, check_int, check_probability
from ahac.core.errors import InputError

__all__ = ["ActorConfig", "CriticConfig", "HorizonConfig", "ShortHorizonConfig", "StiffnessConfig"]

Rule = Literal["fixed", "paper", "released", "shrink", "growth", "esnr"]
Signal = Literal["dynamics", "contact", "contact_normalised", "force"]

LIMITS: dict[str, float] = {"dynamics": 500.0, "contact": 5e4, "contact_normalised": 5e5, "force": 500.0}
"""C by signal, between what light and what hard contact gave in trials on Hopper and Ant; not tuned."""


RULES: tuple[str, ...] = get_args(Rule)


def _check_network(name: str, hidden: tuple[int, ...], learning_rate: float, max_grad_norm: float | None) -> None:
    for width in hidden:
        check_int(f"the width of a hidden layer in {name}.hidden", width, 1)
    check_finite(f"{name}.learning_rate", learning_rate, 0.0)
    if max_grad_norm is not None:
        _above(f"{name}.max_grad_norm", max_grad_norm, 0.0)


def _above(name: str, value: float, bound: float) -> None:
    if check_finite(name, value, bound) == bound:
        raise InputError(f"{name} must be more than {bound:g}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class ActorConfig:
    """The policy and how it learns."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Widths of the hidden layers."""
    learning_rate: float = 2e-3
    """Learning rate, α_θ; falls linearly to 1e-5 over the training."""
    max_grad_norm: float = 1.0
    """Norm to which the gradient is clipped."""
    init_log_std: float = -1.0
    """Logarithm of the first standard deviation."""
    normalize_obs: bool = True
    """Whether observations are normalised by what has been seen so far."""

    def __post_init__(self) -> None:
        _check_network("actor", self.hidden, self.learning_rate, self.max_grad_norm)
        check_finite("actor.init_log_std", self.init_log_std)


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The value function and how it is fitted."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    learning_rate: float = 2e-3
    """Learning rate, α_ψ; falls linearly to 1e-5 over the training."""
    num_critics: int = 1
    """Networks; of two, the lower value counts: a double critic."""
    epochs: int = 16
    """Most passes over a rollout."""
    plateau_tolerance: float | None = None
    """Passes end early when the loss changes by less than this from one to the next, over five of them."""
    minibatches: int = 4
    """Into which a pass is divided."""
    shuffle: bool = True
    """Whether minibatches are drawn at random; else they are quarters of the rollout's time."""
    max_grad_norm: float | None = 1.0
    """Norm to which the gradient is clipped."""
    target_alpha: float | None = 0.2
    """Share of the target network that is kept after each iteration; none: no target network."""

    def __post_init__(self) -> None:
        _check_network("critic", self.hidden, self.learning_rate, self.max_grad_norm)
        if self.plateau_tolerance is not None:
            _above("critic.plateau_tolerance", self.plateau_tolerance, 0.0)
        for name in ("num_critics", "epochs", "minibatches"):
            check_int(f"critic.{name}", getattr(self, name), 1)
        if self.target_alpha is not None and check_probability("critic.target_alpha", self.target_alpha) == 1.0:
            raise InputError(f"critic.target_alpha must be in [0, 1), or none for no target, got {self.target_alpha}")


@dataclass(frozen=True, kw_only=True)
class HorizonConfig:
    """How long rollouts are."""

    rule: Rule = "fixed"
    """What moves the length: see `ahac.algos.parts.horizon`."""
    initial: float = 32
    """Length of the first rollout [control steps]; of all, for "fixed"."""
    min: int = 8
    """Shortest rollout [control steps]."""
    max: int = 64
    """Longest rollout [control steps]; bounds memory."""
    learning_rate: float = 1e-5
    """Learning rate of multipliers and horizon, α_φ ("paper", "released")."""
    speed: float = 0.02
    """Largest relative change per iteration ("shrink", "growth")."""
    growth_limit: float = 3.0
    """Largest growth of the gradient along a rollout ("growth")."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InputError(f"no horizon rule named {self.rule!r}; known: {', '.join(RULES)}")
        check_finite("horizon.initial", self.initial, 1.0)
        if not 0 < check_int("horizon.min", self.min, 1) <= check_int("horizon.max", self.max, 1):
            raise InputError(f"horizon.min must not exceed horizon.max, got {self.min} and {self.max}")
        check_finite("horizon.learning_rate", self.learning_rate, 0.0)
        _above("horizon.speed", self.speed, 0.0)
        _above("horizon.growth_limit", self.growth_limit, 1.0)


@dataclass(frozen=True, kw_only=True)
class StiffnessConfig:
    """How contact stiffness enters learning; it is measured only where something looks at it."""

    signal: Signal = "contact"
    """What is measured: docs/tasks/README.md."""
    limit: float | None = None
    """C; by default one that separates light contact from hard for this signal."""
    probes: int = 1
    """Random probes with which "dynamics" is estimated."""
    lagrangian: bool = False
    """Whether φᵀ (C − ‖∇f‖) is part of the actor's objective (eq:lagrangian)."""
    truncate: bool = False
    """Whether a world's trajectory is cut where it is stiffer than the limit (AHAC-1)."""
    min_steps: int = 0
    """Steps that a trajectory has at least, before it may be cut."""

    def __post_init__(self) -> None:
        if self.signal not in LIMITS:
            raise InputError(f"no stiffness signal named {self.signal!r}; known: {', '.join(LIMITS)}")
        if self.limit is not None:
            _above("stiffness.limit", self.limit, 0.0)
        check_int("stiffness.probes", self.probes, 1)
        check_int("stiffness.min_steps", self.min_steps, 0)

    @property
    def threshold(self) -> float:
        """C."""
        return LIMITS[self.signal] if self.limit is None else self.limit


@dataclass(frozen=True, kw_only=True)
class ShortHorizonConfig:
    """SHAC, AHAC, AHAC-1 or BPTT, by what they are made of."""

    actor: ActorConfig = field(default_factory=ActorConfig)
    """The policy."""
    critic: CriticConfig | None = field(default_factory=CriticConfig)
    """The value function; none: BPTT."""
    horizon: HorizonConfig = field(default_factory=HorizonConfig)
    """Length of rollouts."""
    stiffness: StiffnessConfig = field(default_factory=StiffnessConfig)
    """Contact stiffness."""
    gamma: float = 0.99
    """Discount."""
    td_lambda: float = 0.95
    """λ of the value targets."""

    def __post_init__(self) -> None:
        for name in ("gamma", "td_lambda"):
            check_probability(name, getattr(self, name))
        if self.stiffness.lagrangian and self.horizon.rule not in ("paper", "released"):
            raise InputError(
                f"stiffness.lagrangian needs multipliers, which horizon.rule {self.horizon.rule!r} does not have; use "
                '"paper" or "released", with horizon.min = horizon.max to keep the horizon as it is'
            )
        if self.stiffness.lagrangian and self.stiffness.signal == "dynamics":
            raise InputError('stiffness.lagrangian needs a signal with a gradient, which "dynamics" does not have')
