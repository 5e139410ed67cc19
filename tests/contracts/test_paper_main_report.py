"""The program that writes the report of paper-main takes the settings with which the runs were trained."""

import runpy
from pathlib import Path
from typing import Any

from ahac.algos.config import ShortHorizonConfig

PROGRAM = Path(__file__).parents[2] / "docs" / "studies" / "paper_main_report.py"


def steps_per_iteration(config: Any) -> float:  # noqa: ANN401 - settings of any algorithm
    """Return the number of steps of each world in an iteration, with a fixed horizon."""
    return config.horizon.initial if isinstance(config, ShortHorizonConfig) else config.steps_per_env


def test_settings_agree_with_the_environment_steps_of_the_tables() -> None:
    rows, configs = runpy.run_path(str(PROGRAM))["read_runs"]()
    assert len(rows) == len(configs) == 180
    for row in rows:
        config = configs[row["run"]]
        worlds, rest = divmod(int(row["env_steps"]), int(row["iterations"]) * config.num_envs)
        if config.algo == "ahac":
            assert config.algorithm.horizon.min <= worlds <= config.algorithm.horizon.max
        else:
            assert (worlds, rest) == (steps_per_iteration(config.algorithm), 0), row["run"]
