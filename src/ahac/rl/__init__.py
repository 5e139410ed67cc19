"""Functions and dataclasses that algorithms share: rollouts, returns, losses, schedules, gradient diagnostics."""
