"""Task definition: a robot plus plain functions that are traced together with the physics.

Observation terms and reward terms read a `World`; a reset draws random numbers. All are plain Python on the scalars of
one world, without tensors, batches, devices or hand-written derivatives. See `ahac.sim` for what a traced function may
do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from ahac.core.checks import check_int
from ahac.core.errors import InputError
from ahac.envs.controls import ActionSpace, Rescaled, ResetFn, with_actions
from ahac.envs.memory import Action, Memory
from ahac.envs.randomization import Distribution, Randomization
from ahac.sim import ForceLaw, Integrator, Model, Real, Vec3, World

__all__ = ["Action", "ActionSpace", "ControlFn", "ObsTerm", "Observation", "ResetFn", "RewardTerm", "Task"]

ObsTerm = Callable[[World, Action], "Real | Vec3 | Sequence[Real]"]
"""Observation term: a function of a world and of the action that led to it."""

RewardTerm = Callable[[World, Action], Real]
"""Reward term: a function of the world before a step and of the action taken; `world.after` is the resulting world."""

Observation = Mapping[str, ObsTerm] | Mapping[str, Mapping[str, ObsTerm]]
"""Observation terms by name, or two groups of them: {"policy": {...}, "critic": {...}}."""

ControlFn = Callable[[World, Action], Sequence[Real]]
"""Function of the world at the start of a substep and of the action that returns the controls of all actuators."""

GROUPS = ("policy", "critic")
"""Observation groups."""

SUBSTEPS: dict[Integrator, int] = {"implicit": 4, "explicit": 16}
"""Default number of substeps."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A robot and its objective. Use `dataclasses.replace` to make a variation."""

    name: str
    model: Model
    """The robot. Actions in [-1, 1] are mapped onto each actuator's control range."""
    observation: Observation
    """Observation terms by name; the observation is their concatenation. With two groups, {"policy": {...},
    "critic": {...}}, the policy sees the first and critics the second."""
    reward: Mapping[str, RewardTerm]
    """Reward terms by name; the reward is their sum."""
    reset: ResetFn
    """Draws the initial state of an episode."""
    alive: Callable[[World], Real] | None = None
    """The episode terminates when this is negative; None means that only the time limit ends it."""
    dt: float = 1.0 / 60.0
    """Seconds per control step."""
    substeps: int = 0
    """Integration steps per control step; 0 chooses 4 for implicit and 16 for explicit integration."""
    integrator: Integrator = "implicit"
    """Time integration, see `Simulator`. The paper's tasks are explicit."""
    episode_steps: int = 1000
    """Control steps after which an episode is truncated."""
    memory: Mapping[str, Memory] = field(default_factory=dict)
    """Memory of each world by name, updated with every step; all functions of the task read it as `world.memory`."""
    forces: Sequence[ForceLaw] = ()
    """User-defined force laws, such as pushes."""
    control: ControlFn | None = None
    """Maps the action to the controls of the actuators, in [-1, 1] each, in every substep; the identity by default."""
    actions: ActionSpace | None = None
    """Replaces the actuators of the model, e.g. `JointTargets(scale=0.5, kp=20.0, kd=0.5)`; None keeps them."""
    randomize: Mapping[str, Distribution] = field(default_factory=dict)
    """Distributions of the model's parameters, by pattern as in `Model.parameters`; drawn anew for each episode."""
    signals: Mapping[str, ObsTerm] = field(default_factory=dict)
    """Quantities that evaluations record at every step, by name: neither observed nor rewarded. They see the controls
    that the actuators received as `world.control`. `ahac.engines.locomotion` has the names of its metrics."""
    recipe: str = ""
    """Bundled task whose hyperparameters to train with; by default the one of the same name, otherwise Ant."""
    randomization: Randomization | None = field(init=False, repr=False, compare=False, default=None)
    """The randomized parameters; None if there are none."""
    rescaled: Rescaled | None = field(repr=False, compare=False, default=None)
    """Set by the task itself, for `dataclasses.replace`."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(f"model must be a Model from load_model, got {type(self.model).__name__}")
        self._check_terms()
        self._check_memory()
        if self.integrator not in SUBSTEPS:
            raise InputError(f"integrator must be 'implicit' or 'explicit', got {self.integrator!r}")
        # `dataclasses.replace` passes an earlier default back in: choose it again for the new integrator.
        if not check_int("substeps", self.substeps, 0) or isinstance(self.substeps, _DefaultSubsteps):
            object.__setattr__(self, "substeps", _DefaultSubsteps(SUBSTEPS[self.integrator]))
        object.__setattr__(self, "episode_steps", check_int("episode_steps", self.episode_steps, 1))
        if not callable(self.reset):
            raise InputError(f"reset must be a function of (model, draw), e.g. NoisyReset(), got {self.reset!r}")
        if self.alive is not None and not callable(self.alive):
            raise InputError(f"alive must be a function of a world, e.g. MinHeight('torso', 0.3), got {self.alive!r}")
        if self.actions is not None and not callable(self.actions):
            raise InputError(f"actions must be an action space such as JointTargets(...), got {self.actions!r}")
        if not isinstance(self.randomize, Mapping) or not all(
            isinstance(distribution, Distribution) for distribution in self.randomize.values()
        ):
            raise InputError(f"randomize must map patterns to uniform(low, high) or the like, got {self.randomize!r}")
        earlier = self.rescaled
        given = earlier.given if earlier is not None and earlier.result is self.model else self.model
        model = with_actions(given, self.actions, self.reset, self.randomize)
        object.__setattr__(self, "model", self.model if model == self.model else model)
        object.__setattr__(self, "rescaled", Rescaled(given, self.model))
        randomization = Randomization(self.model, self.randomize) if self.randomize else None
        object.__setattr__(self, "randomization", randomization)

    @property
    def randomized(self) -> list[str]:
        """Description of the randomized parameters, a line for each pattern."""
        return [] if self.randomization is None else self.randomization.describe()

    @property
    def policy_observation(self) -> Mapping[str, ObsTerm]:
        """Observation terms of the policy."""
        return self.observation["policy"] if _has_groups(self.observation) else self.observation  # pyright: ignore[reportReturnType]

    @property
    def critic_observation(self) -> Mapping[str, ObsTerm] | None:
        """Observation terms of critics; None if they see what the policy sees."""
        return self.observation.get("critic") if _has_groups(self.observation) else None

    def _check_terms(self) -> None:
        groups = {"observation": self.observation, "reward": self.reward}
        if _has_groups(self.observation):
            if "policy" not in self.observation or self.observation.keys() - set(GROUPS):
                raise InputError(
                    "observation groups must be 'policy' and, optionally, 'critic'; got "
                    f"{', '.join(map(repr, self.observation))}"
                )
            groups = {f"observation[{name!r}]": terms for name, terms in self.observation.items()}
            groups["reward"] = self.reward
        groups["signals"] = self.signals
        for name, terms in groups.items():
            if not isinstance(terms, Mapping) or not (terms or name == "signals"):
                raise InputError(f"{name} must map one or more names to functions of (world, action), got {terms!r}")
            for key, term in terms.items():
                if not callable(term):
                    raise InputError(f"{name} term {key!r} must be a function of (world, action), got {term!r}")

    def _check_memory(self) -> None:
        if not isinstance(self.memory, Mapping):
            raise InputError(f"memory must map names to Memory(size, ...), got {self.memory!r}")
        for name, entry in self.memory.items():
            if not isinstance(name, str):
                raise InputError(f"names of memory must be strings, got {name!r}")
            if not isinstance(entry, Memory):
                raise InputError(f"memory {name!r} must be a Memory(size, start=..., update=...), got {entry!r}")
        if not isinstance(self.forces, Sequence) or not all(callable(law) for law in self.forces):
            raise InputError(f"forces must be a list of functions of a world, got {self.forces!r}")
        if self.control is not None and not callable(self.control):
            raise InputError(f"control must be a function of (world, action), got {self.control!r}")

    def with_integrator(self, integrator: Integrator) -> Task:
        """Return the same task with another integrator, and its default number of substeps unless the task sets one."""
        return self if integrator == self.integrator else replace(self, integrator=integrator)


def _has_groups(observation: Observation) -> TypeGuard[Mapping[str, Mapping[str, ObsTerm]]]:
    return isinstance(observation, Mapping) and any(isinstance(value, Mapping) for value in observation.values())


class _DefaultSubsteps(int):
    """Number of substeps that follows from the integrator, as opposed to one from the user."""
