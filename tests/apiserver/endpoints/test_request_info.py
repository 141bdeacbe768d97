"""RequestInfo of methods and paths."""

import pytest

from volcano.apiserver.authz.actions import Action
from volcano.apiserver.endpoints.request_info import RequestInfo, new_request_info


def parts(found: RequestInfo) -> tuple[str, ...]:
    return (
        found.verb,
        found.group,
        found.version,
        found.resource,
        found.namespace,
        found.name,
        found.subresource,
    )


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/ns/pods", ("list", "", "v1", "pods", "ns", "", "")),
        ("GET", "/api/v1/namespaces/ns/pods/p", ("get", "", "v1", "pods", "ns", "p", "")),
        ("HEAD", "/api/v1/namespaces/ns/pods/p", ("get", "", "v1", "pods", "ns", "p", "")),
        ("GET", "/api/v1/namespaces/ns/pods/p/log", ("get", "", "v1", "pods", "ns", "p", "log")),
        ("POST", "/api/v1/namespaces/ns/pods", ("create", "", "v1", "pods", "ns", "", "")),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", ("create", "", "v1", "pods", "ns", "p", "binding")),
        (
            "PUT",
            "/apis/apps/v1/namespaces/ns/deployments/d",
            ("update", "apps", "v1", "deployments", "ns", "d", ""),
        ),
        ("PATCH", "/api/v1/nodes/n/status", ("patch", "", "v1", "nodes", "", "n", "status")),
        ("DELETE", "/api/v1/nodes/n", ("delete", "", "v1", "nodes", "", "n", "")),
        ("DELETE", "/api/v1/namespaces/ns/pods", ("deletecollection", "", "v1", "pods", "ns", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/ns", ("get", "", "v1", "namespaces", "ns", "ns", "")),
        ("PUT", "/api/v1/namespaces/ns/finalize", ("update", "", "v1", "namespaces", "ns", "ns", "finalize")),
        ("PUT", "/api/v1/namespaces/ns/status", ("update", "", "v1", "namespaces", "ns", "ns", "status")),
        (
            "GET",
            "/apis/batch.volcano.sh/v1alpha1/jobs",
            ("list", "batch.volcano.sh", "v1alpha1", "jobs", "", "", ""),
        ),
        ("OPTIONS", "/api/v1/pods", ("options", "", "v1", "pods", "", "", "")),
    ],
)
def test_resource_paths(method: str, path: str, expected: tuple[str, ...]) -> None:
    assert parts(new_request_info(method, path)) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/x/y/z/w"]
)
def test_other_paths_are_non_resource_requests(path: str) -> None:
    found = new_request_info("GET", path)
    assert found.resource == ""
    assert found.action == Action("get", path=path)


def test_watching_is_a_verb_of_its_own_on_collections_only() -> None:
    assert new_request_info("GET", "/api/v1/pods", watch=True).verb == "watch"
    assert new_request_info("HEAD", "/api/v1/pods", watch=True).verb == "list"
    assert new_request_info("GET", "/api/v1/nodes/n", watch=True).verb == "get"


def test_a_selected_name_is_authorized_but_is_not_the_name() -> None:
    found = new_request_info("GET", "/api/v1/namespaces/ns/secrets", watch=True, selected="mine")
    assert found.name == ""
    assert found.action == Action("watch", "", "secrets", "", "mine", "ns")
