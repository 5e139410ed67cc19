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
from ahac.envs.memory import Action, Memory
from ahac.envs.randomization import Distribution, Randomization
from ahac.sim import Actuator, ForceLaw, Integrator, Keyframe, Model, Real, Vec3, World

__all__ = ["Action", "ControlFn", "ObsTerm", "Observation", "ResetFn", "RewardTerm", "Task"]

ObsTerm = Callable[[World, Action], "Real | Vec3 | Sequence[Real]"]
"""Observation term: a function of a world and of the action that led to it."""

RewardTerm = Callable[[World, Action], Real]
"""Reward term: a function of the world before a step and of the action taken; `world.after` is the resulting world."""

Observation = Mapping[str, ObsTerm] | Mapping[str, Mapping[str, ObsTerm]]
"""Observation terms by name, or two groups of them: {"policy": {...}, "critic": {...}}."""

ResetFn = Callable[..., tuple[Sequence[Real], Sequence[Real]]]
"""Reset: a function of (model, draw) that returns the initial positions and velocities of an episode. If it has a third
parameter named `memory`, it also receives the task's memory at the end of the previous episode."""

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
    randomize: Mapping[str, Distribution] = field(default_factory=dict)
    """Distributions of the model's parameters, by pattern as in `Model.parameters`; drawn anew for each episode."""
    randomization: Randomization | None = field(init=False, repr=False, compare=False, default=None)
    """The randomized parameters; None if there are none."""

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
        if not self.model.actuators:
            raise InputError(f"{self.model.name!r} has no actuators: load it with motors=Motor(strength=...)")
        if not isinstance(self.randomize, Mapping) or not all(
            isinstance(distribution, Distribution) for distribution in self.randomize.values()
        ):
            raise InputError(f"randomize must map patterns to uniform(low, high) or the like, got {self.randomize!r}")
        object.__setattr__(self, "model", _with_unit_controls(self.model, self.randomize))
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
        for name, terms in groups.items():
            if not isinstance(terms, Mapping) or not terms:
                raise InputError(f"{name} must map one or more names to functions of (world, action), got {terms!r}")
            for key, term in terms.items():
                if not callable(term):
                    raise InputError(f"{name} term {key!r} must be a function of (world, action), got {term!r}")

    def _check_memory(self) -> None:
        if not isinstance(self.memory, Mapping):
            raise InputError(f"memory must map names to Memory(size, ...), got {self.memory!r}")
        for name, entry in self.memory.items():
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


RESCALED_FROM = "_rescaled_from"
"""Attribute of a model with rescaled controls: the model as given, and the actuators whose gains are physical.
`dataclasses.replace` of a task passes the rescaled model back in; that of a model drops the attribute."""


def _with_unit_controls(model: Model, randomize: Mapping[str, Distribution]) -> Model:
    """Return the model with the control range of every actuator rescaled to [-1, 1].

    Randomized gains stay physical: there, the control is rescaled instead of gain and bias.
    """
    given, physical = vars(model).get(RESCALED_FROM, (model, frozenset[str]()))
    patterns = [pattern for pattern in randomize if pattern.partition(":")[0] in ("actuator_gain", "actuator_damping")]
    wanted = (
        frozenset(name.partition(":")[2] for name in given.parameters(*patterns).names) if patterns else frozenset()
    )
    rescaled = all(actuator.control_range == (-1.0, 1.0) for actuator in model.actuators)
    if rescaled and (given is model or wanted == physical):
        return model
    actuators = tuple(_with_unit_control(actuator, actuator.name in wanted) for actuator in given.actuators)
    keyframes = {name: _with_unit_ctrl(keyframe, given.actuators) for name, keyframe in given.keyframes.items()}
    result = replace(given, actuators=actuators, keyframes=keyframes)
    object.__setattr__(result, RESCALED_FROM, (given, wanted))
    return result


def _with_unit_ctrl(keyframe: Keyframe, actuators: Sequence[Actuator]) -> Keyframe:
    """Return a keyframe whose controls are actions: (control − middle) / half."""
    ctrl = []
    for control, actuator in zip(keyframe.ctrl, actuators, strict=False):
        low, high = actuator.control_range or (-1.0, 1.0)
        ctrl.append((2.0 * control - low - high) / (high - low) if low < high else 0.0)
    return replace(keyframe, ctrl=tuple(ctrl))


def _with_unit_control(actuator: Actuator, physical: bool) -> Actuator:
    """Rescale the control of one actuator to middle + half · action.

    Where the force is linear in the control with a constant gain, the gain takes up the scale and the bias the offset,
    unless they must stay `physical`.
    """
    if actuator.control_range is None:
        raise InputError(
            f"actuator {actuator.name!r} has no control range to map actions in [-1, 1] onto: give it a ctrlrange in "
            "the model file, or load the robot with motors=Motor(strength=...)"
        )
    low, high = actuator.control_range
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    if physical or not actuator.is_linear:
        return replace(actuator, control_range=(-1.0, 1.0), control_map=(half, middle))
    constant, by_length, by_speed = actuator.bias
    bias = (constant + actuator.gain * middle, by_length, by_speed)
    return replace(actuator, gain=actuator.gain * half, bias=bias, control_range=(-1.0, 1.0))
