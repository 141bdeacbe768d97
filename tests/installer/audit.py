"""Granted and used permissions: roles and audit log as sets of the same type."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.installer.rendered import Rendered

RBAC = "rbac.authorization.k8s.io"


class Permission(NamedTuple):
    """One verb on one resource; narrowed to a namespace or to a name where those are not empty."""

    account: str
    verb: str
    resource: str  # such as pods, pods/binding, jobs.batch.volcano.sh
    namespace: str = ""
    name: str = ""

    def allows(self, use: "Permission") -> bool:
        same = (self.account, self.verb, self.resource) == (use.account, use.verb, use.resource)
        return same and self.namespace in ("", use.namespace) and self.name in ("", use.name)


class Request(NamedTuple):
    """A request to the API server and the status code of its response."""

    permission: Permission
    code: int
    uri: str


def granted(release: Rendered, namespace: str) -> set[Permission]:
    """The permissions that the release's bindings grant to its ServiceAccounts."""
    return {
        permission
        for kind in ("ClusterRole", "Role")
        for binding in release.all(f"{kind}Binding")
        for subject in binding["subjects"]
        for rule in release.one(kind, binding["roleRef"]["name"])["rules"]
        for permission in _permissions(subject["name"], rule, namespace if kind == "Role" else "")
    }


def _permissions(account: str, rule: dict[str, Any], namespace: str) -> Iterator[Permission]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Permission(account, verb, _full(resource, group), namespace, name)


def _full(resource: str, group: str) -> str:
    plural, slash, subresource = resource.partition("/")
    return (f"{plural}.{group}" if group else plural) + slash + subresource


def requests(log: Path, namespace: str) -> Iterator[Request]:
    """Requests of a namespace's ServiceAccounts, without discovery and health."""
    prefix = f"system:serviceaccount:{namespace}:"
    with log.open() as lines:
        for line in lines:
            if prefix not in line or not line.endswith("\n"):
                continue
            entry = json.loads(line)
            target, user = entry.get("objectRef"), entry["user"]["username"]
            if target is None or not user.startswith(prefix) or "resource" not in target:
                continue
            resource = _full(target["resource"], target.get("apiGroup", ""))
            if target.get("subresource"):
                resource += f"/{target['subresource']}"
            permission = Permission(
                user.removeprefix(prefix),
                entry["verb"],
                resource,
                target.get("namespace", ""),
                target.get("name", ""),
            )
            yield Request(permission, entry.get("responseStatus", {}).get("code", 0), entry["requestURI"])


def unused(granted: Iterable[Permission], used: Iterable[Permission]) -> set[Permission]:
    """Granted permissions that no request used."""
    seen = set(used)
    return {permission for permission in granted if not any(permission.allows(use) for use in seen)}
