"""The training loop and its services: runs, checkpoints, metrics, evaluation."""
