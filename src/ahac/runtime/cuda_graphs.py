"""Work done step by step, or on a CUDA device recorded once and replayed: no Python, no waiting between its kernels.

What is recorded must always be the same work on the same memory: sizes are fixed, nothing looks at a number, and what
lasts from one replay to the next lies where it lay when it was recorded.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ahac.core.env import Env, GraphCapturable
from ahac.native.build import wait_for_pending_builds

__all__ = ["EagerExecutor", "EnvGraphExecutor", "Executor", "ExecutorSelector", "GraphCache", "record_event"]

Stages = Mapping[str, Callable[[Any], Any]]
"""Works by name, each of which is given what the one before returned."""
OnStageEnd = Callable[[str], None]
"""Told by name when a work is done, or queued on its device."""

MAX_GRAPHS = 32
"""Recordings that are kept, two for each length of a rollout; beyond, the one used longest ago is let go."""


def record_event() -> torch.cuda.Event:
    """The end of what has been queued so far; who waits for it leaves the processor to others meanwhile."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event


class Executor(Protocol):
    """Does works one after the other."""

    def run(self, key: Hashable, works: Stages, mark: OnStageEnd) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last; a key stands for the same works of the same sizes."""
        ...


class EagerExecutor:
    """Does them as they are."""

    def run(self, key: Hashable, works: Stages, mark: OnStageEnd) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last."""
        result = None
        for name, work in works.items():
            result = work(result)
            mark(name)
        return result


@dataclass(frozen=True)
class _CapturedStages:
    graphs: dict[str, torch.cuda.CUDAGraph]
    result: Any


class GraphCache:
    """CUDA graphs by key, in one pool of memory: the results of one are good until the next is played."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        """With the generators that the works draw from: every replay draws anew."""
        self._generators = tuple(generators)
        self._pool = torch.cuda.graph_pool_handle()
        self._device = self._generators[0].device
        self._stream: torch.cuda.Stream | None = None
        self._kept: OrderedDict[Hashable, _CapturedStages] = OrderedDict()

    def run(self, key: Hashable, works: Stages, mark: OnStageEnd) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last; recorded when the key is new."""
        with torch.cuda.device(self._device):
            return self._run(key, works, mark)

    def _run(self, key: Hashable, works: Stages, mark: OnStageEnd) -> Any:  # noqa: ANN401 - whatever the last work returns
        if key not in self._kept:
            self._kept[key] = self._capture(works)
            while len(self._kept) > MAX_GRAPHS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        recording = self._kept[key]
        for name, graph in recording.graphs.items():
            graph.replay()
            mark(name)
        return recording.result

    def _capture(self, works: Stages) -> _CapturedStages:
        graphs = {}
        result = None
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():  # nothing can be recorded on that one
            stream = self._stream = self._stream or torch.cuda.Stream()
        wait_for_pending_builds()  # no kernel is loaded while something is recorded
        with _garbage_collection_disabled():
            for name, work in works.items():
                graph = graphs[name] = torch.cuda.CUDAGraph()
                for generator in self._generators:
                    graph.register_generator_state(generator)
                with torch.cuda.graph(graph, pool=self._pool, stream=stream):
                    result = work(result)
        return _CapturedStages(graphs, result)


@contextmanager
def _garbage_collection_disabled() -> Iterator[None]:
    """No garbage is collected meanwhile: letting go of other recordings would spoil the one that is made.

    Nor before: to look through all objects of a process takes longer than to record.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class EnvGraphExecutor:
    """Where the rollouts of one environment are recorded: its state lies in the same place before and after each."""

    def __init__(self, env: GraphCapturable, generators: Sequence[torch.Generator]) -> None:
        """With the generators that the works draw from beside those of the environment."""
        self.env = env
        self.graphs = GraphCache((*generators, *env.generators))
        self._home = [x.detach().clone() for x in env.buffers]

    def run(self, key: Hashable, works: Stages, mark: OnStageEnd) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last; together they take the environment from one state to the next."""
        for fixed, now in zip(self._home, self.env.buffers, strict=True):
            if now is not fixed:  # it was reset, or loaded
                fixed.copy_(now.detach())
        self.env.set_buffers(self._home)
        framed, (first, *_, last) = dict(works), (*works, *works)
        framed[first] = lambda given, work=framed[first]: work(self._leave_home(given))
        framed[last] = lambda given, work=framed[last]: self._return_home(work(given))
        return self.graphs.run(key, framed, mark)

    def _leave_home(self, given: Any) -> Any:  # noqa: ANN401 - handed on
        self.env.set_buffers([x.clone() for x in self._home])
        return given

    def _return_home(self, result: Any) -> Any:  # noqa: ANN401 - handed on
        for fixed, now in zip(self._home, self.env.buffers, strict=True):
            fixed.copy_(now.detach())
        self.env.set_buffers(self._home)
        return result


class ExecutorSelector:
    """Who plays an algorithm's works: in a new environment `Direct`, which makes what lasts; then a `EnvGraphExecutor`."""

    def __init__(self, generator: torch.Generator, graphs: bool) -> None:
        """With the generator that the works draw from; nothing is recorded without `graphs`, or on the CPU."""
        self._generator = generator
        self._graphs = graphs and generator.device.type == "cuda"
        self._executor: EnvGraphExecutor | None = None

    def executor(self, env: Env) -> Executor:
        """For the coming works."""
        if not self._graphs or not isinstance(env, GraphCapturable):
            return EagerExecutor()
        if self._executor is None or self._executor.env is not env:
            self._executor = EnvGraphExecutor(env, [self._generator])
            return EagerExecutor()
        return self._executor

    def invalidate(self) -> None:
        """What was recorded worked on other tensors than there are now."""
        self._executor = None
