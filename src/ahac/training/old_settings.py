"""Settings of earlier versions, so that their config.json files and checkpoints can be loaded.

Schema 2 renamed `learner` to `algorithm` and most of the settings in it. Schema 3 added `integrator`: earlier runs were
explicit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["upgrade_settings"]

RENAMED_IN = 2
"""First schema with the current names."""
INTEGRATOR_SINCE = 3
"""First schema with the setting `integrator`."""

NETWORK = {"rate": "learning_rate", "max_norm": "max_grad_norm"}
SHORT_HORIZON: dict[str, dict[str, str]] = {
    "": {"lam": "td_lambda"},
    "actor": {**NETWORK, "log_std": "init_log_std", "normalize": "normalize_obs"},
    "critic": {**NETWORK, "members": "num_critics", "passes": "epochs", "plateau": "plateau_tolerance"},
    "horizon": {
        "first": "initial",
        "least": "min",
        "most": "max",
        "rate": "learning_rate",
        "growth": "growth_limit",
    },
    "stiffness": {"least_steps": "min_steps"},
}
PPO = {
    **NETWORK,
    "log_std": "init_log_std",
    "steps": "steps_per_env",
    "passes": "epochs",
    "divergence": "target_kl",
    "clip": "clip_range",
    "value_clip": "clip_range_vf",
    "critic_weight": "value_coef",
    "entropy_weight": "entropy_coef",
    "bounds_weight": "action_bound_coef",
    "normalize": "normalize_obs",
    "lam": "gae_lambda",
}
SAC = {
    **NETWORK,
    "log_std": "log_std_bounds",
    "temperature": "init_alpha",
    "temperature_rate": "alpha_learning_rate",
    "capacity": "buffer_size",
    "batch": "batch_size",
    "steps": "steps_per_env",
    "seed_steps": "learning_starts",
    "normalize": "normalize_obs",
    "model_rate": "model_learning_rate",
    "head_rate": "head_learning_rate",
}
OLD_SIGNALS = {"contact_normalised": "contact_normalized"}
"""Old values of `stiffness.signal`."""
BASELINES: dict[str, dict[str, dict[str, str]]] = {"ppo": {"": PPO}, "sac": {"": SAC}, "svg": {"": SAC}}


def upgrade_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings read from a file under their current names, and with what was fixed before it was a setting."""
    schema = content.get("schema", 0)
    if isinstance(schema, int) and schema < INTEGRATOR_SINCE:
        content = {"integrator": "explicit", **content}
    if not isinstance(schema, int) or schema >= RENAMED_IN or not isinstance(content.get("learner"), Mapping):
        return dict(content)
    names = BASELINES.get(str(content.get("algo")), SHORT_HORIZON)
    algorithm = _renamed(content["learner"], names.get("", {}))
    for section, value in algorithm.items():
        if isinstance(value, Mapping):
            algorithm[section] = _renamed(cast("Mapping[str, Any]", value), names.get(section, {}))
    if isinstance(algorithm.get("stiffness"), dict):
        stiffness: dict[str, Any] = algorithm["stiffness"]
        if isinstance(signal := stiffness.get("signal"), str):
            stiffness["signal"] = OLD_SIGNALS.get(signal, signal)
    others = {name: value for name, value in content.items() if name != "learner"}
    return {**others, "algorithm": algorithm}


def _renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in settings.items()}
