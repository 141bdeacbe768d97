"""Claims: allocating and reserving them needs a right of its own."""

from tests.apiserver.servers import TestServer
from volcano.apiserver.interfaces import User
from volcano.kube.api.manifest import Manifest

MERGE = "application/merge-patch+json"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
STATUS = {"status": {"allocation": {"devices": {"results": [RESULT]}}}}


async def server_with(*resources: str) -> TestServer:
    """A server on which `joe` may patch these resources of resource.k8s.io everywhere."""
    server = await TestServer(tokens={"joe": User("joe", ("system:authenticated",))}).start()
    rule = {"apiGroups": ["resource.k8s.io"], "resources": list(resources), "verbs": ["get", "patch"]}
    await server.made(f"{RBAC}/clusterroles", {"metadata": {"name": "allocate"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "allocate"}
    joe = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}
    binding: Manifest = {"metadata": {"name": "joe"}, "roleRef": role, "subjects": [joe]}
    await server.made(f"{RBAC}/clusterrolebindings", binding)
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
    await server.made(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": devices}})
    return server


async def test_the_right_to_change_the_status_is_not_enough_to_allocate() -> None:
    server = await server_with("resourceclaims/status")
    target = f"{CLAIMS}/c/status"
    refused = await server.ask("PATCH", target, STATUS, token="joe", content_type=MERGE)
    assert refused.code == 422
    assert (
        "changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission'
    ) in refused.message


async def test_a_user_who_may_bind_claims_allocates_them() -> None:
    server = await server_with("resourceclaims/status", "resourceclaims/binding")
    target = f"{CLAIMS}/c/status"
    done = await server.ask("PATCH", target, STATUS, token="joe", content_type=MERGE)
    assert done.json["status"] == STATUS["status"]
