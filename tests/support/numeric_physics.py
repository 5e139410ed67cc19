"""The traced physics as float64 numpy functions: nothing is compiled, and leading axes are worlds."""

import os
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ahac.sim import World, load_model
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS
from ahac.sim.compiler.program import Program, evaluate, trace
from ahac.sim.physics import activation, dynamics
from ahac.sim.physics.integrate import normalize
from ahac.sim.physics.substep import ForceLaws, total_forces
from ahac.sim.programs import CONTACT_FIELDS, Programs

__all__ = ["Groups", "Numeric", "as_function", "stack"]

Groups = dict[str, np.ndarray]
"""Numbers by the name of their group: [size] of one world, or [batch, size]."""


class Numeric:
    """One model under given laws, integrated explicitly by default; its constants are numbers."""

    def __init__(self, source: str | os.PathLike[str], laws: ForceLaws | None = None, **options: Any) -> None:  # noqa: ANN401
        programs = Programs(load_model(source, **options), laws or ForceLaws(), {})
        self.model = programs.model
        self._implicit = programs.laws.implicit
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

    def actuated(
        self, q: np.ndarray, v: np.ndarray, control: np.ndarray, act: np.ndarray, h: float = 0.0
    ) -> np.ndarray:
        """[..., nv]: v̇ with actuators, in a substep of `h` seconds."""
        model = self.model

        def answer(q: list[Real], v: list[Real], u: list[Real], act: list[Real]) -> dict[str, Sequence[Real]]:
            world = World(model, normalize(model, q), v, u, act=act)
            laws = ForceLaws(contact_enabled=False)
            forces = total_forces(world, [0.0] * model.nv, laws, h)
            return {"qacc": dynamics.acceleration(model, world.motion, forces)}

        sizes = {"q": model.nq, "v": model.nv, "u": model.nu, "act": model.na}
        return evaluate(trace(answer, sizes), {"q": q, "v": v, "u": control, "act": act})["qacc"]

    def activations(self, control: np.ndarray, act: np.ndarray, h: float) -> np.ndarray:
        """[..., na]: activations after a substep of `h` seconds."""
        model = self.model
        sizes = {"u": model.nu, "act": model.na}
        program = trace(lambda u, act: {"act": activation.advance(model, u, act, h, self._implicit)}, sizes)
        return evaluate(program, {"u": control, "act": act})["act"]

    def step(self, q: np.ndarray, v: np.ndarray, h: float, **groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities after one substep, under a control `u` and a generalised force `f`."""
        still = {"u": np.zeros(self.model.nu), "f": np.zeros(self.model.nv)}
        still |= {"act": np.zeros(self.model.na)} if self.model.na else {}
        found = self._substep({"q": q, "v": v, "h": np.array([h]), **still, **groups})
        return found["q"], found["v"]

    def path(
        self, q: ArrayLike, v: ArrayLike, h: float, steps: int, **groups: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities [steps + 1, ...], from the start on."""
        states = [(np.asarray(q, dtype=float), np.asarray(v, dtype=float))]
        for _ in range(steps):
            states.append(self.step(*states[-1], h, **groups))
        return np.stack([q for q, _ in states]), np.stack([v for _, v in states])

    @cached_property
    def _substep(self) -> Callable[[Groups], Groups]:
        return as_function(self._program("step").substep)


def as_function(program: Program) -> Callable[[Groups], Groups]:
    """`evaluate` for a program that is called often: the same operations, written out as one Python function."""
    graph, lines = program.graph, ["def run(x):"]
    for index in program.live():
        operation, *arguments = graph.nodes[index]
        if (place := program.source(index)) is not None:
            lines.append(f" t{index} = x[{place[0]!r}][..., {place[1]}]")
        elif operation == "pick":
            lines.append(f" t{index} = t{arguments[0]}[{int(graph.constants[~arguments[1]])}]")
        else:
            terms = [f"t{a}" if a >= 0 else repr(graph.constants[~a]) for a in arguments]
            if index in graph.calls:
                operation, terms = f"loop{index}", [f"[{', '.join(terms[1:])}]"]
            lines.append(f" t{index} = {operation}({', '.join(terms)})")
    for name, group in program.outputs.items():
        terms = (f"t{o.index}" if isinstance(o, Scalar) else repr(float(o)) for o in group)
        lines.append(f" {name} = stack(x, [{', '.join(terms)}])")
    lines.append(f" return dict({', '.join(f'{name}={name}' for name in program.outputs)})")
    names = {"stack": stack, **{name: operation.value for name, operation in OPERATIONS.items()}}
    names |= {f"loop{index}": call.values for index, call in graph.calls.items()}
    exec("\n".join(lines), names)
    return names["run"]


def stack(x: Groups, numbers: list[np.ndarray]) -> np.ndarray:
    """[batch, size] of numbers, some of which may not depend on the batch."""
    batch = np.broadcast_shapes(*(value.shape[:-1] for value in x.values()))
    return np.stack([np.broadcast_to(n, batch) for n in numbers], axis=-1) if numbers else np.zeros((*batch, 0))
