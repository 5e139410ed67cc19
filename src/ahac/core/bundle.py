"""Settings of bundled contact gradients, which algorithms pass to environments."""

from __future__ import annotations

from dataclasses import dataclass

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import InputError

__all__ = ["BundleConfig"]


@dataclass(frozen=True, kw_only=True)
class BundleConfig:
    """Bundled contact gradients: steps in hard contact are the mean of several branches with different starts."""

    branches: int = 0
    """Branches per world in hard contact, an even number; 0 for plain steps."""
    load: float = 1.2
    """A world has branches where the vertical contact force exceeds this multiple of the robot's weight."""
    position_noise: float = 0.02
    """Standard deviation of the branches' joint positions [rad] or [m]; the base is not perturbed."""
    velocity_noise: float = 0.05
    """Standard deviation of the branches' joint velocities [rad/s] or [m/s]; the base is not perturbed."""

    def __post_init__(self) -> None:
        if check_int("bundle.branches", self.branches, 0) % 2:
            raise InputError(
                f"bundle.branches must be even, because noise comes in pairs of opposite sign, got {self.branches}; "
                "use for example 8, or 0 for plain steps"
            )
        for name in ("load", "position_noise", "velocity_noise"):
            check_finite(f"bundle.{name}", getattr(self, name), 0.0)
        if self.enabled and self.position_noise == self.velocity_noise == 0.0:
            raise InputError(
                "bundle.position_noise and bundle.velocity_noise are both 0, so all branches would be the same; set "
                "one of them, or bundle.branches to 0"
            )

    @property
    def enabled(self) -> bool:
        """Whether there are branches."""
        return self.branches > 0
