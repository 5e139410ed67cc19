"""Experiments over many runs: sweeps, comparisons and learning curves."""
