"""A PUT or an apply patch that creates an object needs the right to create it."""

from typing import Any

import pytest

from tests.apiserver.servers import TestServer
from volcano.apiserver.interfaces import User

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
APPLY = "application/apply-patch+yaml"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}


async def server_for(*verbs: str, names: list[str] | None = None) -> TestServer:
    """A server on which the token `joe` has verbs on config maps and leases."""
    server = await TestServer(tokens={"joe": User("joe", ("system:authenticated",))}).start()
    rule: dict[str, Any] = {
        "verbs": list(verbs),
        "apiGroups": ["*"],
        "resources": ["configmaps", "leases"],
        "resourceNames": names or [],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await server.made(f"{rbac}/clusterroles", {"metadata": {"name": "writer"}, "rules": [rule]})
    await server.made(
        f"{rbac}/clusterrolebindings",
        {
            "metadata": {"name": "writer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
            "subjects": [{"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    )
    return server


@pytest.mark.parametrize("query", ["", "&dryRun=All", "&force=true"])
async def test_apply_that_creates_needs_create(query: str) -> None:
    server = await server_for("patch", "update", "get")
    target = f"{MAPS}/m?fieldManager=x{query}"
    refused = await server.ask("PATCH", target, MAP, token="joe", content_type=APPLY)
    assert refused.code == 403
    assert refused.message == (
        'configmaps "m" is forbidden: User "joe" cannot create resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    assert (await server.get(f"{MAPS}/m")).code == 404
    await server.made(MAPS, MAP)
    assert (await server.ask("PATCH", target, MAP, token="joe", content_type=APPLY)).code == 200


async def test_put_that_creates_needs_create() -> None:
    server = await server_for("patch", "update", "get")
    refused = await server.ask("PUT", f"{LEASES}/l", LEASE, token="joe")
    assert refused.code == 403
    assert 'cannot create resource "leases" in API group "coordination.k8s.io"' in refused.message
    assert (await server.get(f"{LEASES}/l")).code == 404


@pytest.mark.parametrize(("names", "code"), [(None, 201), (["l", "m"], 201), (["other"], 403)])
async def test_the_right_to_create_may_be_limited_to_a_name(names: list[str] | None, code: int) -> None:
    server = await server_for("create", "patch", "update", names=names)
    applied = await server.ask("PATCH", f"{MAPS}/m?fieldManager=x", MAP, token="joe", content_type=APPLY)
    put = await server.ask("PUT", f"{LEASES}/l", LEASE, token="joe")
    assert (applied.code, put.code) == (code, code)


async def test_put_of_a_deleted_object_with_its_uid_conflicts() -> None:
    server = await TestServer().start()
    body = {**LEASE, "metadata": {"name": "l", "uid": "gone"}}
    refused = await server.ask("PUT", f"{LEASES}/l", body)
    assert (refused.code, refused.json["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: gone, UID in object meta: " in refused.message
    assert (await server.get(f"{LEASES}/l")).code == 404
    # A kind that a PUT does not create is simply not found, as before.
    settings = {**MAP, "metadata": {"name": "m", "uid": "gone"}}
    assert (await server.ask("PUT", f"{MAPS}/m", settings)).code == 404


async def test_apply_to_a_deleted_object_with_its_uid_conflicts() -> None:
    server = await TestServer().start()
    body = {**MAP, "metadata": {"name": "m", "uid": "gone"}}
    refused = await server.ask("PATCH", f"{MAPS}/m?fieldManager=x", body, content_type=APPLY)
    assert refused.code == 409
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "m": uid mismatch: '
        "the provided object specified uid gone, and no existing object was found"
    )
