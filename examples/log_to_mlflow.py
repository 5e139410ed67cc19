"""Log a run to MLflow: python examples/log_to_mlflow.py [iterations]. Needs pip install mlflow.

`mlflow ui` shows it.
"""

import sys

import ahac
from ahac.training.loggers import MLflowLogger

if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    logger = MLflowLogger("ahac-examples")
    run = ahac.train("cartpole", "shac", num_envs=64, iterations=iterations, device="cpu", callbacks=[logger])
    sys.stdout.write(f"return {run.evaluate().mean:.0f} in {run.folder}\n")
