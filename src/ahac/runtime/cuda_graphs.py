"""CUDA graphs: stages captured once and replayed, with no Python and no host synchronization between their kernels.

A captured stage repeats the same kernels on the same memory. Its arguments must therefore be the same objects every
time: plain values, the environment, objects that own their tensors, or results of other captured stages.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from ahac.core.env import Env, GraphCapturable
from ahac.native.build import wait_for_pending_builds
from ahac.runtime.stages import EagerExecutor, Executor, active

__all__ = ["GraphExecutor", "make_executor"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_GRAPHS = 48
"""Captured stages to keep: three for each rollout length. Beyond that, the least recently used one is dropped."""
PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    result: Any
    arguments: tuple[object, ...]
    """Kept alive, because the graph uses their memory and the cache knows them by identity."""


class GraphExecutor:
    """Runs each stage eagerly in one call, which compiles kernels and allocates lasting buffers, then from CUDA graphs.

    All graphs share one memory pool: results of a stage are valid until the next call of `call`.
    """

    def __init__(self, env: Env, generators: Iterable[torch.Generator]) -> None:
        """Capture stages of an algorithm.

        Args:
            env: The environment that stages may step. Stages that take one that is not `GraphCapturable`, or another
                one, run eagerly.
            generators: Random generators that the stages draw from, in addition to those of the environment.
        """
        self._env = env if isinstance(env, GraphCapturable) else None
        self._generators = (*generators, *(self._env.generators if self._env is not None else ()))
        self._device = self._generators[0].device
        self._stream = torch.cuda.Stream(self._device)
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: OrderedDict[Hashable, _Captured] = OrderedDict()
        self._results: dict[int, object] = {}
        """Results of captured stages and what they contain, by identity."""
        self._warm: dict[Hashable, object] = {}
        """Stages that have run eagerly in a completed call, with the object they belong to."""
        self._called: dict[Hashable, object] = {}
        """Stages that have run eagerly in the current call."""
        self._static_buffers: list[Tensor] = []
        """Where the environment's buffers are before and after each captured stage."""

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function on a side stream, since the default stream cannot be captured."""
        outside = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outside)
        self._called = {}
        try:
            with torch.cuda.device(self._device), torch.cuda.stream(self._stream), active(self):
                result = function(*args, **kwargs)
        finally:
            outside.wait_stream(self._stream)
        self._warm |= self._called
        return result

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay a stage, after capturing it if its arguments are new; run it eagerly if it cannot be captured."""
        if torch.cuda.is_current_stream_capturing():  # a stage inside a stage becomes part of its graph
            return function(*args, **kwargs)
        arguments = (*args, *kwargs.values())
        stage = (function.__qualname__, id(args[0]) if args else None)
        key = (stage, *kwargs, *((type(x), x) if isinstance(x, PLAIN) else id(x) for x in arguments))
        captured = self._graphs.get(key)
        if captured is None and (stage not in self._warm or not self._are_static(arguments)):
            self._called[stage] = args[0] if args else None
            return function(*args, **kwargs)
        env = self._env if any(x is self._env for x in arguments) else None
        if env is not None:
            self._load_env_buffers(env)
        if captured is None:
            captured = self._graphs[key] = self._capture(function, args, kwargs, env)
            self._results |= {id(x): x for x in _flatten(captured.result)}
            while len(self._graphs) > MAX_GRAPHS:
                _, dropped = self._graphs.popitem(last=False)
                for x in _flatten(dropped.result):
                    self._results.pop(id(x), None)
        self._graphs.move_to_end(key)
        captured.graph.replay()
        return captured.result

    def _are_static(self, arguments: tuple[object, ...]) -> bool:
        """Whether arguments have the same identity and memory in every call.

        The first one is the object that the stage is a method of, which owns its tensors.
        """
        owner, *others = arguments or (None,)
        owns_tensors = not isinstance(owner, Tensor) and not is_dataclass(owner)
        return (owns_tensors or id(owner) in self._results) and all(
            isinstance(x, PLAIN) or (self._env is not None and x is self._env) or id(x) in self._results for x in others
        )

    def _capture(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        env: GraphCapturable | None,
    ) -> _Captured:
        wait_for_pending_builds()  # no kernel may be loaded during a capture
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)  # pyright: ignore[reportUnknownMemberType]
        stream = torch.cuda.current_stream(self._device)
        with _garbage_collection_disabled(), torch.cuda.graph(graph, pool=self._pool, stream=stream):
            if env is not None:
                env.set_buffers([x.clone() for x in self._static_buffers])
            result = function(*args, **kwargs)
            if env is not None:
                self._store_env_buffers(env)
        return _Captured(graph, result, (*args, *kwargs.values()))

    def _load_env_buffers(self, env: GraphCapturable) -> None:
        """Put the environment's state where captured stages expect it; a reset or a load may have replaced it."""
        buffers = env.buffers
        if not self._static_buffers:
            self._static_buffers = [x.detach().clone() for x in buffers]
        for static, current in zip(self._static_buffers, buffers, strict=True):
            if current is not static:
                static.copy_(current.detach())
        env.set_buffers(self._static_buffers)

    def _store_env_buffers(self, env: GraphCapturable) -> None:
        for static, current in zip(self._static_buffers, env.buffers, strict=True):
            static.copy_(current.detach())
        env.set_buffers(self._static_buffers)


def make_executor(env: Env, generators: Iterable[torch.Generator], graphs: bool = True) -> Executor:
    """Return an executor for an algorithm on an environment: CUDA graphs if possible and allowed, otherwise eager."""
    if graphs and env.spec.device.type == "cuda":
        return GraphExecutor(env, generators)
    return EagerExecutor()


def _flatten(result: object) -> Iterable[object]:
    """Yield a stage's result and what it directly contains."""
    yield result
    if isinstance(result, tuple):
        yield from result
    elif is_dataclass(result):
        yield from (getattr(result, field.name) for field in fields(result))


@contextmanager
def _garbage_collection_disabled() -> Generator[None]:
    """Disable garbage collection: releasing another graph would invalidate the one being captured.

    Do not collect beforehand either: that scans all objects of the process and takes longer than the capture.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
