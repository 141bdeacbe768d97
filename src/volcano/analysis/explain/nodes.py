"""Reasons and scores node by node: why a pod may not use each of them, and what plugins think of those it may use."""

from collections.abc import Iterator

import numpy as np

from volcano.analysis.explain.case import Case, without_uninteresting
from volcano.analysis.explain.explanations import NodeScore
from volcano.model.resources import PODS, STEP, Mask, Vector
from volcano.model.task import Task
from volcano.scheduler.engine.node_table import Rows
from volcano.scheduler.engine.placement.chosen_scores import points
from volcano.scheduler.engine.placement.placer import NEVER
from volcano.scheduler.engine.session import Session


def reasons(session: Session, task: Task, queue: str) -> list[str]:
    """Why each node cannot take the task now, in the order of rows; "" where it can."""
    found = [""] * len(session.nodes)
    fit = session.placer.fit(task, queue)
    if fit.rejection is not None:
        return [fit.rejection.message] * len(found)
    for filtered in fit.filtered:
        for row in np.flatnonzero(filtered.mask).tolist():
            found[row] = filtered.reason
    room = _room(session, task, queue)
    for row in np.flatnonzero(fit.passed & ~room).tolist():
        found[row] = _shortage(session, task, row)
    rows = np.flatnonzero(room)
    for reject in session.policy.reject_nodes_now(task, session.nodes.rows(rows)) or ():
        for row in rows[reject.mask].tolist():
            found[row] = found[row] or reject.reason
    return found


def _room(session: Session, task: Task, queue: str) -> Mask:
    """Rows that pass the filters by node properties and have the resources and devices now."""
    fit = session.placer.fit(task, queue)
    room = np.zeros(len(session.nodes), dtype=np.bool_)
    room[session.permutation] = fit.best != NEVER
    return room


def _shortage(session: Session, task: Task, row: int) -> str:
    for column in np.flatnonzero(task.request > 0).tolist():
        if task.request.item(column) >= session.nodes.future_idle.item(row, column) + STEP:
            return "Too many pods" if column == PODS else f"Insufficient {session.resources.names[column]}"
    table = session.nodes.at(np.array((row,)))
    limit = session.policy.node_capacity(task, table, 1, True)
    rejected = next(iter(limit.explain()), None) if limit is not None else None
    return "no room" if rejected is None else rejected.reason


def scores(session: Session, task: Task, queue: str, rows: Rows) -> dict[str, Vector]:
    """Points of each plugin for these rows, in the order of the configuration."""
    found = points(session, "score_nodes", task, rows)
    for plugin, together in points(session, "score_nodes_together", task, rows).items():
        found[plugin] = found.get(plugin, 0.0) + together
    return found


def ranking(case: Case, session: Session, task: Task, queue: str) -> Iterator[NodeScore]:
    """The nodes that can take the task, best first, with the points of each plugin."""
    rows = np.array(
        [row for row, reason in enumerate(reasons(session, task, queue)) if not reason], dtype=np.intp
    )
    if not len(rows):
        return
    points = scores(session, task, queue, rows)
    total = sum(points.values(), start=np.zeros(len(rows)))
    rank = np.empty(len(session.permutation), dtype=np.intp)
    rank[session.permutation] = np.arange(len(session.permutation))
    for place in np.lexsort((rank[rows], -total)).tolist():
        row = int(rows[place])
        yield NodeScore(
            session.nodes.name(row),
            round(float(total[place]), 3),
            {name: round(float(each[place]), 3) for name, each in points.items() if each.any()},
            without_uninteresting(case.amounts(np.maximum(session.nodes.idle[row], 0.0))),
        )
