"""Runs: many identical tasks placed at once, on the nodes that placing them one by one would choose."""

import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Vector

Rows = NDArray[np.intp]
# Scores of rows as they would be with so many more copies of the task on them.
ScoreCopies = Callable[[Rows, Rows], Vector]

DEEPEST = 256  # how many more copies are scored ahead for one node


def greedy(wanted: int, best: Vector, by_rank: Rows, capacity: Rows, score_copies: ScoreCopies) -> list[int]:
    """Rows for up to `wanted` tasks, in the order they are placed: always the highest score, ties by rank.

    `best` holds, by rank, each node's score for the next task, minus infinity where it does not fit; `capacity` how many
    fit, by row. Placing on a node changes that node's score alone, so only the `wanted` best nodes can ever be chosen.
    """
    ranks = _leading(best, wanted)
    rows = by_rank[ranks]
    room = capacity[rows]
    depth = -(-wanted // max(len(ranks), 1)) + 1
    ladders = _ladders(best[ranks], rows, np.minimum(room, depth), score_copies)
    heap = [(-ladder[0], int(rank), i) for i, (ladder, rank) in enumerate(zip(ladders, ranks, strict=True))]
    heapq.heapify(heap)
    names = rows.tolist()
    limits = room.tolist()
    level = [0] * len(names)
    chosen: list[int] = []
    while heap and len(chosen) < wanted:
        _, rank, i = heap[0]
        chosen.append(names[i])
        level[i] += 1
        step = level[i]
        if step >= limits[i]:
            heapq.heappop(heap)
            continue
        if step >= len(ladders[i]):
            more = min(limits[i] - step, wanted - len(chosen) + 1, DEEPEST)
            ladders[i] += _extended(names[i], step, more, score_copies)
        heapq.heapreplace(heap, (-ladders[i][step], rank, i))
    return chosen


def _leading(best: Vector, wanted: int) -> Rows:
    """The ranks of the `wanted` highest scores, in ascending order; ties go to the lower rank."""
    fits = np.flatnonzero(best != -np.inf)
    if len(fits) <= wanted:
        return fits
    scores = best[fits]
    threshold = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
    above = fits[scores > threshold]
    level = fits[scores == threshold][: wanted - len(above)]
    return np.sort(np.concatenate((above, level)))


def _ladders(first: Vector, rows: Rows, depths: Rows, score_copies: ScoreCopies) -> list[list[float]]:
    """Per node, the scores it has for its first, second, … task, `depths` of them, all scored in one table."""
    ladders = [[score] for score in first.tolist()]
    extra = np.maximum(depths - 1, 0)
    if not extra.sum():
        return ladders
    repeated = np.repeat(rows, extra)
    ends = np.cumsum(extra)
    copies = np.arange(len(repeated)) - np.repeat(ends - extra, extra) + 1
    scores = score_copies(repeated, copies).tolist()
    start = 0
    for ladder, end in zip(ladders, ends.tolist(), strict=True):
        ladder += scores[start:end]
        start = end
    return ladders


def _extended(row: int, start: int, more: int, score_copies: ScoreCopies) -> list[float]:
    copies = np.arange(start, start + more)
    scores: list[float] = score_copies(np.full(more, row, dtype=np.intp), copies).tolist()
    return scores
