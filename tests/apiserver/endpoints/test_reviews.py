"""Access reviews are evaluated and never stored."""

from typing import Any

import pytest

from tests.apiserver.servers import TestServer
from volcano.apiserver.interfaces import User

JOE = User("joe", ("dev", "system:authenticated"))
BASE = "/apis/authorization.k8s.io/v1"


@pytest.fixture
async def server() -> TestServer:
    server = await TestServer(tokens={"joes": JOE}).start()
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "joe"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "joe"}],
    }
    await server.made("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    return server


async def review(server: TestServer, path: str, kind: str, spec: Any, token: str = "joes") -> Any:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return await server.post(f"{BASE}/{path}", body, token=token)


LIST_PODS = {"verb": "list", "resource": "pods", "namespace": "default"}


async def test_users_may_review_their_own_access(server: TestServer) -> None:
    yes = await review(
        server, "selfsubjectaccessreviews", "SelfSubjectAccessReview", {"resourceAttributes": LIST_PODS}
    )
    assert yes.code == 201
    assert yes.json["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "joe/default" of ClusterRole "view" to User "joe"',
    }
    elsewhere = {"resourceAttributes": {**LIST_PODS, "namespace": "kube-system"}}
    no = await review(server, "selfsubjectaccessreviews", "SelfSubjectAccessReview", elsewhere)
    assert no.json["status"] == {"allowed": False}


async def test_non_resource_paths_can_be_reviewed(server: TestServer) -> None:
    for path, allowed in (("/version", True), ("/metrics", False)):
        spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
        response = await review(server, "selfsubjectaccessreviews", "SelfSubjectAccessReview", spec)
        assert response.json["status"]["allowed"] is allowed


async def test_reviewing_the_access_of_others_needs_a_permission(server: TestServer) -> None:
    spec = {"user": "joe", "resourceAttributes": LIST_PODS}
    assert (await review(server, "subjectaccessreviews", "SubjectAccessReview", spec)).code == 403
    response = await review(server, "subjectaccessreviews", "SubjectAccessReview", spec, token="the-admin")
    assert response.json["status"]["allowed"] is True


async def test_a_local_review_is_about_its_namespace(server: TestServer) -> None:
    path = "namespaces/default/localsubjectaccessreviews"
    spec = {"user": "joe", "resourceAttributes": LIST_PODS}
    response = await review(server, path, "LocalSubjectAccessReview", spec, token="the-admin")
    assert response.json["status"]["allowed"] is True
    spec = {"user": "joe", "resourceAttributes": {**LIST_PODS, "namespace": "other"}}
    rejected = await review(server, path, "LocalSubjectAccessReview", spec, token="the-admin")
    assert rejected.code == 422


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"user": "joe"},
        {"resourceAttributes": LIST_PODS},
        {"user": "joe", "resourceAttributes": LIST_PODS, "nonResourceAttributes": {"verb": "get"}},
    ],
)
async def test_incomplete_reviews_are_rejected(server: TestServer, spec: Any) -> None:
    rejected = await review(server, "subjectaccessreviews", "SubjectAccessReview", spec, token="the-admin")
    assert rejected.code == 422


async def test_all_rules_of_a_namespace_can_be_listed(server: TestServer) -> None:
    response = await review(
        server, "selfsubjectrulesreviews", "SelfSubjectRulesReview", {"namespace": "default"}
    )
    rules = response.json["status"]["resourceRules"]
    assert any("pods" in rule["resources"] and "list" in rule["verbs"] for rule in rules)
    assert any("/api" in rule["nonResourceURLs"] for rule in response.json["status"]["nonResourceRules"])


async def test_reviews_can_only_be_posted(server: TestServer) -> None:
    assert (await server.get(f"{BASE}/subjectaccessreviews")).code == 405
    assert (await server.ask("DELETE", f"{BASE}/subjectaccessreviews/x")).code == 405
    wrong = {"apiVersion": "v1", "kind": "Pod"}
    assert (await server.post(f"{BASE}/subjectaccessreviews", wrong)).code == 400
    assert (await server.post(f"{BASE}/subjectaccessreviews", [])).code == 400
