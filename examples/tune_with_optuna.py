"""Tune a learning rate with Optuna: python examples/tune_with_optuna.py [iterations]. Needs pip install optuna.

Runs that are worse than most others at the same iteration are stopped early.
"""

import sys
from collections.abc import Mapping

import optuna  # pyright: ignore[reportMissingImports]

import ahac
from ahac.training.run import Run


def objective(trial: optuna.Trial) -> float:
    """Train with the trial's settings, and return the evaluation."""
    learning_rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)

    def prune(run: Run, metrics: Mapping[str, float]) -> None:
        if "episode_return" in metrics:  # from the first episode that ended
            trial.report(metrics["episode_return"], int(metrics["iteration"]))
            if trial.should_prune():
                raise optuna.TrialPruned

    settings = {"num_envs": 64, "iterations": iterations, "device": "cpu", "name": f"trial-{trial.number}"}
    tuned = {"algorithm.actor.learning_rate": learning_rate}
    run = ahac.train("cartpole", "shac", display=False, callbacks=[prune], **settings, **tuned)
    return run.evaluate(32).mean


if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    pruner = optuna.pruners.MedianPruner(n_warmup_steps=iterations // 4)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    study.optimize(objective, n_trials=20)
    sys.stdout.write(f"return {study.best_value:.0f} with {study.best_params}\n")
