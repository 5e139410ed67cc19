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

MAX_GRAPHS = 96
"""Captured stages to keep: three for each rollout length. Beyond that, the least recently used one is dropped."""
PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    result: Any
    arguments: tuple[object, ...]
    """Kept alive, because the graph uses their memory and the cache knows them by identity."""


class GraphExecutor:
    """Runs each stage eagerly once, which compiles kernels and allocates lasting buffers, then from CUDA graphs.

    All graphs share one memory pool: results of a stage are valid until the next call of `call`.
    """

    def __init__(self, env: GraphCapturable, generators: Iterable[torch.Generator]) -> None:
        """Capture stages on one environment.

        Args:
            env: The environment. Stages that take another one run eagerly.
            generators: Random generators that the stages draw from, in addition to those of the environment.
        """
        self._env = env
        self._generators = (*generators, *env.generators)
        self._device = self._generators[0].device
        self._stream = torch.cuda.Stream(self._device)
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: OrderedDict[Hashable, _Captured] = OrderedDict()
        self._warm: set[str] = set()
        self._static_buffers: list[Tensor] = []
        """Where the environment's buffers are before and after each captured stage."""

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function on a side stream, since the default stream cannot be captured."""
        outside = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outside)
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream), active(self):
            result = function(*args, **kwargs)
        outside.wait_stream(self._stream)
        return result

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay a stage, after capturing it if its arguments are new; run it eagerly if it cannot be captured."""
        arguments = (*args, *kwargs.values())
        name = function.__qualname__
        warm = name in self._warm
        self._warm.add(name)
        if not warm or not all(map(self._is_static, arguments)):
            return function(*args, **kwargs)
        steps_env = any(x is self._env for x in arguments)
        if steps_env:
            self._load_env_buffers()
        key = (name, *kwargs, *(x if isinstance(x, PLAIN) else id(x) for x in arguments))
        if key not in self._graphs:
            self._graphs[key] = self._capture(function, args, kwargs, steps_env)
            while len(self._graphs) > MAX_GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        captured = self._graphs[key]
        captured.graph.replay()
        return captured.result

    def _is_static(self, argument: object) -> bool:
        """Whether an argument has the same identity and memory in every call."""
        if isinstance(argument, PLAIN) or argument is self._env:
            return True
        if isinstance(argument, GraphCapturable):
            return False
        own = not isinstance(argument, Tensor) and not is_dataclass(argument)  # an algorithm, or a part of one
        return own or any(argument is x for captured in self._graphs.values() for x in _flatten(captured.result))

    def _capture(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], steps_env: bool
    ) -> _Captured:
        wait_for_pending_builds()  # no kernel may be loaded during a capture
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)  # pyright: ignore[reportUnknownMemberType]
        stream = torch.cuda.current_stream(self._device)
        with _garbage_collection_disabled(), torch.cuda.graph(graph, pool=self._pool, stream=stream):
            if steps_env:
                self._env.set_buffers([x.clone() for x in self._static_buffers])
            result = function(*args, **kwargs)
            if steps_env:
                self._store_env_buffers()
        return _Captured(graph, result, (*args, *kwargs.values()))

    def _load_env_buffers(self) -> None:
        """Put the environment's state where captured stages expect it; a reset or a load may have replaced it."""
        buffers = self._env.buffers
        if not self._static_buffers:
            self._static_buffers = [x.detach().clone() for x in buffers]
        for static, current in zip(self._static_buffers, buffers, strict=True):
            if current is not static:
                static.copy_(current.detach())
        self._env.set_buffers(self._static_buffers)

    def _store_env_buffers(self) -> None:
        for static, current in zip(self._static_buffers, self._env.buffers, strict=True):
            static.copy_(current.detach())
        self._env.set_buffers(self._static_buffers)


def make_executor(env: Env, generators: Iterable[torch.Generator], graphs: bool = True) -> Executor:
    """Return an executor for an algorithm on an environment: CUDA graphs if possible and allowed, otherwise eager."""
    if graphs and env.spec.device.type == "cuda" and isinstance(env, GraphCapturable):
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
