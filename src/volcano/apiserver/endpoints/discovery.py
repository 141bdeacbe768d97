"""What this server serves, told group by group (legacy) or all at once (aggregated)."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from volcano.apiserver.endpoints.serialization import DISCOVERY_SHAPES, negotiate
from volcano.kube.errors import NotFound
from volcano.kube.kinds import NAMESPACE, VIRTUAL, Kind
from volcano.kube.manifest import Manifest
from volcano.net.messages import Request, Response

# The order in which kubectl looks for a name several groups use; groups not listed follow, by name.
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
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a subresource answers with, when not with its parent's kind, and how it may be asked."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""  # empty: the parent's


SUBRESOURCES: dict[str, Shape] = {
    "status": Shape(("get", "patch", "update")),
    "scale": Shape(("get", "patch", "update"), "autoscaling", "v1", "Scale"),
    "finalize": Shape(("update",)),
    "ephemeralcontainers": Shape(("get", "patch", "update")),
    "resize": Shape(("get", "patch", "update")),
    "binding": Shape(("create",), "", "v1", "Binding"),
    "eviction": Shape(("create",), "policy", "v1", "Eviction"),
    "token": Shape(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    "log": Shape(("get",)),
    "exec": Shape(("create", "get"), "", "v1", "PodExecOptions"),
    "attach": Shape(("create", "get"), "", "v1", "PodAttachOptions"),
    "portforward": Shape(("create", "get"), "", "v1", "PodPortForwardOptions"),
}
# Namespaces go one by one: each takes everything in it along.
NOT_SERVED = {NAMESPACE: "deletecollection"}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts v2, v1, v1beta2, v1beta1, v1alpha1 and then what is no Kubernetes version, by name."""
    found = _VERSION.fullmatch(version)
    if not found:
        return (3, 0, 0, version)
    major, stage, minor = found.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), "")


def group_rank(group: str) -> tuple[int, str]:
    return (GROUP_ORDER.index(group), "") if group in GROUP_ORDER else (len(GROUP_ORDER), group)


class Discovery:
    """Answers discovery requests; remembers its answers until `generation` changes."""

    def __init__(
        self, kinds: Callable[[], Iterable[Kind]], generation: Callable[[], int], address: str = ""
    ) -> None:
        self._kinds = kinds
        self._generation = generation
        self._address = address
        self._answers: dict[tuple[str, str, str], tuple[bytes, str]] = {}
        self._answers_of = -1

    def answer(self, request: Request) -> Response | None:
        """The answer to a discovery path; None when the path is none of discovery's."""
        parts = [part for part in request.path.split("/") if part]
        if not parts or parts[0] not in ("api", "apis") or len(parts) > (2 if parts[0] == "api" else 3):
            return None
        shapes = DISCOVERY_SHAPES if len(parts) == 1 else frozenset()
        wanted = negotiate(request.headers.get("accept", ""), shapes)
        body, tag = self._remembered("/".join(parts), wanted.shape, wanted.version)
        headers = {"Content-Type": "application/json", "ETag": tag, "Vary": "Accept"}
        if wanted.shape:
            headers["Content-Type"] = (
                f"application/json;g=apidiscovery.k8s.io;v={wanted.version};as={wanted.shape}"
            )
        if request.headers.get("if-none-match") == tag:
            return Response(304, headers)
        return Response(200, headers, body)

    def _remembered(self, path: str, shape: str, version: str) -> tuple[bytes, str]:
        if self._answers_of != self._generation():
            self._answers.clear()
            self._answers_of = self._generation()
        key = (path, shape, version)
        known = self._answers.get(key)
        if known is None:
            body = orjson.dumps(self._build(path, shape, version), option=orjson.OPT_APPEND_NEWLINE)
            known = body, f'"{hashlib.sha256(body).hexdigest().upper()}"'
            self._answers[key] = known
        return known

    def _build(self, path: str, shape: str, version: str) -> Manifest:
        groups = grouped([*self._kinds(), *VIRTUAL])
        if shape:
            core = path == "api"
            return aggregated({g: v for g, v in groups.items() if (g == "") == core}, version)
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
    """Kinds by group and version, in the order they are announced."""
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
    """What may be done with objects of a kind over HTTP."""
    return tuple(verb for verb in kind.verbs if verb != NOT_SERVED.get(kind))


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


def _subresource(kind: Kind, name: str, shape: Shape) -> Manifest:
    described: Manifest = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": shape.kind or kind.kind,
        "verbs": list(shape.verbs),
    }
    if shape.version and shape.group:
        described |= {"group": shape.group, "version": shape.version}
    return described


def aggregated(groups: Groups, version: str) -> Manifest:
    """Everything about some groups in one answer."""
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


def _aggregated_subresource(kind: Kind, name: str, shape: Shape) -> Manifest:
    answers_with = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if shape.kind:
        answers_with = {"group": shape.group, "version": shape.version, "kind": shape.kind}
    return {"subresource": name, "responseKind": answers_with, "verbs": list(shape.verbs)}
