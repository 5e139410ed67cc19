"""Training loop, run folders, checkpoints, metrics and evaluation."""
