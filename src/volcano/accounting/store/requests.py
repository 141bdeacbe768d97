"""Requests to the API group: query parameters to a query, and its answer as JSON. Blocks."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from volcano.accounting import api
from volcano.accounting.store import queries
from volcano.accounting.store.database import Database
from volcano.accounting.store.decay import decayed_usage
from volcano.base.clock import micro_timestamp, parse_timestamp
from volcano.kube.api.errors import BadRequest, NotFound
from volcano.kube.api.manifest import Manifest

MOST_ITEMS: Final = 5000  # of one page
USUAL_ITEMS: Final = 500
FOREVER: Final = 253_402_300_000.0  # the year 9999
FILTERS: Final = {
    "queue": "queue",
    "user": "user",
    "namespace": "namespace",
    "job": "job",
    "gpuType": "gpu-type",
}
RESOURCES: Final = (api.USAGE, api.RUNS, api.JOBS, api.DECAYED_USAGE)
# Decayed usage is of whole queues: it is not served for a namespace.
NAMESPACED: Final = (api.USAGE, api.RUNS, api.JOBS)
Parameters = Mapping[str, Sequence[str]]


def answer(database: Database, resource: str, namespace: str, parameters: Parameters, now: float) -> Manifest:
    """The answer to a request. Raises `BadRequest`, `NotFound` and `DatabaseError`."""
    found = _HANDLERS.get(resource)
    if found is None or (namespace and resource not in NAMESPACED):
        raise NotFound("the server could not find the requested resource")
    handler, allowed = found
    unknown = sorted(set(parameters) - allowed - IGNORED)
    if unknown:
        names = ", ".join(sorted(allowed)) or "none"
        raise BadRequest(f"{resource}: unknown parameter {unknown[0]!r}; choose from {names}")
    return handler(database, namespace, parameters, now)


def _usage(database: Database, namespace: str, parameters: Parameters, now: float) -> Manifest:
    start, end = _period(parameters, now)
    by = tuple(filter(None, _text(parameters, "by", "queue").split(",")))
    for name in by:
        _choose("by", name, api.DIMENSIONS)
    period = _text(parameters, "period")
    if period:
        _choose("period", period, api.PERIODS)
    query = queries.UsageQuery(start, end, by, _filters(namespace, parameters), period)
    found = queries.usage(database, query, now)
    return {
        **_head("Usage", start, end),
        "by": list(by),
        "items": [api.usage_manifest(row) for row in found.rows],
        "warnings": list(found.warnings),
    }


def _runs(database: Database, namespace: str, parameters: Parameters, now: float) -> Manifest:
    start, end = _period(parameters, now)
    limit = _limit(parameters)
    query = queries.RunsQuery(
        start, end, _filters(namespace, parameters), _text(parameters, "jobUID"), limit, _after(parameters)
    )
    found = queries.runs(database, query)
    following = f"{found[-1].started!r},{found[-1].uid}" if len(found) == limit else ""
    return {
        **_head("RunList", start, end),
        "items": [api.run_manifest(run) for run in found],
        "continue": following,
    }


def _jobs(database: Database, namespace: str, parameters: Parameters, now: float) -> Manifest:
    start, end = _period(parameters, now)
    limit = _limit(parameters)
    query = queries.JobsQuery(start, end, _filters(namespace, parameters), limit, _after(parameters))
    found = queries.jobs(database, query, now)
    following = f"{found[-1][0].created!r},{found[-1][0].uid}" if len(found) == limit else ""
    items = [{**api.job_manifest(job), "usage": _job_usage(used)} for job, used in found]
    return {**_head("JobRecordList", start, end), "items": items, "continue": following}


def _decayed(database: Database, namespace: str, parameters: Parameters, now: float) -> Manifest:
    text = _text(parameters, "halfLifeSeconds", "604800")
    try:
        half_life = float(text)
    except ValueError:
        half_life = 0.0
    if not (math.isfinite(half_life) and half_life > 0):
        raise BadRequest(f"halfLifeSeconds={text!r} is no positive number of seconds, such as 604800")
    return api.decayed_manifest(decayed_usage(database, half_life, now))


_PERIOD = frozenset(("from", "to"))
_PAGE = frozenset(("limit", "continue"))
IGNORED: Final = frozenset(("timeout", "pretty"))  # that clients add to every request
_Handler = Callable[[Database, str, Parameters, float], Manifest]
_HANDLERS: Mapping[str, tuple[_Handler, frozenset[str]]] = {
    api.USAGE: (_usage, _PERIOD | {*FILTERS, "by", "period"}),
    api.RUNS: (_runs, _PERIOD | _PAGE | {*FILTERS, "jobUID"}),
    api.JOBS: (_jobs, _PERIOD | _PAGE | {"queue", "user", "namespace", "job"}),
    api.DECAYED_USAGE: (_decayed, frozenset(("halfLifeSeconds",))),
}


def _job_usage(used: queries.JobUsage) -> Manifest:
    return {
        "runs": used.runs,
        "running": used.running,
        "evictions": used.evictions,
        "started": None if used.started is None else micro_timestamp(used.started),
        "ended": None if used.ended is None else micro_timestamp(used.ended),
        "resources": dict(used.resources),
    }


def _head(kind: str, start: float, end: float) -> dict[str, Any]:
    return {
        "apiVersion": api.API_VERSION,
        "kind": kind,
        "from": micro_timestamp(start),
        "to": micro_timestamp(end),
    }


def _period(parameters: Parameters, now: float) -> tuple[float, float]:
    start, end = _time(parameters, "from", 0.0), _time(parameters, "to", now)
    if start > end:
        raise BadRequest(f"from ({micro_timestamp(start)}) is after to ({micro_timestamp(end)})")
    return start, end


def _time(parameters: Parameters, name: str, default: float) -> float:
    text = _text(parameters, name)
    if not text:
        return default
    try:
        found = parse_timestamp(text)
    except (ValueError, OverflowError):
        raise BadRequest(f"{name}={text!r} is no time such as 2026-01-31T00:00:00Z") from None
    return min(max(found, 0.0), FOREVER)


def _filters(namespace: str, parameters: Parameters) -> dict[str, str]:
    """The filters of a request; one for a namespace shows nothing of another."""
    found = {dimension: parameters[name][0] for name, dimension in FILTERS.items() if name in parameters}
    if namespace and found.get("namespace", namespace) != namespace:
        raise BadRequest(f"namespace={found['namespace']!r} is not that of the request, {namespace!r}")
    return found | ({"namespace": namespace} if namespace else {})


def _limit(parameters: Parameters) -> int:
    text = _text(parameters, "limit", str(USUAL_ITEMS))
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_ITEMS):
        raise BadRequest(f"limit={text!r} is no number from 1 to {MOST_ITEMS}")
    return int(text)


def _after(parameters: Parameters) -> tuple[float, str] | None:
    text = _text(parameters, "continue")
    if not text:
        return None
    moment, _, uid = text.partition(",")
    try:
        return float(moment), uid
    except ValueError:
        raise BadRequest(f"continue={text!r} is not from an earlier answer") from None


def _text(parameters: Parameters, name: str, default: str = "") -> str:
    values = parameters.get(name)
    return values[0] if values else default


def _choose(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise BadRequest(f"{name}={value!r} is unknown; choose from {', '.join(choices)}")
