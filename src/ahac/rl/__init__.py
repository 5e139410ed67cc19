"""Mathematics and records that algorithms share: rollouts, returns, losses, schedules, gradient diagnostics."""
