"""Rights that are granted, rights that were used: roles and audit log as sets of the same thing."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.installer.rendered import Rendered

RBAC = "rbac.authorization.k8s.io"


class Right(NamedTuple):
    """One verb on one resource; narrowed to a namespace or to a name where those are not empty."""

    account: str
    verb: str
    resource: str  # such as pods, pods/binding, jobs.batch.volcano.sh
    namespace: str = ""
    name: str = ""

    def allows(self, use: "Right") -> bool:
        same = (self.account, self.verb, self.resource) == (use.account, use.verb, use.resource)
        return same and self.namespace in ("", use.namespace) and self.name in ("", use.name)


class Request(NamedTuple):
    """What somebody asked for, and the answer's code."""

    right: Right
    code: int
    uri: str


def granted(release: Rendered, namespace: str) -> set[Right]:
    """Everything that the release's bindings give its ServiceAccounts."""
    return {
        right
        for kind in ("ClusterRole", "Role")
        for binding in release.all(f"{kind}Binding")
        for subject in binding["subjects"]
        for rule in release.one(kind, binding["roleRef"]["name"])["rules"]
        for right in _rights(subject["name"], rule, namespace if kind == "Role" else "")
    }


def _rights(account: str, rule: dict[str, Any], namespace: str) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(account, verb, _full(resource, group), namespace, name)


def _full(resource: str, group: str) -> str:
    plural, slash, subresource = resource.partition("/")
    return (f"{plural}.{group}" if group else plural) + slash + subresource


def requests(log: Path, namespace: str) -> Iterator[Request]:
    """What the ServiceAccounts of a namespace asked the API server for, discovery and health left out."""
    prefix = f"system:serviceaccount:{namespace}:"
    with log.open() as lines:
        for line in lines:
            if prefix not in line or not line.endswith("\n"):
                continue
            entry = json.loads(line)
            about, user = entry.get("objectRef"), entry["user"]["username"]
            if about is None or not user.startswith(prefix) or "resource" not in about:
                continue
            resource = _full(about["resource"], about.get("apiGroup", ""))
            if about.get("subresource"):
                resource += f"/{about['subresource']}"
            right = Right(
                user.removeprefix(prefix),
                entry["verb"],
                resource,
                about.get("namespace", ""),
                about.get("name", ""),
            )
            yield Request(right, entry.get("responseStatus", {}).get("code", 0), entry["requestURI"])


def unused(granted: Iterable[Right], used: Iterable[Right]) -> set[Right]:
    """Rights that nobody made use of."""
    seen = set(used)
    return {right for right in granted if not any(right.allows(use) for use in seen)}
