"""Tables and texts of explanations, for commands and pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from volcano.analysis.explain.explanations import JobExplanation, NodeScore, Quantities
from volcano.views.amounts import quantity_shown, short_name
from volcano.views.columns import Column

BASIS = {
    "walltime": "the walltimes of jobs",
    "history": "the run times of finished jobs like those it waits for",
}


def listed(amounts: Quantities) -> str:
    """`cpu 4, memory 8Gi, gpu 2`."""
    return ", ".join(f"{short_name(name)} {amount}" for name, amount in amounts.items())


def size_text(job: JobExplanation) -> str:
    """`4 pods, at least 2 together; cpu 8`; "" when not known."""
    if job.pods is None:
        return ""
    return f"{job.pods.sentence()}; {listed(job.requests)}" if job.requests else job.pods.sentence()


def counts_text(counts: Mapping[str, int]) -> str:
    """Pods by node: `n1 (2), n2 (1)`."""
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))


def plugin_columns(ranking: Sequence[NodeScore]) -> list[Column]:
    """The points of each plugin that gave any."""

    def points(name: str) -> Column:
        return Column(name, lambda row: f"{row.plugins.get(name, 0):g}", spare=1)

    return [points(name) for name in dict.fromkeys(name for row in ranking for name in row.plugins)]


def _amount(name: str) -> Callable[[Any], str]:
    """Cell with an amount, which a division by weights may have left with many digits."""
    return lambda row: quantity_shown(row.resource, getattr(row, name))


JOB_COLUMNS = (
    Column("JOB", lambda row: row.job),
    Column("USER", lambda row: row.user),
    Column("PODS", lambda row: str(row.pods)),
    Column("PRIORITY", lambda row: str(row.priority or ""), spare=1),
    Column("CODE", lambda row: row.code, spare=2),
    Column("REQUESTS", lambda row: listed(row.requests), sentence=True),
)
SHARE_COLUMNS = (
    Column("RESOURCE", lambda row: row.resource),
    Column("CLUSTER", _amount("cluster")),
    Column("WEIGHT", lambda row: row.weight, spare=2),
    Column("BY WEIGHT", _amount("by_weight")),
    Column("LIMIT", _amount("limit")),
    Column("REQUESTED", _amount("requested")),
    Column("GUARANTEE", _amount("guarantee"), spare=3),
    Column("DESERVED", _amount("deserved")),
    Column("ALLOCATED", _amount("allocated")),
    Column("BORROWED", _amount("borrowed"), spare=1),
    Column("LENT", _amount("lent"), spare=1),
)
NODE_REASONS = (
    Column("NODES", lambda row: str(row[1])),
    Column("REASON", lambda row: row[0], sentence=True),
)
DETAILS: dict[str, tuple[Column, ...]] = {
    "nodes": (
        Column("NODE", lambda row: row.node),
        Column("REASON", lambda row: row.reason),
        Column("FREE", lambda row: listed(row.free), sentence=True),
    ),
    "scores": (
        Column("NODE", lambda row: row.node),
        Column("SCORE", lambda row: f"{row.score:g}"),
        Column("PLUGINS", lambda row: ", ".join(f"{k} {v:g}" for k, v in row.plugins.items()), sentence=True),
    ),
    "victims": (
        Column("POD", lambda row: row.pod),
        Column("QUEUE", lambda row: row.queue, spare=1),
        Column("PRIORITY", lambda row: str(row.priority)),
        Column("NODE", lambda row: row.node, spare=2),
        Column("WHY", lambda row: row.why, sentence=True),
    ),
    "plugins": (
        Column("PLUGIN", lambda row: row.plugin),
        Column("TIER", lambda row: str(row.tier)),
        Column("QUESTION", lambda row: row.question),
        Column("ANSWER", lambda row: row.answer, sentence=True),
    ),
}
