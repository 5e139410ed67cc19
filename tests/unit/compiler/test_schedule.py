"""Programs divided among threads: the parts, run side by side by hand, compute what the whole does."""

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import OPERATIONS, cos, sin
from ahac.sim.compiler.program import Program, adjoint, evaluate, trace
from ahac.sim.compiler.schedule import INSTRUCTIONS, ThreadSchedule, schedule
from ahac.sim.physics.contact import penalty
from ahac.sim.physics.substep import ForceLaws
from ahac.sim.programs import Programs
from support.robots import gymnasium_file


def substep(name: str, derivative: bool) -> Program:
    program = Programs(load_model(gymnasium_file(name)), ForceLaws(penalty, ()), {}).step().substep
    return adjoint(program, ["q", "v", "u", "f"]) if derivative else program


def small() -> Program:
    return trace(lambda x: {"y": [x[0] * x[1] + 2.0, x[1], 3.0]}, {"x": 2})


def chains() -> Program:
    """Long ways of single steps that cross over."""

    def function(x: list[Scalar]) -> dict[str, list[Real]]:
        a: Real = x[0]
        b: Real = x[1]
        for _ in range(30):
            a, b = sin(a) + 0.3 * b, cos(b) - 0.2 * a
        return {"y": [a, b]}

    return trace(function, {"x": 2})


PROGRAMS = {
    "small": small,
    "chains": chains,
    "hopper": lambda: substep("hopper", derivative=False),
    "ant, adjoint": lambda: substep("ant", derivative=True),
}


def run_by_parts(program: Program, division: ThreadSchedule, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Stage by stage; what a stage writes is seen by nobody else before the next, and old numbers are gone."""
    graph = program.graph
    given = {i: values[place[0]][..., place[1]] for i in program.live() if (place := program.source(i)) is not None}
    known = [dict(given) for _ in division.nodes]
    memory: dict[int, np.ndarray] = {}
    for stage in range(division.stages):
        for part, numbers in enumerate(known):
            numbers |= {node: memory[division.slots[node]] for node in division.imports[part][stage]}
        written: dict[int, np.ndarray] = {}
        for part, numbers in enumerate(known):
            for node in division.nodes[part][stage]:
                operation, *arguments = graph.nodes[node]
                terms = [numbers[a] if a >= 0 else graph.constants[~a] for a in arguments]
                numbers[node] = np.asarray(OPERATIONS[operation].value(*terms))
                if node in division.slots:
                    assert division.slots[node] not in written, "two numbers in one place"
                    written[division.slots[node]] = numbers[node]
        # A part may write before another one has read: nothing that is read in a stage may be overwritten in it.
        read = {division.slots[node] for part in division.imports for node in part[stage]}
        assert not read & written.keys()
        memory |= written
    outputs: dict[str, np.ndarray] = {}
    for name, group in program.outputs.items():
        found = [known[division.owner_of(v)][v.index] if isinstance(v, Scalar) else np.full(3, v) for v in group]
        outputs[name] = np.stack(found, axis=-1)
    return outputs


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]()


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_the_parts_compute_what_the_whole_does(program: Program, parts: int) -> None:
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(0.1, 0.9, (3, len(group))) for name, group in program.inputs.items()}
    whole = evaluate(program, values)
    found = run_by_parts(program, schedule(program, parts), values)
    for name, expected in whole.items():
        assert np.array_equal(found[name], expected), name


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_every_node_is_computed_once(program: Program, parts: int) -> None:
    division = schedule(program, parts)
    computed = [node for part in division.nodes for stage in part for node in stage]
    assert sorted(computed) == [node for node in program.live() if program.source(node) is None]


def test_the_same_program_is_divided_the_same_way() -> None:
    # Else a kernel would not be found on disk again.
    assert schedule(chains(), 4) == schedule(chains(), 4)


def test_a_robot_is_divided_fairly_and_with_little_talk() -> None:
    program = substep("ant", derivative=True)
    division = schedule(program, 4)

    def work(nodes: list[int]) -> float:
        return sum(INSTRUCTIONS.get(program.graph.nodes[node][0], 1.0) for node in nodes)

    total = sum(work(stage) for part in division.nodes for stage in part)
    waited = sum(max(work(part[stage]) for part in division.nodes) for stage in range(division.stages))
    assert waited < 0.45 * total  # a quarter would be perfect
    assert len(division.slots) < 0.08 * len(program.live())
    assert division.memory < len(division.slots)
