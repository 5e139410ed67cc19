"""Stages and executors, without a GPU: what is run, captured, replayed and dropped."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from ahac.runtime import cuda_graphs
from ahac.runtime.cuda_graphs import GraphExecutor, make_executor
from ahac.runtime.stages import EagerExecutor, stage
from ahac.runtime.transfer import fetch


class FakeGraph:
    """Stands for a CUDA graph; counts replays."""

    def __init__(self) -> None:
        self.replays = 0

    def register_generator_state(self, generator: torch.Generator) -> None:
        pass

    def replay(self) -> None:
        self.replays += 1


@dataclass(frozen=True, eq=False)
class Result:
    """Result of the first stage."""

    x: Tensor


class Algorithm:
    """Two stages, of which the second takes the result of the first; notes how often Python runs each."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    @stage
    def first(self, length: int) -> Result:
        self.calls.append(("first", length))
        return Result(torch.ones(int(length)))

    @stage
    def second(self, result: Result) -> Tensor:
        self.calls.append(("second", len(result.x)))
        return result.x.sum()

    @stage
    def on_tensor(self, x: Tensor) -> Tensor:
        self.calls.append(("on_tensor", len(x)))
        return 2.0 * x

    @stage
    def outer(self, length: int) -> Result:
        return self.first(length)

    def iterate(self, length: int) -> float:
        return float(self.second(self.first(length)))


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> GraphExecutor:
    capturing = [False]

    @contextmanager
    def graph(_: FakeGraph, **settings: Any) -> Generator[None]:  # noqa: ANN401
        capturing[0] = True
        try:
            yield
        finally:
            capturing[0] = False

    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name, fake in {
        "CUDAGraph": FakeGraph,
        "graph": graph,
        "Stream": lambda device: stream,
        "current_stream": lambda device: stream,
        "stream": lambda chosen: nullcontext(),
        "device": lambda chosen: nullcontext(),
        "graph_pool_handle": lambda: None,
        "is_current_stream_capturing": lambda: capturing[0],
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    env = SimpleNamespace()  # cannot be captured
    return GraphExecutor(env, [torch.Generator()])  # pyright: ignore[reportArgumentType]


def test_without_an_executor_a_stage_is_a_function() -> None:
    algorithm = Algorithm()
    assert algorithm.iterate(3) == EagerExecutor().call(algorithm.iterate, 3) == 3.0
    assert algorithm.calls == 2 * [("first", 3), ("second", 3)]


def test_stages_run_eagerly_once_then_are_captured_once_per_argument(executor: GraphExecutor) -> None:
    algorithm = Algorithm()
    lengths = [3, 3, 3, 4, 4, 3]
    assert [executor.call(algorithm.iterate, length) for length in lengths] == lengths
    eager = [("first", 3), ("second", 3)]
    assert algorithm.calls == [*eager, *eager, ("first", 4), ("second", 4)]
    replays = [captured.graph.replays for captured in executor._graphs.values()]  # pyright: ignore[reportAttributeAccessIssue]
    assert sorted(replays) == [2, 2, 3, 3]


def test_arguments_that_may_change_are_never_captured(executor: GraphExecutor) -> None:
    algorithm = Algorithm()
    for _ in range(3):
        executor.call(algorithm.on_tensor, torch.ones(2))
    assert len(algorithm.calls) == 3
    assert not executor._graphs


def test_an_aborted_call_warms_nothing_up(executor: GraphExecutor) -> None:
    algorithm = Algorithm()

    def aborted() -> None:
        algorithm.first(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.call(aborted)
    executor.call(algorithm.iterate, 3)
    assert not executor._graphs
    executor.call(algorithm.iterate, 3)
    assert len(executor._graphs) == 2


def test_each_algorithm_is_warmed_up(executor: GraphExecutor) -> None:
    one, other = Algorithm(), Algorithm()
    for algorithm in (one, one, other):
        executor.call(algorithm.iterate, 3)
    assert len(executor._graphs) == 2
    assert len(other.calls) == 2


def test_numbers_of_different_types_are_different_arguments(executor: GraphExecutor) -> None:
    algorithm = Algorithm()
    for length in (1, 1, True):
        executor.call(algorithm.first, length)
    assert len(executor._graphs) == 2


def test_a_stage_inside_a_stage_becomes_part_of_it(executor: GraphExecutor) -> None:
    algorithm = Algorithm()
    for _ in range(3):
        executor.call(algorithm.outer, 3)
    assert len(executor._graphs) == 1


def test_the_least_recently_used_graphs_are_dropped(executor: GraphExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 4)
    algorithm = Algorithm()
    for length in (3, 3, 4, 5, 5):
        executor.call(algorithm.iterate, length)
    assert len(executor._graphs) == 4
    assert len(executor._results) <= 6
    algorithm.calls.clear()
    assert executor.call(algorithm.iterate, 3) == 3.0
    assert algorithm.calls == [("first", 3), ("second", 3)], "captured again"


def test_no_graphs_on_the_cpu() -> None:
    env = SimpleNamespace(spec=SimpleNamespace(device=torch.device("cpu")))
    assert isinstance(make_executor(env, []), EagerExecutor)  # pyright: ignore[reportArgumentType]


def test_fetch_keeps_names_shapes_and_values() -> None:
    tensors = {"flag": torch.tensor(True), "vector": torch.arange(3), "matrix": torch.eye(2)}
    host = fetch(tensors, lambda packed: 2.0 * packed)
    assert {name: x.tolist() for name, x in host.items()} == {
        "flag": 2.0,
        "vector": [0.0, 2.0, 4.0],
        "matrix": [[2.0, 0.0], [0.0, 2.0]],
    }
