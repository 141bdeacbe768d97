"""Runs: many identical tasks placed at once, on the nodes that placing them one by one would choose."""

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcano.model.resources import Vector

Rows = NDArray[np.intp]
# Scores of rows with so many more copies of the task on them.
ScoreCopies = Callable[[Rows, Rows], Vector]

SCORED_TOGETHER = 256  # number of the best nodes that are scored further when one of them has to be


def greedy(wanted: int, best: Vector, by_rank: Rows, capacity: Rows, score_copies: ScoreCopies) -> list[int]:
    """Rows for up to `wanted` tasks, in the order they are placed: always the highest score, ties by rank.

    `best` holds, by rank, each node's score for the next task, minus infinity where it does not fit; `capacity` how
    many fit, by row. Placing on a node changes that node's score alone, so only the `wanted` best nodes can ever be
    chosen.
    """
    ranks = _leading(best, wanted)
    rows = by_rank[ranks]
    limit = np.minimum(capacity[rows], wanted)
    score_lists = [[score] for score in best[ranks].tolist()]
    even = -(-wanted // max(len(score_lists), 1))  # equal share of each node; some get a few more
    spare = max(1, 2 * SCORED_TOGETHER // max(len(score_lists), 1))  # packed tasks need more of few nodes
    _extend(score_lists, range(len(score_lists)), rows, limit, even + spare, score_copies)
    heap = [
        (-scores_of_node[0], rank, i)
        for i, (scores_of_node, rank) in enumerate(zip(score_lists, ranks.tolist(), strict=True))
    ]
    heapq.heapify(heap)
    names, limits = rows.tolist(), limit.tolist()
    level = [0] * len(names)
    chosen: list[int] = []
    while heap and len(chosen) < wanted:
        _, rank, i = heap[0]
        chosen.append(names[i])
        level[i] = step = level[i] + 1
        if step >= limits[i]:
            heapq.heappop(heap)
            continue
        if step >= len(score_lists[i]):
            # Other leading nodes that are about to need more scores as well: one table for all of them. There are
            # many when tasks are spread, none when they are packed.
            leaders = [k for _, _, k in heapq.nsmallest(SCORED_TOGETHER, heap)]
            short = [k for k in leaders if k == i or len(score_lists[k]) <= level[k] + 1]
            # A table costs nearly the same for one row and for hundreds.
            more = min(wanted - len(chosen), SCORED_TOGETHER // len(short))
            _extend(score_lists, short, rows, limit, step + max(step, more), score_copies)
        heapq.heapreplace(heap, (-score_lists[i][step], rank, i))
    return chosen


def _leading(best: Vector, wanted: int) -> Rows:
    """Ranks of the `wanted` highest scores, ascending; ties go to the lower rank."""
    fits = np.flatnonzero(best != -np.inf)
    if len(fits) <= wanted:
        return fits
    scores = best[fits]
    threshold = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
    above = fits[scores > threshold]
    level = fits[scores == threshold][: wanted - len(above)]
    return np.sort(np.concatenate((above, level)))


def _extend(
    score_lists: list[list[float]],
    which: Sequence[int],
    rows: Rows,
    limit: Rows,
    depth: int,
    score_copies: ScoreCopies,
) -> None:
    """Extends the score lists of some nodes (scores for their first, second, … task) to a depth, in one
    table."""
    picked = np.asarray(which, dtype=np.intp)
    have = np.array([len(score_lists[k]) for k in which], dtype=np.intp)
    extra = np.maximum(np.minimum(limit[picked], depth) - have, 0)
    total = int(extra.sum())
    if not total:
        return
    ends = np.cumsum(extra)
    copies = np.arange(total) - np.repeat(ends - extra - have, extra)
    scores = score_copies(np.repeat(rows[picked], extra), copies).tolist()
    start = 0
    for k, end in zip(which, ends.tolist(), strict=True):
        score_lists[k] += scores[start:end]
        start = end
