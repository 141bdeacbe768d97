"""Discovery: groups, versions and resources, unaggregated (per group) and aggregated (apidiscovery.k8s.io)."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from volcano.apiserver.endpoints.negotiation import DISCOVERY_CONVERSIONS, MediaTypeOptions, negotiate
from volcano.apiserver.schema.crds import version_rank
from volcano.base.http.messages import Request, Response
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import NAMESPACE, VIRTUAL, Kind
from volcano.kube.api.manifest import Manifest

# Order in which kubectl resolves a resource name that several groups use; groups not listed follow, by name.
GROUP_ORDER = (
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
)


@dataclass(frozen=True, slots=True)
class Subresource:
    """Verbs of a subresource and the kind it serves, if not that of its parent."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""  # empty: that of the parent; `{kind}` stands for it


SUBRESOURCES: dict[str, Subresource] = {
    "status": Subresource(("get", "patch", "update")),
    "scale": Subresource(("get", "patch", "update"), "autoscaling", "v1", "Scale"),
    "finalize": Subresource(("update",)),
    "approval": Subresource(("get", "patch", "update")),
    "ephemeralcontainers": Subresource(("get", "patch", "update")),
    "resize": Subresource(("get", "patch", "update")),
    "binding": Subresource(("create",), "", "v1", "Binding"),
    "eviction": Subresource(("create",), "policy", "v1", "Eviction"),
    "token": Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    "log": Subresource(("get",)),
    "exec": Subresource(("create", "get"), "", "v1", "PodExecOptions"),
    "attach": Subresource(("create", "get"), "", "v1", "PodAttachOptions"),
    "portforward": Subresource(("create", "get"), "", "v1", "PodPortForwardOptions"),
    "proxy": Subresource(("create", "delete", "get", "patch", "update"), "", "v1", "{kind}ProxyOptions"),
}
# Namespaces are deleted one by one, because deleting one deletes everything in it.
_NOT_SERVED = {NAMESPACE: "deletecollection"}


def group_rank(group: str) -> tuple[int, str]:
    return (GROUP_ORDER.index(group), "") if group in GROUP_ORDER else (len(GROUP_ORDER), group)


class Discovery:
    """Handles discovery requests; responses are cached until `generation` changes."""

    def __init__(
        self, kinds: Callable[[], Iterable[Kind]], generation: Callable[[], int], address: str = ""
    ) -> None:
        self._kinds = kinds
        self._generation = generation
        self._address = address
        self._cached: dict[tuple[str, str, str], tuple[bytes, str]] = {}
        self._cached_generation = -1

    def handle(self, request: Request) -> Response | None:
        """Returns the response for a discovery path, None for any other path."""
        parts = [part for part in request.path.split("/") if part]
        if not parts or parts[0] not in ("api", "apis") or len(parts) > (2 if parts[0] == "api" else 3):
            return None
        conversions = DISCOVERY_CONVERSIONS if len(parts) == 1 else frozenset()
        output = negotiate(request.headers.get("accept", ""), conversions)
        body, tag = self._encoded("/".join(parts), output)
        headers = {"Content-Type": "application/json", "ETag": tag, "Vary": "Accept"}
        if output.convert_kind:
            headers["Content-Type"] = (
                f"application/json;g=apidiscovery.k8s.io;v={output.convert_version};as={output.convert_kind}"
            )
        if request.headers.get("if-none-match") == tag:
            return Response(304, headers)
        return Response(200, headers, body)

    def _encoded(self, path: str, output: MediaTypeOptions) -> tuple[bytes, str]:
        if self._cached_generation != self._generation():
            self._cached.clear()
            self._cached_generation = self._generation()
        key = (path, output.convert_kind, output.convert_version)
        cached = self._cached.get(key)
        if cached is None:
            body = orjson.dumps(self._build(path, output), option=orjson.OPT_APPEND_NEWLINE)
            cached = body, f'"{hashlib.sha256(body).hexdigest().upper()}"'
            self._cached[key] = cached
        return cached

    def _build(self, path: str, output: MediaTypeOptions) -> Manifest:
        groups = grouped([*self._kinds(), *VIRTUAL])
        if output.convert_kind:
            core = path == "api"
            return aggregated({g: v for g, v in groups.items() if (g == "") == core}, output.convert_version)
        match path.split("/"):
            case ["api"]:
                return self._core_versions()
            case ["apis"]:
                described = [_group(name, versions) for name, versions in groups.items() if name]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": described}
            case ["api", core_version]:
                return _resources("", core_version, groups)
            case ["apis", name]:
                if name not in groups:
                    raise NotFound("the server could not find the requested resource")
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, groups[name])}
            case [_, name, group_version]:
                return _resources(name, group_version, groups)
        raise NotFound("the server could not find the requested resource")

    def _core_versions(self) -> Manifest:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


Groups = Mapping[str, Mapping[str, list[Kind]]]


def grouped(kinds: Iterable[Kind]) -> Groups:
    """Kinds by group and version, in discovery order."""
    found: dict[str, dict[str, list[Kind]]] = {}
    for kind in kinds:
        found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    return {
        group: {
            version: sorted(found[group][version], key=lambda kind: kind.plural)
            for version in sorted(found[group], key=version_rank)
        }
        for group in sorted(found, key=group_rank)
    }


def _group(name: str, versions: Mapping[str, Any]) -> Manifest:
    described = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": described, "preferredVersion": described[0]}


def _resources(group: str, version: str, groups: Groups) -> Manifest:
    kinds = groups.get(group, {}).get(version)
    if kinds is None:
        raise NotFound("the server could not find the requested resource")
    resources: list[Manifest] = []
    for kind in kinds:
        resources.append(_resource(kind))
        resources += [_subresource(kind, name, SUBRESOURCES[name]) for name in _served_subresources(kind)]
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }


def _served_subresources(kind: Kind) -> list[str]:
    return [name for name in sorted(kind.subresources) if name in SUBRESOURCES]


@lru_cache(maxsize=1024)
def verbs_of(kind: Kind) -> tuple[str, ...]:
    """Verbs served over HTTP for a kind."""
    return tuple(verb for verb in kind.verbs if verb != _NOT_SERVED.get(kind))


def _resource(kind: Kind) -> Manifest:
    described: Manifest = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(verbs_of(kind)),
    }
    return described | _names(kind)


def _names(kind: Kind) -> Manifest:
    names: Manifest = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _subresource(kind: Kind, name: str, subresource: Subresource) -> Manifest:
    described: Manifest = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": subresource.kind.format(kind=kind.kind) or kind.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.version and subresource.group:
        described |= {"group": subresource.group, "version": subresource.version}
    return described


def aggregated(groups: Groups, version: str) -> Manifest:
    """Aggregated discovery document of some groups."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group, "creationTimestamp": None}
                if group
                else {"creationTimestamp": None},
                "versions": [
                    {
                        "version": group_version,
                        "resources": [_aggregated_resource(kind) for kind in kinds],
                        "freshness": "Current",
                    }
                    for group_version, kinds in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


def _aggregated_resource(kind: Kind) -> Manifest:
    described: Manifest = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(verbs_of(kind)),
        **_names(kind),
    }
    names = _served_subresources(kind)
    if names:
        described["subresources"] = [
            _aggregated_subresource(kind, name, SUBRESOURCES[name]) for name in names
        ]
    return described


def _aggregated_subresource(kind: Kind, name: str, subresource: Subresource) -> Manifest:
    served: Kind | Subresource = subresource if subresource.kind else kind
    response_kind = {
        "group": served.group,
        "version": served.version,
        "kind": served.kind.format(kind=kind.kind),
    }
    return {"subresource": name, "responseKind": response_kind, "verbs": list(subresource.verbs)}
