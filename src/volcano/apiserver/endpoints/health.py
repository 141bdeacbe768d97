"""Health checks (/healthz, /livez, /readyz), /version and request metrics."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import orjson
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from volcano.apiserver.endpoints.request_info import RequestInfo, unknown_path
from volcano.base.http.messages import Request, Response
from volcano.base.metrics import CONTENT_TYPE, CollectorRegistry, render
from volcano.kube.api import type_info

# Returns an error message, empty if healthy.
HealthCheck = Callable[[], str]

TEXT = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
ENDPOINTS = ("healthz", "livez", "readyz")


def version_info(volcano_version: str) -> dict[str, str]:
    """Content of /version: the Kubernetes release of the API, with the version of Volcano in gitVersion."""
    kubernetes = type_info.version()
    major, minor, _ = kubernetes.split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{kubernetes}+volcano.{volcano_version}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": "python",
        "platform": "any",
    }


@dataclass(frozen=True, slots=True)
class Health:
    """Handles /healthz, /livez, /readyz and the single checks below them."""

    live: Mapping[str, HealthCheck] = field(default_factory=dict)
    ready: Mapping[str, HealthCheck] = field(default_factory=dict)
    warnings: Mapping[str, HealthCheck] = field(default_factory=dict)  # shown by /readyz, which succeeds

    def handle(self, request: Request) -> Response | None:
        """Returns the response for a health path, None for any other path."""
        endpoint, _, single = request.path.strip("/").partition("/")
        if endpoint not in ENDPOINTS:
            return None
        checks: dict[str, HealthCheck] = {"ping": lambda: "", **self.live}
        if endpoint == "readyz":
            checks |= self.ready
        warnings = self.warnings if endpoint == "readyz" and not single else {}
        if single:
            if single not in checks:
                raise unknown_path()
            checks = {single: checks[single]}
        excluded = set(request.query.get("exclude", ()))
        return _report(endpoint, checks, warnings, excluded, verbose="verbose" in request.query)


def _report(
    endpoint: str,
    checks: Mapping[str, HealthCheck],
    warnings: Mapping[str, HealthCheck],
    excluded: set[str],
    *,
    verbose: bool,
) -> Response:
    lines, failed = [], []
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif error := check():
            lines.append(f"[-]{name} failed: {error}")
            failed.append(name)
        else:
            lines.append(f"[+]{name} ok")
    lines += [f"[!]{name} warning: {text}" for name, check in warnings.items() if (text := check())]
    if failed:
        lines.append(f"{endpoint} check failed")
        return Response(500, dict(TEXT), "\n".join([*lines, ""]).encode())
    if verbose:
        return Response(200, dict(TEXT), "\n".join([*lines, f"{endpoint} check passed", ""]).encode())
    return Response(200, dict(TEXT), b"ok")


LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class _Durations:
    """Histogram of request durations: one count per bucket and one for +Inf, and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0


class RequestMetrics(Collector):
    """Request metrics under the names of kube-apiserver.

    Counts in plain integers, because it is called for every request; metric families are built on collection.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._requests: dict[tuple[str, ...], int] = {}
        self._durations: dict[tuple[str, ...], _Durations] = {}
        self._long_running: dict[tuple[str, ...], int] = {}
        self.reading = 0
        self.mutating = 0
        registry.register(self)

    def labels(self, info: RequestInfo, *, known: bool = True) -> tuple[str, ...]:
        """Labels of a request. Paths that are not served get empty labels, to bound the number of series."""
        if not known or not info.resource:
            return (info.verb.upper() if known else "", "", "", "", "", "", "apiserver")
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
        verb = info.verb.upper()
        return (verb, info.group, info.version, info.resource, info.subresource, scope, "apiserver")

    def observe(self, labels: tuple[str, ...], code: int, seconds: float | None, *, dry_run: bool) -> None:
        """Counts one request; `seconds` is None for long-running requests."""
        key = (*labels, str(code), "All" if dry_run else "")
        self._requests[key] = self._requests.get(key, 0) + 1
        if seconds is not None:
            durations = self._durations.get(labels)
            if durations is None:
                durations = self._durations[labels] = _Durations()
            durations.counts[bisect_left(BUCKETS, seconds)] += 1
            durations.total += seconds

    def long_running(self, labels: tuple[str, ...], change: int) -> None:
        """Counts a long-running request that starts (1) or ends (-1)."""
        self._long_running[labels] = self._long_running.get(labels, 0) + change

    def collect(self) -> Iterator[Metric]:
        """Returns the metric families."""
        text = "Requests answered, by verb, resource and code."
        requests = CounterMetricFamily("apiserver_request_total", text, labels=(*LABELS, "code", "dry_run"))
        for key, count in self._requests.items():
            requests.add_metric(key, count)
        yield requests
        text = "How long requests took, streams aside, in seconds."
        durations = HistogramMetricFamily("apiserver_request_duration_seconds", text, labels=LABELS)
        for key, taken in self._durations.items():
            sums = list(accumulate(taken.counts))
            bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
            durations.add_metric(key, list(zip(bounds, sums, strict=True)), sum_value=taken.total)
        yield durations
        text = "Watches and log streams open now."
        streams = GaugeMetricFamily("apiserver_longrunning_requests", text, labels=LABELS)
        for key, count in self._long_running.items():
            streams.add_metric(key, count)
        yield streams
        text = "Requests being answered now."
        inflight = GaugeMetricFamily("apiserver_current_inflight_requests", text, labels=("request_kind",))
        inflight.add_metric(("mutating",), self.mutating)
        inflight.add_metric(("readOnly",), self.reading)
        yield inflight

    def response(self) -> Response:
        """Returns all metrics in the Prometheus text format."""
        return Response(200, {"Content-Type": CONTENT_TYPE}, render(self.registry))


def version_response(volcano_version: str) -> Response:
    body = orjson.dumps(version_info(volcano_version), option=orjson.OPT_INDENT_2)
    return Response(200, {"Content-Type": "application/json"}, body)
