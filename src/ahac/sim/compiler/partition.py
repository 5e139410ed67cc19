"""Partition a program's graph among threads: balanced work at all times, and few values to exchange.

A multilevel graph partitioner (as METIS):

1. Coarsen: merge each node into its only user, then merge pairs of neighbors into clusters until few are left.
2. Partition the coarsest graph greedily, several times, and keep the best result.
3. Refine: undo the merges level by level, and on each level move nodes to other threads while that lowers the cost.

The cost counts cut edges and unequal work. Work is balanced separately in bands of depth, from inputs to outputs:
threads whose work is equal only in total could still spend most of their time waiting for each other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["partition"]

BANDS = 16
"""Number of depth bands, all with about the same amount of work."""
CUT_COST = 3.0
"""Cost of an edge between two threads, in operations: a store, a load, and less freedom to reorder."""
LOAD_IMBALANCE = 2.0
"""Weight of unequal work relative to cut edges."""
COARSE_NODES = 60
"""Coarsening stops at this number of clusters per thread."""
MAX_SLICE = 64.0
"""Nodes that cost more, such as loops, count in all depth bands during which they are computed."""
MAX_CLUSTER_FRACTION = 10
"""No cluster may exceed the work of one thread divided by this number."""
MAX_CHAIN_FRACTION = 500.0
"""In the first merge, no cluster may exceed the total work divided by this number."""
STALL_RATIO = 0.97
"""Coarsening stops when a level has more than this fraction of the clusters of the level before."""
INITIAL_GUESSES = 4
"""Number of initial partitions, of which the best one is kept."""
REFINEMENT_ROUNDS = 6
"""Maximum number of refinement passes over all nodes of a level."""


@dataclass
class _ClusterGraph:
    """An undirected graph of clusters; on the finest level a cluster is a node with those merged into it."""

    neighbors: list[dict[int, float]]
    """[cluster] number of edges to each neighboring cluster."""
    work: list[dict[int, float]]
    """[cluster] operations in each depth band."""

    @property
    def total_work(self) -> list[float]:
        """[cluster] operations in all bands together."""
        return [sum(work.values()) for work in self.work]


def partition(arguments: Sequence[Sequence[int]], cost: Sequence[float], threads: int) -> list[int]:
    """Assign a thread to each node.

    Args:
        arguments: Arguments of each node; they precede the node itself.
        cost: Cost of each node, in operations.
        threads: Number of threads.
    """
    rng = random.Random(0)
    cluster_of_node, finest = _merge_single_users(arguments, cost)
    levels = [finest]
    coarsenings: list[list[int]] = []
    max_work = sum(cost) / (threads * MAX_CLUSTER_FRACTION)
    while len(levels[-1].neighbors) > COARSE_NODES * threads:
        coarsening = _match_clusters(levels[-1], max_work, rng)
        if coarsening is None:
            break
        coarsenings.append(coarsening)
        levels.append(_contract(levels[-1], coarsening))
    coarsest = levels[-1]
    owner = min(
        (_refine(coarsest, _initial_partition(coarsest, threads, rng), threads, rng) for _ in range(INITIAL_GUESSES)),
        key=lambda owner: _makespan(coarsest, owner, threads),
    )
    for level, coarsening in zip(levels[-2::-1], coarsenings[::-1], strict=True):
        owner = _refine(level, [owner[cluster] for cluster in coarsening], threads, rng)
    return [owner[cluster] for cluster in cluster_of_node]


def _merge_single_users(arguments: Sequence[Sequence[int]], cost: Sequence[float]) -> tuple[list[int], _ClusterGraph]:
    """Merge each node into its only user, since cutting that edge never pays.

    Returns the cluster of each node, and the graph of clusters.
    """
    users: list[set[int]] = [set() for _ in arguments]
    for node, used in enumerate(arguments):
        for argument in used:
            users[argument].add(node)
    root = list(range(len(arguments)))
    size = list(cost)
    max_work = sum(cost) / MAX_CHAIN_FRACTION
    for node in reversed(range(len(arguments))):
        if len(users[node]) == 1:
            target = root[next(iter(users[node]))]
            if size[target] + cost[node] <= max_work:
                root[node] = target
                size[target] += cost[node]
    number = {r: i for i, r in enumerate(dict.fromkeys(root))}
    cluster = [number[r] for r in root]
    work = _work_by_band(arguments, cost)
    graph = _ClusterGraph([{} for _ in number], [{} for _ in number])
    for node, used in enumerate(arguments):
        here = cluster[node]
        for band, amount in work[node].items():
            graph.work[here][band] = graph.work[here].get(band, 0.0) + amount
        for there in {cluster[argument] for argument in used} - {here}:
            for a, b in ((here, there), (there, here)):
                graph.neighbors[a][b] = graph.neighbors[a].get(b, 0.0) + 1.0
    return cluster, graph


def _work_by_band(arguments: Sequence[Sequence[int]], cost: Sequence[float]) -> list[dict[int, float]]:
    """Return the work of each node in each depth band, by the cost of the most expensive path that leads to it.

    Expensive nodes are sliced, so that their work spreads over the bands during which they are computed.
    """
    depth: list[float] = []
    slices: list[tuple[float, int, float]] = []
    for node, (used, own) in enumerate(zip(arguments, cost, strict=True)):
        before = max((depth[argument] for argument in used), default=0.0)
        depth.append(max(own, 0.3) + before)
        count = max(1, math.ceil(own / MAX_SLICE))
        slices += [(before + max(own, 0.3) * (k + 1) / count, node, own / count) for k in range(count)]
    work: list[dict[int, float]] = [{} for _ in depth]
    done = 0.0
    total = max(sum(cost), 1.0)
    for _, node, amount in sorted(slices):
        band = min(BANDS - 1, int(done * BANDS / total))
        work[node][band] = work[node].get(band, 0.0) + amount
        done += amount
    return work


def _match_clusters(graph: _ClusterGraph, max_work: float, rng: random.Random) -> list[int] | None:
    """Pair neighboring clusters: return the coarser cluster of each, or None if hardly any can be paired."""
    work, count = graph.total_work, 0
    coarser = [-1] * len(work)
    for node in sorted(range(len(work)), key=lambda node: (len(graph.neighbors[node]), rng.random())):
        if coarser[node] >= 0:
            continue
        partners = [
            (weight / (work[other] + 1.0), other)
            for other, weight in graph.neighbors[node].items()
            if coarser[other] < 0 and work[node] + work[other] <= max_work
        ]
        coarser[node] = count
        if partners:
            coarser[max(partners)[1]] = count
        count += 1
    return coarser if count < STALL_RATIO * len(work) else None


def _contract(graph: _ClusterGraph, coarser: list[int]) -> _ClusterGraph:
    """Return the graph of coarser clusters."""
    count = max(coarser) + 1
    contracted = _ClusterGraph([{} for _ in range(count)], [{} for _ in range(count)])
    for node, here in enumerate(coarser):
        for band, work in graph.work[node].items():
            contracted.work[here][band] = contracted.work[here].get(band, 0.0) + work
        for other, weight in graph.neighbors[node].items():
            if (there := coarser[other]) != here:
                contracted.neighbors[here][there] = contracted.neighbors[here].get(there, 0.0) + weight
    return contracted


def _initial_partition(graph: _ClusterGraph, threads: int, rng: random.Random) -> list[int]:
    """Assign clusters greedily, large ones first, to threads that own their neighbors and have little work."""
    total_work, owner = graph.total_work, [-1] * len(graph.neighbors)
    load = _loads(graph, owner, threads)
    work_per_band = max(sum(total_work) / BANDS, 1.0)
    for node in sorted(range(len(total_work)), key=lambda node: -total_work[node] * rng.uniform(0.5, 1.0)):
        score = [0.0] * threads
        for other, weight in graph.neighbors[node].items():
            if owner[other] >= 0:
                score[owner[other]] += CUT_COST * weight
        for band, work in graph.work[node].items():
            for thread in range(threads):
                squares = LOAD_IMBALANCE * (work + 2.0 * load[band][thread]) * work
                score[thread] -= squares * threads / (2.0 * work_per_band)
        best = max(range(threads), key=lambda thread: (score[thread], rng.random()))
        owner[node] = best
        for band, work in graph.work[node].items():
            load[band][best] += work
    return owner


def _refine(graph: _ClusterGraph, owner: list[int], threads: int, rng: random.Random) -> list[int]:
    """Move clusters to other threads while that lowers the cost."""
    load, owner = _loads(graph, owner, threads), list(owner)
    imbalance_weight = [LOAD_IMBALANCE * threads / (2.0 * max(sum(band), 1.0)) for band in load]
    for _ in range(REFINEMENT_ROUNDS):
        moved = False
        for node in rng.sample(range(len(owner)), len(owner)):
            here, score = owner[node], {}
            for other, weight in graph.neighbors[node].items():
                score[owner[other]] = score.get(owner[other], 0.0) + CUT_COST * weight
            current = score.pop(here, 0.0)
            for thread in score:
                for band, work in graph.work[node].items():
                    imbalance = 2.0 * work * (load[band][thread] - load[band][here] + work)
                    score[thread] -= imbalance * imbalance_weight[band]
            best = max(score, key=score.__getitem__, default=here)
            if best != here and score[best] > current + 1e-9:
                owner[node] = best
                moved = True
                for band, work in graph.work[node].items():
                    load[band][here] -= work
                    load[band][best] += work
        if not moved:
            break
    return owner


def _loads(graph: _ClusterGraph, owner: Sequence[int], threads: int) -> list[list[float]]:
    """Return the work [band][thread]; clusters without an owner (-1) do not count."""
    load = [[0.0] * threads for _ in range(BANDS)]
    for thread, works in zip(owner, graph.work, strict=True):
        for band, work in works.items() if thread >= 0 else ():
            load[band][thread] += work
    return load


def _makespan(graph: _ClusterGraph, owner: list[int], threads: int) -> float:
    """Estimate how long a partition takes: the work of the busiest thread in each band, and the cut edges."""
    cut = sum(
        weight
        for node, neighbors in enumerate(graph.neighbors)
        for other, weight in neighbors.items()
        if owner[other] != owner[node]
    )
    return sum(max(band) for band in _loads(graph, owner, threads)) + CUT_COST * cut / 2.0
