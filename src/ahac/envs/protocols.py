"""What Python asks of every object, answered for environments: a repr, and an error for copies and pickles."""

from __future__ import annotations

from typing import NoReturn

from ahac.core.env import EnvSpec
from ahac.core.errors import InputError

__all__ = ["EnvProtocols", "Uncopyable", "describe"]


class Uncopyable:
    """Base of objects that own compiled kernels: `copy.copy`, `copy.deepcopy` and `pickle.dumps` explain what to do."""

    _copying = "make a new one with ahac.make(...) and call new.load_state_dict(old.state_dict())"
    """How to get a second environment in the same state."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InputError(
            f"a {type(self).__name__} cannot be copied or pickled, because it owns compiled kernels and random "
            f"generators; {self._copying}. For another process, send the state_dict() or make the environment there"
        )


class EnvProtocols(Uncopyable):
    """Base of environments with an `EnvSpec`."""

    spec: EnvSpec

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.spec)})"


def describe(spec: EnvSpec) -> str:
    """Return task, number of worlds, device and sizes of an environment in one line."""
    critic = f", critic_obs_size={spec.critic_obs_size}" if spec.asymmetric else ""
    dtype = str(spec.dtype).removeprefix("torch.")
    return (
        f"{spec.name!r}, num_envs={spec.num_envs}, device='{spec.device}', dtype={dtype}, obs_size={spec.obs_size}"
        f"{critic}, action_size={spec.action_size}, episode_steps={spec.episode_steps}"
    )
