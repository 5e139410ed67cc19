"""Mathematics and parts that algorithms share: rollouts, returns, losses, critic fits, horizons, schedules."""
