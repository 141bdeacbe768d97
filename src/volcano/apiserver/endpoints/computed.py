"""Resources that are computed for each request: APIServices, and NodeMetrics and PodMetrics from measurements."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import orjson

from volcano.apiserver.endpoints.discovery import group_rank, grouped
from volcano.apiserver.endpoints.negotiation import negotiate
from volcano.apiserver.endpoints.parameters import query_of
from volcano.apiserver.endpoints.request_info import RequestInfo
from volcano.apiserver.endpoints.responses import ResponseWriter
from volcano.apiserver.endpoints.tables.autoscaling import API_SERVICE_PRINTER, METRICS_PRINTER
from volcano.apiserver.endpoints.tables.cells import Printer
from volcano.apiserver.errors import not_found
from volcano.apiserver.registry.registry import Registry
from volcano.base.clock import timestamp
from volcano.base.http.messages import Answer, Request
from volcano.kube.api import selectors
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import (
    API_SERVICE,
    COMPUTED,
    NAMESPACE,
    NODE,
    NODE_METRICS,
    POD,
    POD_METRICS,
    VIRTUAL,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, labels_of
from volcano.kube.client.protocol import Query

METRICS_SERVER = {"namespace": "kube-system", "name": "metrics-server", "port": 443}
# Of APIServices: core, built in, of CRDs, of other servers.
CORE_PRIORITY, BUILT_IN_PRIORITY, CRD_PRIORITY, OTHER_PRIORITY = 18000, 17000, 1000, 100


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources in use."""

    cpu: float  # cores
    memory: float  # bytes

    def manifest(self) -> dict[str, str]:
        """As metrics-server prints it."""
        return {
            "cpu": f"{round(self.cpu * 1e9)}n" if self.cpu else "0",
            "memory": f"{round(self.memory / 1024)}Ki",
        }


@dataclass(frozen=True, slots=True)
class Measurement:
    """Usage of a node ("" is its name) or of the containers of a pod, averaged over a time."""

    usage: Mapping[str, Usage]
    measured: float  # wall time
    window: float  # seconds


class MetricsSource(Protocol):
    """Measures nodes and pods; None for those that are not measured yet."""

    def node(self, node: Manifest) -> Measurement | None: ...

    def pod(self, pod: Manifest) -> Measurement | None: ...


class NoMetrics:
    """The source of a server without nodes of its own."""

    def node(self, node: Manifest) -> Measurement | None:
        return None

    def pod(self, pod: Manifest) -> Measurement | None:
        return None


class ComputedResources:
    """Handles get and list of computed resources."""

    def __init__(self, registry: Registry, source: MetricsSource | None = None) -> None:
        self._registry = registry
        self._source = source or NoMetrics()
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in COMPUTED}

    def find(self, info: RequestInfo) -> Kind | None:
        return self._kinds.get((info.group, info.version, info.resource))

    async def handle(self, request: Request, info: RequestInfo, kind: Kind) -> Answer:
        """Answers a request whose verb the kind has."""
        output = negotiate(request.headers.get("accept", ""))
        now = self._registry.clock.now().wall
        writer = ResponseWriter(request, output, _PRINTERS[kind], now)
        if info.name:
            found = await self._one(kind, Key(info.namespace, info.name))
            return await writer.respond(writer.one(orjson.dumps(found)))
        query = query_of(request, info.namespace, watch=False)
        items = [orjson.dumps(item) for item in await self.select(kind, query)]
        return await writer.respond(await writer.many(items, {}, kind.list_kind, kind.api_version))

    async def select(self, kind: Kind, query: Query) -> list[Manifest]:
        """The objects of a kind that a query selects."""
        if kind is API_SERVICE:
            return self._api_services(query)
        measure = self._node if kind is NODE_METRICS else self._pod
        page = await self._registry.list(
            NODE if kind is NODE_METRICS else POD, Query(query.namespace, query.labels, query.fields)
        )
        found = (measure(orjson.loads(item)) for item in page.items)
        return [metrics for metrics in found if metrics is not None]

    async def _one(self, kind: Kind, key: Key) -> Manifest:
        selected = await self.select(kind, Query(key.namespace, fields=f"metadata.name={key.name}"))
        if not selected:
            raise not_found(kind, key.name)
        return selected[0]

    # -- metrics -----------------------------------------------------------------------------------

    def _node(self, node: Manifest) -> Manifest | None:
        measured = self._source.node(node)
        if measured is None:
            return None
        return {**_metrics(NODE_METRICS, node, measured), "usage": measured.usage[""].manifest()}

    def _pod(self, pod: Manifest) -> Manifest | None:
        measured = self._source.pod(pod)
        if measured is None:
            return None
        containers = [{"name": name, "usage": usage.manifest()} for name, usage in measured.usage.items()]
        return {**_metrics(POD_METRICS, pod, measured), "containers": containers}

    # -- APIServices -------------------------------------------------------------------------------

    def _api_services(self, query: Query) -> list[Manifest]:
        try:
            labels, fields = selectors.parse_labels(query.labels), selectors.parse_fields(query.fields)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        return [
            service
            for service in self._all_api_services()
            if labels.matches(labels_of(service)) and fields.matches(partial(_field, service))
        ]

    def _all_api_services(self) -> Iterator[Manifest]:
        table = self._registry.kinds
        of_crds = {(each.kind.group, each.kind.version) for each in table if each.crd}
        system = self._registry.lookup.find(NAMESPACE, Key("", "kube-system")) or {"metadata": {}}
        created = system["metadata"].get("creationTimestamp", "")
        groups = grouped([*(each.kind for each in table), *VIRTUAL])
        for group in sorted(groups, key=group_rank):
            for rank, version in enumerate(groups[group]):
                priority = CRD_PRIORITY if (group, version) in of_crds else BUILT_IN_PRIORITY
                yield _api_service(group, version, created, priority if group else CORE_PRIORITY, 100 - rank)


def _field(manifest: Manifest, path: str) -> str:
    return str(manifest["metadata"]["name"]) if path == "metadata.name" else ""


def _metrics(kind: Kind, about: Manifest, measured: Measurement) -> Manifest:
    metadata = {name: about["metadata"].get(name) for name in ("name", "namespace", "labels")}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {
            **{name: value for name, value in metadata.items() if value},
            "creationTimestamp": timestamp(measured.measured),
        },
        "timestamp": timestamp(measured.measured),
        "window": f"{measured.window:.3f}".rstrip("0").rstrip(".") + "s",
    }


def _api_service(
    group: str, version: str, created: str, group_priority: int, version_priority: int
) -> Manifest:
    """An APIService; metrics are those of a service of their own on most clusters."""
    own = group == NODE_METRICS.group
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": created,
        "reason": "Passed" if own else "Local",
        "message": "all checks passed" if own else "Local APIServices are always available",
    }
    spec: Manifest = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": OTHER_PRIORITY if own else group_priority,
        "versionPriority": version_priority,
    }
    if own:
        spec |= {"service": METRICS_SERVER, "insecureSkipTLSVerify": True}
    automanaged = "true" if group_priority == CRD_PRIORITY else "onstart"
    labels = {} if own else {"labels": {"kube-aggregator.kubernetes.io/automanaged": automanaged}}
    return {
        "kind": API_SERVICE.kind,
        "apiVersion": API_SERVICE.api_version,
        "metadata": {"name": f"{version}.{group}", "creationTimestamp": created, **labels},
        "spec": {name: value for name, value in spec.items() if value != ""},
        "status": {"conditions": [condition]},
    }


_PRINTERS: Mapping[Kind, Printer] = {
    API_SERVICE: API_SERVICE_PRINTER,
    NODE_METRICS: METRICS_PRINTER,
    POD_METRICS: METRICS_PRINTER,
}
