"""Log a run to Weights & Biases: python examples/log_to_wandb.py [iterations]. Needs pip install wandb.

`mode="offline"` needs no account; `wandb sync` uploads the run later.
"""

import sys

import ahac
from ahac.training.loggers import WandbLogger

if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    logger = WandbLogger("ahac-examples", mode="offline", tags=["cartpole"])
    run = ahac.train("cartpole", "shac", num_envs=64, iterations=iterations, device="cpu", callbacks=[logger])
    sys.stdout.write(f"return {run.evaluate().mean:.0f} in {run.folder}\n")
