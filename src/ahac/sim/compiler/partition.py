"""Which thread computes what: a graph cut into parts of equal work at all times, with few numbers to hand over.

Multilevel, as graphs are usually cut: nodes are matched with their neighbours until few clumps are left, the clumps are
dealt out, and the cut is improved while they are taken apart again. Work is balanced in bands of depth: parts
that were equal in sum alone could still have to wait for each other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["partition"]

BANDS = 16
"""Of equal work, from the inputs to the outputs."""
CUT_COST = 3.0
"""What an edge between parts costs, in operations: a store, a load, and less freedom of order."""
LOAD_IMBALANCE = 2.0
"""What unequal work costs, beside that."""
COARSE_NODES = 60
"""Per part, with which coarsening ends."""
MAX_CLUSTER_FRACTION = 10
"""The largest clump is a part's work divided by this."""
INITIAL_GUESSES = 4
"""First guesses, of which the best is taken."""
REFINEMENT_ROUNDS = 6
"""Over all nodes, in which each may move to a better part."""


@dataclass
class _Mesh:
    """An undirected graph."""

    links: list[dict[int, float]]
    """To neighbours, with weights."""
    work: list[dict[int, float]]
    """By band."""

    @property
    def total(self) -> list[float]:
        return [sum(work.values()) for work in self.work]


def partition(arguments: Sequence[Sequence[int]], cost: Sequence[float], parts: int) -> list[int]:
    """The part of each node, given what it is computed from and what that costs; arguments precede their users."""
    rng, places = random.Random(0), []
    first, finest = _merge_single_users(arguments, cost)
    meshes = [finest]
    most = sum(cost) / (parts * MAX_CLUSTER_FRACTION)
    while (
        len(meshes[-1].links) > COARSE_NODES * parts and (place := _match_clusters(meshes[-1], most, rng)) is not None
    ):
        places.append(place)
        meshes.append(_contract(meshes[-1], place))
    chosen = min(
        (_refine(meshes[-1], _initial_partition(meshes[-1], parts, rng), parts, rng) for _ in range(INITIAL_GUESSES)),
        key=lambda owner: _makespan(meshes[-1], owner, parts),
    )
    for mesh, place in zip(meshes[-2::-1], places[::-1], strict=True):
        chosen = _refine(mesh, [chosen[p] for p in place], parts, rng)
    return [chosen[p] for p in first]


def _merge_single_users(arguments: Sequence[Sequence[int]], cost: Sequence[float]) -> tuple[list[int], _Mesh]:
    """Every node with the only one that uses it: nobody would part them. The clump of each node, and their graph."""
    users: list[set[int]] = [set() for _ in arguments]
    for node, used in enumerate(arguments):
        for argument in used:
            users[argument].add(node)
    root = list(range(len(arguments)))
    size = list(cost)
    most = sum(cost) / 500.0
    for node in reversed(range(len(arguments))):
        if len(users[node]) == 1:
            home = root[next(iter(users[node]))]
            if size[home] + cost[node] <= most:
                root[node] = home
                size[home] += cost[node]
    number = {r: i for i, r in enumerate(dict.fromkeys(root))}
    place = [number[r] for r in root]
    band = _bands(arguments, cost)
    mesh = _Mesh([{} for _ in number], [{} for _ in number])
    for node, used in enumerate(arguments):
        here = place[node]
        mesh.work[here][band[node]] = mesh.work[here].get(band[node], 0.0) + cost[node]
        for there in {place[argument] for argument in used} - {here}:
            for a, b in ((here, there), (there, here)):
                mesh.links[a][b] = mesh.links[a].get(b, 0.0) + 1.0
    return place, mesh


def _bands(arguments: Sequence[Sequence[int]], cost: Sequence[float]) -> list[int]:
    """Of each node, by the longest way that leads to it."""
    depth: list[float] = []
    for used, own in zip(arguments, cost, strict=True):
        depth.append(max(own, 0.3) + max((depth[argument] for argument in used), default=0.0))
    band = [0] * len(depth)
    done = 0.0
    total = max(sum(cost), 1.0)
    for node in sorted(range(len(depth)), key=depth.__getitem__):
        band[node] = min(BANDS - 1, int(done * BANDS / total))
        done += cost[node]
    return band


def _match_clusters(mesh: _Mesh, most: float, rng: random.Random) -> list[int] | None:
    """A coarser numbering, in which neighbours share a place; none where hardly any would."""
    total, count = mesh.total, 0
    place = [-1] * len(total)
    for node in sorted(range(len(total)), key=lambda node: (len(mesh.links[node]), rng.random())):
        if place[node] >= 0:
            continue
        near = [
            (weight / (total[other] + 1.0), other)
            for other, weight in mesh.links[node].items()
            if place[other] < 0 and total[node] + total[other] <= most
        ]
        place[node] = count
        if near:
            place[max(near)[1]] = count
        count += 1
    return place if count < 0.97 * len(total) else None


def _contract(mesh: _Mesh, place: list[int]) -> _Mesh:
    """The coarser graph of a numbering."""
    count = max(place) + 1
    new = _Mesh([{} for _ in range(count)], [{} for _ in range(count)])
    for node, here in enumerate(place):
        for band, work in mesh.work[node].items():
            new.work[here][band] = new.work[here].get(band, 0.0) + work
        for other, weight in mesh.links[node].items():
            if (there := place[other]) != here:
                new.links[here][there] = new.links[here].get(there, 0.0) + weight
    return new


def _initial_partition(mesh: _Mesh, parts: int, rng: random.Random) -> list[int]:
    """A first guess: clumps one by one, large ones first, to where their neighbours are and there is time."""
    total, owner = mesh.total, [-1] * len(mesh.links)
    load = _loads(mesh, owner, parts)
    fair = max(sum(total) / BANDS, 1.0)
    for node in sorted(range(len(total)), key=lambda node: -total[node] * rng.uniform(0.5, 1.0)):
        score = [0.0] * parts
        for other, weight in mesh.links[node].items():
            if owner[other] >= 0:
                score[owner[other]] += CUT_COST * weight
        for band, work in mesh.work[node].items():
            for part in range(parts):
                score[part] -= LOAD_IMBALANCE * (work + 2.0 * load[band][part]) * work * parts / (2.0 * fair)
        best = max(range(parts), key=lambda part: (score[part], rng.random()))
        owner[node] = best
        for band, work in mesh.work[node].items():
            load[band][best] += work
    return owner


def _refine(mesh: _Mesh, owner: list[int], parts: int, rng: random.Random) -> list[int]:
    """Move nodes to where they cost less, until none does."""
    load, owner = _loads(mesh, owner, parts), list(owner)
    stiff = [LOAD_IMBALANCE * parts / (2.0 * max(sum(band), 1.0)) for band in load]
    for _ in range(REFINEMENT_ROUNDS):
        moved = False
        for node in rng.sample(range(len(owner)), len(owner)):
            here, score = owner[node], {}
            for other, weight in mesh.links[node].items():
                score[owner[other]] = score.get(owner[other], 0.0) + CUT_COST * weight
            base = score.pop(here, 0.0)
            for part in score:
                for band, work in mesh.work[node].items():
                    more = 2.0 * work * (load[band][part] - load[band][here] + work)
                    score[part] -= more * stiff[band]
            best = max(score, key=score.__getitem__, default=here)
            if best != here and score[best] > base + 1e-9:
                owner[node], moved = best, True
                for band, work in mesh.work[node].items():
                    load[band][here] -= work
                    load[band][best] += work
        if not moved:
            break
    return owner


def _loads(mesh: _Mesh, owner: Sequence[int], parts: int) -> list[list[float]]:
    """[band][part] of work."""
    load = [[0.0] * parts for _ in range(BANDS)]
    for part, works in zip(owner, mesh.work, strict=True):
        for band, work in works.items() if part >= 0 else ():
            load[band][part] += work
    return load


def _makespan(mesh: _Mesh, owner: list[int], parts: int) -> float:
    """How long a cut takes, about."""
    cut = sum(
        weight
        for node, links in enumerate(mesh.links)
        for other, weight in links.items()
        if owner[other] != owner[node]
    )
    return sum(max(band) for band in _loads(mesh, owner, parts)) + CUT_COST * cut / 2.0
