"""Whether the server is alive and ready, which version it is, and its metrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from prometheus_client import Counter, Gauge, Histogram

from volcano.apiserver.routes import Route, unknown_path
from volcano.metrics import CONTENT_TYPE, CollectorRegistry, render
from volcano.net.messages import Request, Response

# Says what is wrong; an empty text means that all is well.
Check = Callable[[], str]

KUBERNETES = "1.36.1"
TEXT = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
ENDPOINTS = ("healthz", "livez", "readyz")


def version_info(volcano_version: str) -> dict[str, str]:
    """What /version says: the Kubernetes release whose API this is, and whose server."""
    major, minor, _ = KUBERNETES.split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES}+volcano.{volcano_version}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": "python",
        "platform": "any",
    }


@dataclass(frozen=True, slots=True)
class Health:
    """Answers /healthz, /livez and /readyz and each single check below them."""

    live: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)

    def answer(self, request: Request) -> Response | None:
        """The answer to a health path; None for any other."""
        endpoint, _, single = request.path.strip("/").partition("/")
        if endpoint not in ENDPOINTS:
            return None
        checks: dict[str, Check] = {"ping": lambda: "", **self.live}
        if endpoint == "readyz":
            checks |= self.ready
        if single:
            if single not in checks:
                raise unknown_path()
            checks = {single: checks[single]}
        excluded = set(request.query.get("exclude", ()))
        return _report(endpoint, checks, excluded, verbose="verbose" in request.query)


def _report(endpoint: str, checks: Mapping[str, Check], excluded: set[str], *, verbose: bool) -> Response:
    lines, failed = [], []
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif trouble := check():
            lines.append(f"[-]{name} failed: {trouble}")
            failed.append(name)
        else:
            lines.append(f"[+]{name} ok")
    if failed:
        lines.append(f"{endpoint} check failed")
        return Response(500, dict(TEXT), "\n".join([*lines, ""]).encode())
    if verbose:
        return Response(200, dict(TEXT), "\n".join([*lines, f"{endpoint} check passed", ""]).encode())
    return Response(200, dict(TEXT), b"ok")


class RequestMetrics:
    """How many requests came, how they were answered and how long it took, under the names a real server uses."""

    LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
    BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._requests = Counter(
            "apiserver_request_total",
            "Requests answered, by verb, resource and code.",
            (*self.LABELS, "code", "dry_run"),
            registry=registry,
        )
        self._durations = Histogram(
            "apiserver_request_duration_seconds",
            "How long requests took, watches aside, in seconds.",
            self.LABELS,
            buckets=self.BUCKETS,
            registry=registry,
        )
        self._inflight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests being answered now.",
            ("request_kind",),
            registry=registry,
        )
        self.long_running = Gauge(
            "apiserver_longrunning_requests",
            "Watches and log streams open now.",
            (*self.LABELS,),
            registry=registry,
        )
        self._children: dict[tuple[Any, ...], Any] = {}

    def labels(self, route: Route, *, known: bool = True) -> tuple[str, ...]:
        """The labels of a request; of one that leads nowhere, without its parts, which clients can make up."""
        if not known or not route.resource:
            return (route.verb.upper(), "", "", "", "", "", "apiserver")
        scope = "resource" if route.name else "namespace" if route.namespace else "cluster"
        verb = route.verb.upper()
        return (verb, route.group, route.version, route.resource, route.subresource, scope, "apiserver")

    def answered(self, labels: tuple[str, ...], code: int, seconds: float | None, *, dry_run: bool) -> None:
        """Counts one answer; `seconds` is None for those that go on for as long as the client likes."""
        counter = self._child(self._requests, (*labels, str(code), "All" if dry_run else ""))
        counter.inc()
        if seconds is not None:
            self._child(self._durations, labels).observe(seconds)

    def inflight(self, change: int, *, mutating: bool) -> None:
        self._child(self._inflight, ("mutating" if mutating else "readOnly",)).inc(change)

    def _child(self, metric: Any, labels: tuple[str, ...]) -> Any:
        key = (metric, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def answer(self) -> Response:
        """Everything in Prometheus' text format."""
        return Response(200, {"Content-Type": CONTENT_TYPE}, render(self.registry))


def version_answer(volcano_version: str) -> Response:
    body = orjson.dumps(version_info(volcano_version), option=orjson.OPT_INDENT_2)
    return Response(200, {"Content-Type": "application/json"}, body)
