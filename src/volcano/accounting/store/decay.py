"""Decayed usage: a resource-second counts half as much for each half-life that it is past.

A run of amount a from s to e counts, at time t with half-life h, a · h/ln 2 · (2^-(t-e)/h - 2^-(t-s)/h).
"""

import math
from typing import Final

import numpy as np
import orjson
from sqlalchemy import or_, select

from volcano.accounting.api import GPU, DecayedEntry, DecayedUsage
from volcano.accounting.store.database import Database
from volcano.accounting.store.schema import RUNS, WORKLOADS

FORGOTTEN_AFTER: Final = 20  # half-lives, after which usage counts less than a millionth
PART: Final = 50_000  # runs that are read at a time


def decayed_usage(database: Database, half_life: float, at: float) -> DecayedUsage:
    """Usage of each user in each queue up to a time."""
    weights: dict[int, float] = {}  # decayed seconds by workload
    query = select(RUNS.c.workload, RUNS.c.started, RUNS.c.ended).where(
        RUNS.c.started < at,
        or_(RUNS.c.ended.is_(None), RUNS.c.ended > at - FORGOTTEN_AFTER * half_life),
    )
    with database.read() as connection:
        for rows in connection.execution_options(yield_per=PART).execute(query).partitions():
            workloads = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            started = np.fromiter((row[1] for row in rows), float, len(rows))
            ended = np.fromiter((at if row[2] is None else min(row[2], at) for row in rows), float, len(rows))
            seconds = decayed_seconds(started, ended, at, half_life)
            known, positions = np.unique(workloads, return_inverse=True)
            sums = np.bincount(positions, weights=seconds, minlength=len(known))
            for workload, total in zip(known.tolist(), sums.tolist(), strict=True):
                weights[workload] = weights.get(workload, 0.0) + total
        found: dict[tuple[str, str], dict[str, float]] = {}
        c = WORKLOADS.c
        for row in connection.execute(select(c.id, c.queue, c.user_name, c.gpus, c.requests)):
            seconds_of = weights.get(row.id)
            if seconds_of is None:
                continue
            resources = found.setdefault((row.queue, row.user_name), {})
            for name, amount in (orjson.loads(row.requests) | ({GPU: row.gpus} if row.gpus else {})).items():
                resources[name] = resources.get(name, 0.0) + amount * seconds_of
    items = (DecayedEntry(queue, user, resources) for (queue, user), resources in sorted(found.items()))
    return DecayedUsage(at, tuple(items))


def decayed_seconds(
    started: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    ended: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    at: float,
    half_life: float,
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Decayed seconds of runs that ended at `at` or before."""
    rate = math.log(2) / half_life
    ended = np.maximum(ended, started)
    result = (np.exp(-rate * (at - ended)) - np.exp(-rate * (at - started))) / rate
    return np.asarray(result, dtype=np.float64)
