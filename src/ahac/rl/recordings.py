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

from ahac.core.env import Env, Recordable
from ahac.native.build import settle

__all__ = ["Cast", "Direct", "Player", "Recordings", "Studio", "queued"]

Works = Mapping[str, Callable[[Any], Any]]
"""Works by name, each of which is given what the one before returned."""
Mark = Callable[[str], None]
"""Told by name when a work is done, or queued on its device."""

MOST = 32
"""Recordings that are kept, two for each length of a rollout; beyond, the one used longest ago is let go."""


def queued() -> torch.cuda.Event:
    """The end of what has been queued so far; who waits for it leaves the processor to others meanwhile."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event


class Player(Protocol):
    """Does works one after the other."""

    def play(self, key: Hashable, works: Works, mark: Mark) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last; a key stands for the same works of the same sizes."""
        ...


class Direct:
    """Does them as they are."""

    def play(self, key: Hashable, works: Works, mark: Mark) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last."""
        result = None
        for name, work in works.items():
            result = work(result)
            mark(name)
        return result


@dataclass(frozen=True)
class _Recording:
    graphs: dict[str, torch.cuda.CUDAGraph]
    result: Any


class Recordings:
    """CUDA graphs by key, in one pool of memory: the results of one are good until the next is played."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        """With the generators that the works draw from: every replay draws anew."""
        self._generators, self._pool = tuple(generators), torch.cuda.graph_pool_handle()
        self._device = self._generators[0].device
        self._stream: torch.cuda.Stream | None = None
        self._kept: OrderedDict[Hashable, _Recording] = OrderedDict()

    def play(self, key: Hashable, works: Works, mark: Mark) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last; recorded when the key is new."""
        with torch.cuda.device(self._device):
            return self._play(key, works, mark)

    def _play(self, key: Hashable, works: Works, mark: Mark) -> Any:  # noqa: ANN401 - whatever the last work returns
        if key not in self._kept:
            self._kept[key] = self._record(works)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        recording = self._kept[key]
        for name, graph in recording.graphs.items():
            graph.replay()
            mark(name)
        return recording.result

    def _record(self, works: Works) -> _Recording:
        graphs, result, stream = {}, None, torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():  # nothing can be recorded on that one
            stream = self._stream = self._stream or torch.cuda.Stream()
        settle()  # no kernel is loaded while something is recorded
        with _without_collecting():
            for name, work in works.items():
                graph = graphs[name] = torch.cuda.CUDAGraph()
                for generator in self._generators:
                    graph.register_generator_state(generator)
                with torch.cuda.graph(graph, pool=self._pool, stream=stream):
                    result = work(result)
        return _Recording(graphs, result)


@contextmanager
def _without_collecting() -> Iterator[None]:
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


class Studio:
    """Where the rollouts of one environment are recorded: its state lies in the same place before and after each."""

    def __init__(self, env: Recordable, generators: Sequence[torch.Generator]) -> None:
        """With the generators that the works draw from beside those of the environment."""
        self.env, self.recordings = env, Recordings((*generators, *env.generators))
        self._home = [x.detach().clone() for x in env.memory]

    def play(self, key: Hashable, works: Works, mark: Mark) -> Any:  # noqa: ANN401 - whatever the last work returns
        """The result of the last; together they take the environment from one state to the next."""
        for fixed, now in zip(self._home, self.env.memory, strict=True):
            if now is not fixed:  # it was reset, or loaded
                fixed.copy_(now.detach())
        self.env.adopt(self._home)
        framed, (first, *_, last) = dict(works), (*works, *works)
        framed[first] = lambda given, work=framed[first]: work(self._leave_home(given))
        framed[last] = lambda given, work=framed[last]: self._return_home(work(given))
        return self.recordings.play(key, framed, mark)

    def _leave_home(self, given: Any) -> Any:  # noqa: ANN401 - handed on
        self.env.adopt([x.clone() for x in self._home])
        return given

    def _return_home(self, result: Any) -> Any:  # noqa: ANN401 - handed on
        for fixed, now in zip(self._home, self.env.memory, strict=True):
            fixed.copy_(now.detach())
        self.env.adopt(self._home)
        return result


class Cast:
    """Who plays an algorithm's works: in a new environment `Direct`, which makes what lasts; then a `Studio`."""

    def __init__(self, generator: torch.Generator, graphs: bool) -> None:
        """With the generator that the works draw from; nothing is recorded without `graphs`, or on the CPU."""
        self._generator, self._graphs = generator, graphs and generator.device.type == "cuda"
        self._studio: Studio | None = None

    def player(self, env: Env) -> Player:
        """For the coming works."""
        if not self._graphs or not isinstance(env, Recordable):
            return Direct()
        if self._studio is None or self._studio.env is not env:
            self._studio = Studio(env, [self._generator])
            return Direct()
        return self._studio

    def forget(self) -> None:
        """What was recorded worked on other tensors than there are now."""
        self._studio = None
