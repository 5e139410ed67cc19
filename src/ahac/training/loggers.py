"""Callbacks that log a run to Weights & Biases and MLflow, which are optional packages.

Metrics have the tags of TensorBoard (`sinks.TAGS`) and are logged against environment steps. A file in the run folder
keeps the logger's own name of the run, so that a resumed run continues there.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ahac.core.config import flatten
from ahac.core.errors import InputError
from ahac.core.files import read_json, write_json
from ahac.training.callbacks import Callback
from ahac.training.sinks import tagged

if TYPE_CHECKING:
    from ahac.training.evaluate import Evaluation
    from ahac.training.run import Run

__all__ = ["MLflowLogger", "WandbLogger"]


class _Logger(Callback):
    """Notes whether training failed."""

    failed = False

    def on_training_start(self, run: Run) -> None:
        """Forget an earlier training."""
        self.failed = False

    def on_error(self, run: Run, error: BaseException) -> None:
        """Mark the run as failed."""
        self.failed = True


class WandbLogger(_Logger):
    """Logs settings, metrics and the final evaluation to Weights & Biases."""

    def __init__(self, project: str, **init: Any) -> None:  # noqa: ANN401 - arguments of another package
        """Log to a project.

        Args:
            project: Name of the project.
            init: Other arguments of `wandb.init`: entity, group, tags, mode, ...
        """
        self.wandb: Any = _import("wandb")
        self.init = {"project": project, **init}
        self.session: Any = None

    def on_training_start(self, run: Run) -> None:
        """Start the run in Weights & Biases, or continue it."""
        super().on_training_start(run)
        path = run.folder / "wandb.json"
        if not path.is_file():
            write_json(path, {"id": uuid.uuid4().hex})
        about = {"name": run.folder.name, "id": read_json(path)["id"], "resume": "allow", "config": run.settings}
        # A resumed run may have a new length.
        self.session = self.wandb.init(**{**about, "allow_val_change": True, **self.init})

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Log the metrics. Steps that were logged before a crash are ignored by Weights & Biases."""
        self.session.log(tagged(metrics), step=int(metrics["env_steps"]))

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """Add the evaluation to the run's summary."""
        self.session.summary.update(_evaluation_metrics(evaluation))

    def on_training_end(self, run: Run) -> None:
        """Upload what is left."""
        self.session.finish(exit_code=int(self.failed))


class MLflowLogger(_Logger):
    """Logs settings, metrics and the final evaluation to MLflow."""

    def __init__(self, experiment: str, tracking_uri: str | None = None, **start: Any) -> None:  # noqa: ANN401 - arguments of another package
        """Log to an experiment.

        Args:
            experiment: Name of the experiment.
            tracking_uri: Address of the tracking server or folder; by default MLflow's own.
            start: Other arguments of `mlflow.start_run`: tags, description, ...
        """
        self.mlflow: Any = _import("mlflow")
        self.experiment = experiment
        self.tracking_uri = tracking_uri
        self.start = start

    def on_training_start(self, run: Run) -> None:
        """Start the run in MLflow, or continue it."""
        super().on_training_start(run)
        if self.tracking_uri is not None:
            self.mlflow.set_tracking_uri(self.tracking_uri)
        self.mlflow.set_experiment(self.experiment)
        path = run.folder / "mlflow.json"
        if path.is_file():
            self.mlflow.start_run(run_id=read_json(path)["run_id"])
            return
        started = self.mlflow.start_run(**{"run_name": run.folder.name, **self.start})
        write_json(path, {"run_id": started.info.run_id})
        self.mlflow.log_params(flatten(run.settings))  # once, since MLflow refuses other values later

    def on_iteration(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Log the metrics."""
        self.mlflow.log_metrics(tagged(metrics), step=int(metrics["env_steps"]))

    def on_evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """Log the evaluation as metrics."""
        self.mlflow.log_metrics(_evaluation_metrics(evaluation))

    def on_training_end(self, run: Run) -> None:
        """End the run."""
        self.mlflow.end_run(status="FAILED" if self.failed else "FINISHED")


def _import(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ImportError as error:
        if error.name != name:
            raise
        raise InputError(f"{name} is not installed: pip install {name}") from error


def _evaluation_metrics(evaluation: Evaluation) -> dict[str, float]:
    low, high = evaluation.interval()
    return {
        "evaluation/mean": evaluation.mean,
        "evaluation/iqm": evaluation.iqm,
        "evaluation/iqm_low": low,
        "evaluation/iqm_high": high,
        "evaluation/length": float(evaluation.lengths.mean()),
    }
