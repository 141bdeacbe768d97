"""OpenAPI documents contain what kubectl needs to explain, validate and dry-run."""

from collections.abc import Iterator
from typing import Any

import pytest

from volcano.apiserver.endpoints.discovery import verbs_of
from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import served as served_by_crd
from volcano.apiserver.schema.openapi import document, path_of, schema_name
from volcano.kube.api.kinds import CRD, DEPLOYMENT, POD, Kind

BUILT_IN = list(built_in_kinds())
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A thing to sell.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "minimum": 1}},
                            }
                        },
                    }
                },
            }
        ],
    },
    "status": {
        "acceptedNames": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "conditions": [
            {"type": "Established", "status": "True"},
            {"type": "NamesAccepted", "status": "True"},
        ],
        "storedVersions": ["v1"],
    },
}


def widgets() -> list[Served]:
    found = list(served_by_crd(WIDGETS))
    assert found, "the CRD must be served"
    return found


def of_group(api_version: str) -> list[Served]:
    return [each for each in BUILT_IN if each.kind.api_version == api_version]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "$ref" and isinstance(each, str):
                yield each
            else:
                yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


@pytest.mark.parametrize("api_version", sorted({each.kind.api_version for each in BUILT_IN}))
def test_every_reference_of_a_document_resolves(api_version: str) -> None:
    written = document(of_group(api_version), verbs_of)
    known = {f"#/components/schemas/{name}" for name in written["components"]["schemas"]}
    assert set(references(written)) <= known


@pytest.mark.parametrize("served", [*BUILT_IN, *widgets()], ids=lambda served: str(served.kind))
def test_kubectl_finds_every_kind_by_path_and_by_schema(served: Served) -> None:
    """`explain` uses the path, then the schema of the same kind."""
    kind = served.kind
    written = document([served], verbs_of)
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    place = "namespaces/{namespace}/" if kind.namespaced else ""
    item = written["paths"][f"/{path_of(kind)}/{place}{kind.plural}"]
    method = "get" if "list" in kind.verbs else "post"
    assert item[method]["x-kubernetes-group-version-kind"] == gvk
    schema = written["components"]["schemas"][schema_name(kind)]
    assert schema["x-kubernetes-group-version-kind"] == [gvk]
    assert {"apiVersion", "kind", "metadata"} <= schema["properties"].keys()


@pytest.mark.parametrize("served", [*BUILT_IN, *widgets()], ids=lambda served: str(served.kind))
def test_writes_can_be_validated_and_tried(served: Served) -> None:
    kind = served.kind
    if "patch" not in kind.verbs:
        pytest.skip("cannot be patched")
    place = "namespaces/{namespace}/" if kind.namespaced else ""
    item = document([served], verbs_of)["paths"][f"/{path_of(kind)}/{place}{kind.plural}/{{name}}"]
    names = {(each["name"], each["in"]) for each in item["patch"]["parameters"]}
    assert {("dryRun", "query"), ("fieldValidation", "query"), ("fieldManager", "query")} <= names


def test_merge_keys_and_list_types_are_there() -> None:
    schemas = document(of_group("v1"), verbs_of)["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    assert "containers" in schemas["io.k8s.api.core.v1.PodSpec"]["required"]


def test_a_custom_kind_keeps_its_schema_and_descriptions() -> None:
    written = document(widgets(), verbs_of)
    schema = written["components"]["schemas"]["com.example.shop.v1.Widget"]
    assert schema["description"] == "A thing to sell."
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer", "minimum": 1}
    assert "/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}/status" in written["paths"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (POD, "io.k8s.api.core.v1.Pod"),
        (DEPLOYMENT, "io.k8s.api.apps.v1.Deployment"),
        (CRD, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
        (Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs"), "sh.volcano.batch.v1alpha1.Job"),
    ],
)
def test_schemas_have_the_names_a_real_server_gives_them(kind: Kind, name: str) -> None:
    assert schema_name(kind) == name
