"""Statistics of scores: numpy only."""
