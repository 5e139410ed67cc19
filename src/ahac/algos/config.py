"""Settings of the first-order algorithms; field docstrings are the help texts of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from ahac.core.bundle import BundleConfig
from ahac.core.checks import check_finite, check_int, check_probability, check_range, check_widths
from ahac.core.env import StiffnessSignal
from ahac.core.errors import InputError

__all__ = [
    "ActorConfig",
    "CriticConfig",
    "EntropyConfig",
    "HorizonConfig",
    "ShortHorizonConfig",
    "StiffnessConfig",
    "UpdateConfig",
]

Rule = Literal["fixed", "paper", "released", "shrink", "growth", "esnr"]

LIMITS: dict[StiffnessSignal, float] = {"dynamics": 500.0, "contact": 5e4, "contact_normalized": 5e5, "force": 500.0}
"""Default C of each signal, between light and hard contact in trials on Hopper and Ant; not tuned."""
RULES: tuple[str, ...] = get_args(Rule)


def _check_network(name: str, hidden: tuple[int, ...], learning_rate: float, max_grad_norm: float | None) -> None:
    check_widths(f"{name}.hidden", hidden)
    check_finite(f"{name}.learning_rate", learning_rate, 0.0)
    if max_grad_norm is not None:
        _above(f"{name}.max_grad_norm", max_grad_norm, 0.0)


def _check_activation(name: str, activation: str) -> None:
    if activation not in ("elu", "silu"):
        raise InputError(f'{name}.activation must be "elu" or "silu", got {activation!r}')


def _above(name: str, value: float, bound: float) -> None:
    if check_finite(name, value, bound) == bound:
        raise InputError(f"{name} must be more than {bound:g}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class ActorConfig:
    """The policy and its optimizer."""

    hidden: tuple[int, ...] = (128, 64, 32)
    """Hidden layer widths."""
    learning_rate: float = 2e-3
    """Initial learning rate α_θ; changes linearly to 1e-5 over the run, unless it is 0."""
    max_grad_norm: float = 1.0
    """Clip the gradient to this norm."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW)."""
    activation: Literal["elu", "silu"] = "elu"
    """Activation of hidden layers."""
    init_log_std: float = -1.0
    """Initial log standard deviation of the policy."""
    state_std: bool = False
    """Let the standard deviation depend on the state."""
    log_std_bounds: tuple[float, float] = (-5.0, 2.0)
    """Bounds of the log standard deviation, if it depends on the state."""
    normalize_obs: bool = True
    """Normalize observations by running statistics."""
    network: str = field(default="", metadata={"option": False})
    """Name of the custom network given in Python as `policy`, instead of `hidden` and `activation`; empty for none."""

    def __post_init__(self) -> None:
        _check_network("actor", self.hidden, self.learning_rate, self.max_grad_norm)
        check_finite("actor.init_log_std", self.init_log_std)
        check_finite("actor.weight_decay", self.weight_decay, 0.0)
        _check_activation("actor", self.activation)
        low, high = check_range("actor.log_std_bounds", self.log_std_bounds, distinct=True)
        if self.state_std and not low <= self.init_log_std <= high:
            raise InputError(
                f"actor.init_log_std must be within actor.log_std_bounds, {low} to {high}, got {self.init_log_std}; "
                "outside of them the standard deviation has no gradient"
            )


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The value function and its fit."""

    hidden: tuple[int, ...] = (64, 64)
    """Hidden layer widths."""
    learning_rate: float = 2e-3
    """Initial learning rate α_ψ; changes linearly to 1e-5 over the run, unless it is 0."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW)."""
    activation: Literal["elu", "silu"] = "elu"
    """Activation of hidden layers."""
    num_critics: int = 1
    """Number of critics; the minimum of their values is used (double critic with two)."""
    actor_value: Literal["min", "mean"] = "min"
    """Value of several critics in the actor's objective; targets always use the minimum."""
    epochs: int = 16
    """Largest number of epochs per rollout."""
    plateau_tolerance: float | None = None
    """Stop when the mean change per epoch, over the five losses before the latest, is below this; None disables it."""
    minibatches: int = 4
    """Minibatches per epoch."""
    shuffle: bool = True
    """Draw minibatches at random; otherwise they are consecutive in time."""
    max_grad_norm: float | None = 1.0
    """Clip the gradient to this norm; None disables clipping."""
    target_alpha: float | None = 0.2
    """Fraction of the old target network kept per iteration; None disables the target network."""
    network: str = field(default="", metadata={"option": False})
    """Name of the custom network given in Python as `critic`, instead of `hidden` and `activation`; empty for none."""

    def __post_init__(self) -> None:
        _check_network("critic", self.hidden, self.learning_rate, self.max_grad_norm)
        check_finite("critic.weight_decay", self.weight_decay, 0.0)
        _check_activation("critic", self.activation)
        if self.actor_value not in ("min", "mean"):
            raise InputError(f'critic.actor_value must be "min" or "mean", got {self.actor_value!r}')
        if self.plateau_tolerance is not None:
            _above("critic.plateau_tolerance", self.plateau_tolerance, 0.0)
        for name in ("num_critics", "epochs", "minibatches"):
            check_int(f"critic.{name}", getattr(self, name), 1)
        if self.target_alpha is not None and check_probability("critic.target_alpha", self.target_alpha) == 1.0:
            raise InputError(f"critic.target_alpha must be in [0, 1), or none for no target, got {self.target_alpha}")


@dataclass(frozen=True, kw_only=True)
class HorizonConfig:
    """Length of rollouts."""

    rule: Rule = "fixed"
    """Rule that adapts the horizon (docs/algorithms/ahac.md)."""
    initial: float = 32
    """Initial horizon [control steps]; constant for rule fixed."""
    min: int = 8
    """Smallest horizon [control steps]."""
    max: int = 64
    """Largest horizon [control steps]; limits memory."""
    learning_rate: float = 1e-5
    """Initial learning rate α_φ of multipliers and horizon (rules paper and released); changes linearly to 1e-5, unless
    it is 0."""
    speed: float = 0.02
    """Largest relative change per iteration (rules shrink and growth)."""
    growth_limit: float = 3.0
    """Largest growth of the gradient along a rollout (rule growth)."""

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
    """How contact stiffness is used. If nothing uses it, only each rollout's last step is measured, for the log."""

    signal: StiffnessSignal = "contact"
    """Stiffness signal: the norm of the step's Jacobian (dynamics), of the Jacobian of the contact forces (contact,
    contact_normalized), or of the contact forces themselves (force)."""
    limit: float | None = None
    """Limit C of the stiffness; None takes the default of the signal."""
    probes: int = 1
    """Number of random probes used to estimate the signal "dynamics"."""
    lagrangian: bool = False
    """Add φᵀ (C − ‖∇f‖) to the actor's objective (eq. 10)."""
    truncate: bool = False
    """Truncate a world's trajectory where it is stiffer than the limit (AHAC-1)."""
    min_steps: int = 0
    """Smallest number of steps before a trajectory may be truncated."""

    def __post_init__(self) -> None:
        if not isinstance(self.signal, str) or self.signal not in LIMITS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"no stiffness signal named {self.signal!r}; known: {', '.join(LIMITS)}")
        if self.limit is not None:
            _above("stiffness.limit", self.limit, 0.0)
        check_int("stiffness.probes", self.probes, 1)
        check_int("stiffness.min_steps", self.min_steps, 0)

    @property
    def threshold(self) -> float:
        """The limit C: the one set, or the default of the signal."""
        return LIMITS[self.signal] if self.limit is None else self.limit


@dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """How the policy learns from the gradient of a rollout."""

    epochs: int = 1
    """Policy updates per rollout; those after the first reuse its gradients, weighted by importance (RPO)."""
    gradient: Literal["analytic", "mixed"] = "analytic"
    """Gradient of each action: through the simulator (analytic), or its inverse-variance mean with the likelihood-ratio
    gradient (mixed, IVW-H)."""
    clip_low: float = 0.8
    """Leave out steps with importance weights below 1 − clip_low (with several epochs)."""
    clip_high: float = 1.0
    """Leave out steps with importance weights above 1 + clip_high (with several epochs)."""
    kl_coef: float = 0.0
    """Weight of KL(old ‖ new) in the loss of every update; no effect with one epoch, where its gradient is 0."""
    entropy_coef: float = 0.0
    """Weight of the policy's entropy in the objective of every update."""

    def __post_init__(self) -> None:
        check_int("update.epochs", self.epochs, 1)
        if self.gradient not in ("analytic", "mixed"):
            raise InputError(f'update.gradient must be "analytic" or "mixed", got {self.gradient!r}')
        check_probability("update.clip_low", self.clip_low)
        for name in ("clip_high", "kl_coef", "entropy_coef"):
            check_finite(f"update.{name}", getattr(self, name), 0.0)

    def check_worlds(self, worlds: int) -> None:
        """Raise if there are too few worlds for mixed gradients."""
        if self.gradient == "mixed" and worlds < 2:
            raise InputError(
                f'update.gradient "mixed" needs the variance over worlds, got {worlds} world; use num_envs of 2 or '
                'more, or "analytic"'
            )

    @property
    def plain(self) -> bool:
        """Whether one step with the analytic gradient is all there is, as in SHAC."""
        return self.epochs == 1 and self.gradient == "analytic" and self.kl_coef == self.entropy_coef == 0.0


@dataclass(frozen=True, kw_only=True)
class EntropyConfig:
    """Maximum-entropy objective (SAPO): the policy's entropy is part of the reward, with a learned temperature."""

    enabled: bool = False
    """Add the policy's entropy to the reward."""
    init_temperature: float = 1.0
    """Initial temperature α."""
    learning_rate: float = 5e-3
    """Learning rate of the temperature."""
    target: float | None = None
    """Target entropy ℋ̄; None for −|A|/2, minus half the number of actions."""

    def __post_init__(self) -> None:
        _above("entropy.init_temperature", self.init_temperature, 0.0)
        check_finite("entropy.learning_rate", self.learning_rate, 0.0)
        if self.target is not None and check_finite("entropy.target", self.target) == 0.0:
            raise InputError("entropy.target must not be 0, as entropies are divided by it; use for example -4")


@dataclass(frozen=True, kw_only=True)
class ShortHorizonConfig:
    """Settings of the short-horizon loop (AHAC, AHAC-1, SHAC, SAPO, RPO, IVW-H, BPTT)."""

    actor: ActorConfig = field(default_factory=ActorConfig)
    """Policy settings."""
    critic: CriticConfig | None = field(default_factory=CriticConfig)
    """Critic settings; None for BPTT."""
    horizon: HorizonConfig = field(default_factory=HorizonConfig)
    """Horizon settings."""
    stiffness: StiffnessConfig = field(default_factory=StiffnessConfig)
    """Stiffness settings."""
    update: UpdateConfig = field(default_factory=UpdateConfig)
    """Policy updates: reuse and mixing of gradients."""
    entropy: EntropyConfig = field(default_factory=EntropyConfig)
    """Maximum-entropy objective."""
    bundle: BundleConfig = field(default_factory=BundleConfig)
    """Bundled contact gradients (docs/algorithms/bundled-gradients.md)."""
    gamma: float = 0.99
    """Discount factor."""
    td_lambda: float = 0.95
    """λ of the TD(λ) value targets."""

    def __post_init__(self) -> None:
        for name in ("gamma", "td_lambda"):
            check_probability(name, getattr(self, name))
        if self.update.gradient == "mixed" and self.critic is None:
            raise InputError('update.gradient "mixed" needs a critic for its advantages; use "analytic" without one')
        if self.stiffness.lagrangian and self.horizon.rule not in ("paper", "released"):
            raise InputError(
                f"stiffness.lagrangian needs multipliers, which horizon.rule {self.horizon.rule!r} does not have; use "
                '"paper" or "released", with horizon.min = horizon.max to keep the horizon fixed'
            )
        if self.stiffness.lagrangian and self.stiffness.signal == "dynamics":
            raise InputError('stiffness.lagrangian needs a signal with a gradient, which "dynamics" does not have')

    def check_new(self, worlds: int) -> None:
        """Raise if a new run should not have these settings; old runs that have them can still be opened."""
        self.update.check_worlds(worlds)
        if self.horizon.rule == "esnr" and worlds < 2:
            raise InputError(
                f'horizon.rule "esnr" needs the variance over worlds, got {worlds} world; use num_envs of 2 or more, '
                'or the rule "growth"'
            )
        if self.horizon.speed > 1.0:
            raise InputError(f"horizon.speed must be at most 1, got {self.horizon.speed:g}")
        if self.entropy.target is not None and self.entropy.target > 0.0:
            raise InputError(
                f"entropy.target must be negative, as entropies are normalized by it, got {self.entropy.target:g}; the "
                "default is minus half the number of actions"
            )
