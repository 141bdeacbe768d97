"""Discovery documents."""

from typing import Any

import pytest

from tests.apiserver.servers import TestServer
from volcano.apiserver.schema.crds import version_rank

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList,application/json"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kites.toys.example"},
    "spec": {
        "group": "toys.example",
        "names": {"plural": "kites", "kind": "Kite", "shortNames": ["kt"], "categories": ["all"]},
        "scope": "Cluster",
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
            for name in ("v1beta1", "v1")
        ],
    },
}


@pytest.fixture
async def server() -> TestServer:
    return await TestServer().start()


async def test_legacy_discovery(server: TestServer) -> None:
    api = (await server.get("/api")).json
    assert (api["kind"], api["versions"]) == ("APIVersions", ["v1"])
    groups = {group["name"]: group for group in (await server.get("/apis")).json["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await server.get("/apis/apps")).json["kind"] == "APIGroup"
    core = {entry["name"]: entry for entry in (await server.get("/api/v1")).json["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods"]["namespaced"] is True
    assert core["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert core["pods/eviction"]["kind"] == "Eviction"
    assert core["pods/eviction"]["group"] == "policy"
    assert core["namespaces"]["namespaced"] is False


@pytest.mark.parametrize("path", ["/api/v2", "/apis/none", "/apis/none/v1", "/apis/apps/v9"])
async def test_what_is_not_served_is_not_found(server: TestServer, path: str) -> None:
    assert (await server.get(path)).code == 404


def resources(document: Any, group: str) -> dict[str, Any]:
    (found,) = (item for item in document["items"] if item["metadata"].get("name", "") == group)
    return {entry["resource"]: entry for entry in found["versions"][0]["resources"]}


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_has_all_groups(server: TestServer, version: str) -> None:
    response = await server.get("/api", accept=AGGREGATED.format(version))
    assert response.headers["Content-Type"] == (
        f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    )
    assert response.json["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    pods = resources(response.json, "")["pods"]
    assert (pods["scope"], pods["singularResource"]) == ("Namespaced", "pod")
    assert {
        "subresource": "log",
        "responseKind": {"group": "", "version": "v1", "kind": "Pod"},
        "verbs": ["get"],
    } in (pods["subresources"])
    groups = [
        item["metadata"]["name"]
        for item in (await server.get("/apis", accept=AGGREGATED.format(version))).json["items"]
    ]
    assert "" not in groups
    assert groups.index("batch") < groups.index("storage.k8s.io")


async def test_crds_are_announced_as_soon_as_they_exist_with_the_best_version_first(
    server: TestServer,
) -> None:
    before = (await server.get("/apis")).headers["ETag"]
    await server.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    after = await server.get("/apis")
    assert after.headers["ETag"] != before
    group = (await server.get("/apis/toys.example")).json
    assert [entry["version"] for entry in group["versions"]] == ["v1", "v1beta1"]
    kites = resources((await server.get("/apis", accept=AGGREGATED.format("v2"))).json, "toys.example")[
        "kites"
    ]
    assert (kites["shortNames"], kites["categories"], kites["scope"]) == (["kt"], ["all"], "Cluster")
    await server.ask("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kites.toys.example")


async def test_a_cached_document_is_not_sent_again(server: TestServer) -> None:
    tag = (await server.get("/apis")).headers["ETag"]
    again = await server.get("/apis", if_none_match=tag)
    assert (again.code, again.body) == (304, b"")


def test_versions_are_ranked_as_kubernetes_ranks_them() -> None:
    names = ["v1alpha1", "foo", "v2", "v1", "v1beta2", "v10", "v1beta1", "v2alpha1"]
    assert sorted(names, key=version_rank) == [
        "v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "foo",
    ]  # fmt: skip


async def test_the_root_lists_paths_and_so_does_an_unknown_one(server: TestServer) -> None:
    root = await server.get("/")
    assert root.code == 200
    assert {"/api/v1", "/apis/apps/v1", "/healthz", "/metrics"} <= set(root.json["paths"])
    unknown = await server.get("/nowhere")
    assert (unknown.code, unknown.json["paths"]) == (404, root.json["paths"])


async def test_paths_that_are_no_resources_can_only_be_read(server: TestServer) -> None:
    assert (await server.ask("POST", "/api")).code == 405
    assert (await server.ask("DELETE", "/version")).code == 405
