"""Statistics of scores; depends on NumPy only."""
