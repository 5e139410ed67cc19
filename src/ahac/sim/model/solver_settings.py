"""Settings of MuJoCo's constraint solver, which are not read: count where a file changes them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["DEFAULT_SOLIMP", "DEFAULT_SOLREF", "count_unusual", "differs"]

DEFAULT_SOLREF = (0.02, 1.0)
DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)


def count_unusual(solrefs: Iterable[np.ndarray], solimps: Iterable[np.ndarray]) -> int:
    """Return the number of constraints whose solref or solimp is not MuJoCo's default."""
    settings = zip(solrefs, solimps, strict=True)
    return sum(differs(solref, DEFAULT_SOLREF) or differs(solimp, DEFAULT_SOLIMP) for solref, solimp in settings)


def differs(values: np.ndarray, default: float | tuple[float, ...]) -> bool:
    """Return whether a setting is not the default."""
    return not np.allclose(values, default)
