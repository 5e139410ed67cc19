"""The traced physics as float64 numpy functions: nothing is compiled, and leading axes are worlds."""

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ahac.sim import World, load_model
from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.program import evaluate, trace
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import CONTACT_FIELDS, Programs

__all__ = ["Numeric"]


class Numeric:
    """One model under given laws, integrated explicitly by default; its constants are numbers."""

    def __init__(self, source: str | os.PathLike[str], laws: ForceLaws | None = None, **options: Any) -> None:  # noqa: ANN401
        programs = Programs(load_model(source, **options), laws or ForceLaws(), {})
        self.model = programs.model
        self._program = cache(lambda name, *arguments: getattr(programs, name)(*arguments))

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """[..., nv, nv]."""
        matrix = evaluate(self._program("mass_matrix"), {"q": q})["matrix"]
        return matrix.reshape(*matrix.shape[:-1], self.model.nv, self.model.nv)

    def bias_force(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """[..., nv]."""
        return evaluate(self._program("bias_force"), {"q": q, "v": v})["force"]

    def acceleration(self, q: np.ndarray, v: np.ndarray, force: np.ndarray, contact: bool = False) -> np.ndarray:
        """[..., nv]."""
        return evaluate(self._program("acceleration", contact), {"q": q, "v": v, "force": force})["qacc"]

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions [..., bodies, 3] and rotations [..., bodies, 3, 3]."""
        found = evaluate(self._program("poses"), {"q": q})
        shape = (*np.shape(q)[:-1], len(self.model.bodies), 3)
        return found["position"].reshape(shape), found["rotation"].reshape(*shape, 3)

    def contacts(self, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
        """The fields of `Contacts`, [..., points] and up."""
        found = evaluate(self._program("contacts"), {"q": q, "v": v})
        shape = (*np.shape(q)[:-1], len(self.model.contact_candidates))
        return {name: found[name].reshape(*shape, *more) for name, more in CONTACT_FIELDS.items()}

    def look(self, function: Callable[[World], Sequence[Real]], **groups: np.ndarray) -> np.ndarray:
        """A function of a world with `q`, `v` and the control `u` (zero if left out): [..., len of its answer]."""
        sizes = {"q": self.model.nq, "v": self.model.nv, "u": self.model.nu}

        def answer(q: list[Real], v: list[Real], u: list[Real]) -> dict[str, Sequence[Real]]:
            return {"answer": function(World(self.model, normalize(self.model, q), v, u))}

        return evaluate(trace(answer, sizes), {"u": np.zeros(self.model.nu), **groups})["answer"]

    def step(self, q: np.ndarray, v: np.ndarray, h: float, **groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities after one substep, under a control `u` and a generalised force `f`."""
        still = {"u": np.zeros(self.model.nu), "f": np.zeros(self.model.nv)}
        found = evaluate(self._program("step").substep, {"q": q, "v": v, "h": np.array([h]), **still, **groups})
        return found["q"], found["v"]
