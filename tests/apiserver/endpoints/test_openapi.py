"""OpenAPI documents say what kubectl needs to explain, validate and dry-run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from volcano.apiserver.endpoints.openapi import OpenApi, document, path_of, schema_name
from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import served as served_by_crd
from volcano.kube.kinds import CRD, DEPLOYMENT, POD, Kind
from volcano.net.messages import Request, Response

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
def test_every_reference_of_a_document_leads_somewhere(api_version: str) -> None:
    written = document(of_group(api_version))
    known = {f"#/components/schemas/{name}" for name in written["components"]["schemas"]}
    assert set(references(written)) <= known


@pytest.mark.parametrize("served", [*BUILT_IN, *widgets()], ids=lambda served: str(served.kind))
def test_kubectl_finds_every_kind_by_path_and_by_schema(served: Served) -> None:
    """`explain` looks for the path, then for the schema that names the same kind."""
    kind = served.kind
    written = document([served])
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
    item = document([served])["paths"][f"/{path_of(kind)}/{place}{kind.plural}/{{name}}"]
    names = {(each["name"], each["in"]) for each in item["patch"]["parameters"]}
    assert {("dryRun", "query"), ("fieldValidation", "query"), ("fieldManager", "query")} <= names


def test_merge_keys_and_list_types_are_there() -> None:
    schemas = document(of_group("v1"))["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    assert "containers" in schemas["io.k8s.api.core.v1.PodSpec"]["required"]


def test_a_custom_kind_keeps_its_schema_and_its_words() -> None:
    written = document(widgets())
    schema = written["components"]["schemas"]["com.example.shop.v1.Widget"]
    assert schema["description"] == "A thing to sell."
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer", "minimum": 1}
    assert "/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}/status" in written["paths"]


class Table:
    """Kinds that come and go."""

    def __init__(self) -> None:
        self.served = list(BUILT_IN)
        self.generation = 1

    def answering(self) -> OpenApi:
        return OpenApi(lambda: self.served, lambda: self.generation)


def get(api: OpenApi, url: str, **headers: str) -> Response:
    path, _, query = url.partition("?hash=")
    answer = api(Request("GET", path, {"hash": [query]} if query else {}, headers))
    assert answer is not None
    return answer


def addresses(api: OpenApi) -> dict[str, str]:
    paths = json.loads(get(api, "/openapi/v3").body)["paths"]
    return {path: entry["serverRelativeURL"] for path, entry in paths.items()}


def test_documents_are_addressed_by_what_they_say() -> None:
    table = Table()
    api = table.answering()
    before = addresses(api)
    answer = get(api, before["api/v1"])
    assert answer.headers["Cache-Control"] == "public, immutable"
    assert schema_name(POD) in json.loads(answer.body)["components"]["schemas"]
    table.served += widgets()
    table.generation += 1
    after = addresses(api)
    assert after["api/v1"] == before["api/v1"]
    assert after.keys() - before.keys() == {"apis/shop.example.com/v1"}


def test_an_old_address_leads_to_the_new_one() -> None:
    api = Table().answering()
    answer = get(api, "/openapi/v3/apis/apps/v1?hash=OLD")
    assert (answer.status, answer.headers["Location"]) == (301, addresses(api)["apis/apps/v1"])


def test_what_the_client_has_is_not_sent_again() -> None:
    api = Table().answering()
    tag = get(api, "/openapi/v3/apis/apps/v1").headers["ETag"]
    again = get(api, "/openapi/v3/apis/apps/v1", **{"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")


def test_what_is_not_served_is_not_documented() -> None:
    assert Table().answering()(Request("GET", "/openapi/v3/apis/nobody/v1")) is None


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
