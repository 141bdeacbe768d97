"""Scores of chosen nodes: points of each plugin for them and for the runners-up, for the record of cycles.

Recorded for the first pod of each shape and queue that is placed in a cycle, not for each pod: identical pods are
placed together. The number of classes and of attempts is bounded, so that a cycle does not take longer for it.
"""

from typing import NamedTuple

import numpy as np

from volcano.model.resources import Mask, Vector
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.cycle import Cycle
from volcano.scheduler.engine.node_table import Rows
from volcano.scheduler.engine.placement.placer import NEVER, Placer

RUNNERS_UP = 3
MOST_CLASSES = 50  # in one cycle
MOST_ATTEMPTS = 2  # for one class: a gang may be placed and undone again


class NodePoints(NamedTuple):
    """A node, its score, and the points of the plugins that gave any."""

    node: str
    score: float
    plugins: dict[str, float]


class ClassScores(NamedTuple):
    """Scores at the time when the first pod of a class was placed."""

    task: Task
    feasible: int  # nodes that could take it
    nodes: tuple[NodePoints, ...]  # the chosen one, then the best of the others


class ScoreRecorder:
    """Scores of the classes that were placed in one cycle."""

    def __init__(self, session: Cycle, placer: Placer) -> None:
        self._session = session
        self._placer = placer
        self._found: dict[tuple[Shape, str], ClassScores] = {}
        self._attempts: dict[tuple[Shape, str], int] = {}

    def record(self, task: Task, queue: str, row: int, within: Mask | None) -> None:
        """Records the scores for a task that is about to be allocated on a node; `within` limited the nodes."""
        key = (task.shape, queue)
        attempts = self._attempts.get(key, 0)
        if attempts >= MOST_ATTEMPTS or (not attempts and len(self._attempts) >= MOST_CLASSES):
            return
        known = self._found.get(key)
        if known is not None and self._is_placed(known):
            return
        self._attempts[key] = attempts + 1
        self._found[key] = self._scores(task, queue, row, within)

    def placed(self) -> tuple[ClassScores, ...]:
        """Those whose pod was still placed at the end of the cycle, where its scores were recorded."""
        return tuple(found for found in self._found.values() if self._is_placed(found))

    def _is_placed(self, found: ClassScores) -> bool:
        row = self._session.ledger.row(found.task)
        return row is not None and self._session.nodes.name(row) == found.nodes[0].node

    def _scores(self, task: Task, queue: str, row: int, within: Mask | None) -> ClassScores:
        session = self._session
        fit = self._placer.fit(task, queue)
        feasible = np.zeros(len(session.nodes), dtype=np.bool_)
        feasible[session.permutation] = fit.best != NEVER
        if within is not None:
            feasible &= within
        feasible[row] = True
        rows = np.flatnonzero(feasible)
        score = np.empty(len(session.nodes))
        score[session.permutation] = fit.score
        total = score[rows]
        together = points(session, "score_nodes_together", task, rows)
        for each in together.values():
            total = total + each
        at = int(np.searchsorted(rows, row))
        best = _best(total, RUNNERS_UP + 1)
        shown = [at, *(place for place in best if place != at)][: RUNNERS_UP + 1]
        of_shown = points(session, "score_nodes", task, rows[shown])
        for name, each in together.items():
            of_shown[name] = of_shown.get(name, 0.0) + each[shown]
        nodes = tuple(
            NodePoints(
                session.nodes.name(int(rows[place])),
                round(float(total[place]), 3),
                {name: round(float(each[number]), 3) for name, each in of_shown.items() if each[number]},
            )
            for number, place in enumerate(shown)
        )
        return ClassScores(task, len(rows), nodes)


def _best(total: Vector, most: int) -> list[int]:
    """Places of the highest scores, best first."""
    if len(total) > most:
        some = np.argpartition(-total, most - 1)[:most]
        return list(map(int, some[np.argsort(-total[some], kind="stable")]))
    return list(map(int, np.argsort(-total, kind="stable")))


def points(session: Cycle, hook: str, task: Task, rows: Rows) -> dict[str, Vector]:
    """Points of each plugin for these rows, in the order of the configuration."""
    found: dict[str, Vector] = {}
    table = session.nodes.rows(rows)
    for plugin, given in session.policy.by_plugin(hook, task, table):
        if given is not None:
            found[plugin] = found.get(plugin, 0.0) + np.asarray(given, dtype=np.float64)
    return found
