"""Our OpenAPI documents and those of a real API server describe the same fields."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.endpoints.test_surface_parity import Both
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.schema.openapi import path_of
from volcano.kube.api.kinds import BUILT_IN, NODE_METRICS, VIRTUAL

pytestmark = pytest.mark.k8s

# Metrics are served by metrics-server, not by kube-apiserver itself.
GROUPS = sorted({path_of(kind) for kind in BUILT_IN + VIRTUAL if kind.group != NODE_METRICS.group})
COMPARED = (
    "type", "format", "enum", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy",
)  # fmt: skip
# Schemas inside CRDs may be one thing or another; ours leave them open where a real server refers to a named type.
OPEN = "x-kubernetes-preserve-unknown-fields"


@pytest.fixture(scope="module")
def both(real_apiserver: RealCluster) -> Iterator[Both]:
    with asyncio.Runner() as runner:
        yield Both(real_apiserver, runner)


def essence(schema: Any) -> Any:
    """Schema of a field without descriptions; a reference is represented by its name."""
    if "allOf" in schema:
        return essence(schema["allOf"][0])
    if "$ref" in schema:
        return schema["$ref"]
    kept = {key: schema[key] for key in COMPARED if schema.get(key) not in (None, "granular")}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = essence(schema[key])
    return kept


@pytest.mark.parametrize("group", GROUPS)
def test_schemas_have_the_same_fields(both: Both, group: str) -> None:
    (_, ours), (_, real) = both.ask("GET", f"/openapi/v3/{group}")
    expected = real["components"]["schemas"]
    assert ours["components"]["schemas"].keys() <= expected.keys()
    for name, schema in ours["components"]["schemas"].items():
        known = expected[name]
        assert set(schema.get("required", [])) == set(known.get("required", [])), name
        fields, expected_fields = schema.get("properties", {}), known.get("properties", {})
        assert fields.keys() == expected_fields.keys(), name
        for key, about in fields.items():
            if not (about.get("items") or about.get("additionalProperties") or about).get(OPEN):
                assert essence(about) == essence(expected_fields[key]), f"{name}.{key}"


@pytest.mark.parametrize("group", GROUPS)
def test_paths_are_those_of_a_real_server(both: Both, group: str) -> None:
    (_, ours), (_, real) = both.ask("GET", f"/openapi/v3/{group}")
    for path, item in ours["paths"].items():
        methods = {method for method in item if method != "parameters"}
        assert methods <= real["paths"][path].keys(), path
        for method in methods:
            same = "x-kubernetes-group-version-kind"
            assert item[method][same] == real["paths"][path][method][same], f"{method} {path}"
