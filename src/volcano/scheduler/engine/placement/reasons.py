"""Nodes by reason: why none of them fits a task, counted once per shape and queue, not per pod."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from volcano.model.resources import PODS, STEP, Mask
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.cycle import Cycle
from volcano.scheduler.engine.diagnosis import Amount, FitError
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import Rows

if TYPE_CHECKING:
    from volcano.scheduler.engine.placement.placer import Fit

TOO_MANY_PODS = "Too many pods"


def count_reasons(
    session: Cycle, task: Task, fit: "Fit", future: Mask, never: Mapping[Code, Mask]
) -> FitError:
    """Counts each node under the first filter that rejects it, and under the gravest cause that excludes it.

    `future` are the nodes where the request fits on future idle resources, `never` those that could not host the task
    if they were empty.
    """
    counts = NodeCounts(len(session.nodes), never)
    for filtered in fit.filtered:
        counts.add(filtered.mask, filtered.reason, filtered.plugin, filtered.code)
    left = np.flatnonzero(fit.passed & ~future)
    if fit.limited:
        limits = session.policy.by_plugin("node_capacity", task, session.nodes.at(left), 1, True)
        found = ((plugin, limit.explain()) for plugin, limit in limits if limit is not None)
        left = left[~counts.add_rejected(left, found)]
    short = _count_shortages(session, fit, left, counts)
    rows = np.flatnonzero(fit.passed & future)
    if len(rows):
        table = session.nodes.rows(rows)
        counts.add_rejected(rows, session.policy.by_plugin("reject_nodes_now", task, table))
    amounts = _amounts(session, fit)
    plugin = max(counts.by_plugin, key=lambda name: counts.by_plugin[name], default="")
    if plugin or not short:
        return FitError(len(session.nodes), counts.reasons, plugin, causes=counts.causes, amounts=amounts)
    column = max(short, key=lambda c: short[c])
    have = float(session.nodes.future_idle[left, column].max())
    return FitError(
        len(session.nodes),
        counts.reasons,
        "",
        session.resources.names[column],
        float(fit.request[column]),
        max(have, 0.0),
        causes=counts.causes,
        amounts=amounts,
    )


class NodeCounts:
    """Number of nodes by reason, plugin and cause."""

    def __init__(self, nodes: int, never: Mapping[Code, Mask]) -> None:
        self._nodes = nodes
        self._excluded = np.zeros(nodes, dtype=np.bool_)  # for good: counted under that cause
        self.reasons: dict[str, int] = {}
        self.by_plugin: dict[str, int] = {}
        self.causes: dict[Code, int] = {}
        for code, mask in never.items():
            self.causes[code] = int(mask.sum())
            self._excluded |= mask

    def add(self, mask: Mask, reason: str, plugin: str, code: Code) -> None:
        count = int(mask.sum())
        self.reasons[reason] = self.reasons.get(reason, 0) + count
        self.by_plugin[plugin] = self.by_plugin.get(plugin, 0) + count
        other = int((mask & ~self._excluded).sum())
        if other:
            self.causes[code] = self.causes.get(code, 0) + other

    def add_rows(self, rows: Rows, reason: str, plugin: str, code: Code) -> None:
        mask = np.zeros(self._nodes, dtype=np.bool_)
        mask[rows] = True
        self.add(mask, reason, plugin, code)

    def add_rejected(self, rows: Rows, found: Iterable[tuple[str, Iterable[RejectedNodes] | None]]) -> Mask:
        """Counts each row under the first reason that rejects it; returns the rows that have one."""
        counted = np.zeros(len(rows), dtype=np.bool_)
        for plugin, rejects in found:
            for reject in rejects or ():
                fresh = reject.mask & ~counted
                counted |= reject.mask
                if fresh.any():
                    self.add_rows(rows[fresh], reject.reason, plugin, reject.code)
        return counted


def _count_shortages(session: Cycle, fit: "Fit", rows: Rows, counts: NodeCounts) -> dict[int, int]:
    """Counts the rows by the first resource they lack."""
    if not len(rows):
        return {}
    columns = fit.columns
    free = session.nodes.future_idle[rows][:, columns]
    lacking = fit.request[columns] >= free + STEP
    first = columns[lacking.argmax(axis=1)]
    short: dict[int, int] = {}
    for column in np.unique(first).tolist():
        full = column == PODS
        reason = TOO_MANY_PODS if full else f"Insufficient {session.resources.names[column]}"
        code = Code.TOO_MANY_PODS if full else Code.INSUFFICIENT_RESOURCES
        lacks = rows[first == column]
        counts.add_rows(lacks, reason, "", code)
        short[column] = len(lacks)
    return short


def _amounts(session: Cycle, fit: "Fit") -> tuple[Amount, ...]:
    """Per requested resource: the request, and the most that one node which passes the filters has free and in all."""
    columns = fit.columns[fit.columns != PODS]
    rows = np.flatnonzero(fit.passed)
    if not len(rows) or not len(columns):
        return ()
    free = session.nodes.future_idle[np.ix_(rows, columns)].max(axis=0)
    most = session.nodes.allocatable[np.ix_(rows, columns)].max(axis=0)
    names = session.resources.names
    return tuple(
        Amount(names[column], fit.request.item(column), max(free.item(place), 0.0), most.item(place))
        for place, column in enumerate(columns.tolist())
    )
