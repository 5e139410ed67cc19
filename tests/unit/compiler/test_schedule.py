"""Scheduled programs: threads, emulated side by side, compute the same values as the whole program."""

import numpy as np
import pytest

from ahac.sim import load_model
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.loops import RowFunction, sum_over_rows
from ahac.sim.compiler.operations import cos, sin
from ahac.sim.compiler.program import Program, adjoint, evaluate, node_value, trace
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
    """Two long chains of operations that exchange values at every step."""

    def function(x: list[Scalar]) -> dict[str, list[Real]]:
        a: Real = x[0]
        b: Real = x[1]
        for _ in range(30):
            a, b = sin(a) + 0.3 * b, cos(b) - 0.2 * a
        return {"y": [a, b]}

    return trace(function, {"x": 2})


def loops() -> Program:
    """Loops over rows that depend on each other's results, divided into calls of one row."""
    function = RowFunction(lambda a, row: [sin(a[0] * row[0]) * a[1], cos(a[1] + row[0]) * a[0]], 2, 1)

    def chain(x: list[Scalar]) -> dict[str, list[Real]]:
        pair: list[Real] = list(x)
        for k in range(6):
            sums = sum_over_rows(function, pair, [(0.1 * i + k,) for i in range(8)], chunk=1)
            pair = [sums[0] * 0.2 + x[1], sums[1] * 0.3]
        return {"y": pair}

    return adjoint(trace(chain, {"x": 2}), ["x"])


PROGRAMS = {
    "small": small,
    "chains": chains,
    "loops": loops,
    "hopper": lambda: substep("hopper", derivative=False),
    "ant, adjoint": lambda: substep("ant", derivative=True),
}


def run_by_threads(program: Program, plan: ThreadSchedule, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Emulate the threads stage by stage; values written in a stage become visible to others in the next one."""
    inputs = {i: values[source[0]][..., source[1]] for i in program.live() if (source := program.source(i)) is not None}
    computed = [dict(inputs) for _ in plan.nodes]
    memory: dict[int, np.ndarray] = {}
    for stage in range(plan.stages):
        for thread, numbers in enumerate(computed):
            numbers |= {node: memory[plan.slots[node]] for node in plan.imports[thread][stage]}
        written: dict[int, np.ndarray] = {}
        for thread, numbers in enumerate(computed):
            for node in plan.nodes[thread][stage]:
                numbers[node] = node_value(program.graph, node, numbers)
                if node in plan.slots:
                    assert node not in program.graph.calls, "only the results of a call can be passed on"
                    assert plan.slots[node] not in written, "two values in one slot"
                    written[plan.slots[node]] = numbers[node]
        # A thread may write before another has read: a slot that is read in a stage must not be overwritten in it.
        read = {plan.slots[node] for thread in plan.imports for node in thread[stage]}
        assert not read & written.keys()
        memory |= written
    outputs: dict[str, np.ndarray] = {}
    for name, group in program.outputs.items():
        results = [computed[plan.owner_of(v)][v.index] if isinstance(v, Scalar) else np.full(3, v) for v in group]
        outputs[name] = np.stack(results, axis=-1)
    return outputs


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]()


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_threads_compute_what_the_whole_program_does(program: Program, threads: int) -> None:
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(0.1, 0.9, (3, len(group))) for name, group in program.inputs.items()}
    whole = evaluate(program, values)
    results = run_by_threads(program, schedule(program, threads), values)
    for name, expected in whole.items():
        assert np.array_equal(results[name], expected), name


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_every_node_is_computed_once(program: Program, threads: int) -> None:
    plan = schedule(program, threads)
    computed = [node for thread in plan.nodes for stage in thread for node in stage]
    assert sorted(computed) == [node for node in program.live() if program.source(node) is None]


def test_scheduling_is_deterministic() -> None:
    # Otherwise a cached kernel would never be found again.
    assert schedule(chains(), 4) == schedule(chains(), 4)


def test_a_robot_is_balanced_with_little_communication() -> None:
    program = substep("ant", derivative=True)
    plan = schedule(program, 4)

    def work(nodes: list[int]) -> float:
        return sum(INSTRUCTIONS.get(program.graph.nodes[node][0], 1.0) for node in nodes)

    total = sum(work(stage) for thread in plan.nodes for stage in thread)
    waited = sum(max(work(thread[stage]) for thread in plan.nodes) for stage in range(plan.stages))
    assert waited < 0.45 * total  # a quarter would be perfect
    assert len(plan.slots) < 0.08 * len(program.live())
    assert plan.memory < len(plan.slots)
