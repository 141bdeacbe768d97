"""Admission never has to read a custom resource whose values have the wrong types."""

from typing import Any

import pytest

from tests.apiserver.servers import TestServer
from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.kube.api.manifest import Manifest

CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kites.toys.example"},
    "spec": {
        "group": "toys.example",
        "names": {"plural": "kites", "kind": "Kite"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["color", "length"],
                                "properties": {"length": {"type": "integer"}, "color": {"type": "string"}},
                            }
                        },
                    }
                },
            }
        ],
    },
}
KITES = "/apis/toys.example/v1/namespaces/default/kites"


@admission_plugin()
async def paint(
    request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Admission that does arithmetic on what it is given, and fills in what is required."""
    if new is not None and request.kind.kind == "Kite":
        assert new["spec"].get("length", 0) + 1 > 0
        new["spec"].setdefault("color", "red")
    return new


@admission_plugin()
async def check_length(
    request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Admission that relies on what the schema requires."""
    if new is not None and request.kind.kind == "Kite":
        assert new["spec"]["length"] >= len(new["spec"]["color"])
    return new


@pytest.fixture
async def server() -> TestServer:
    server = TestServer(mutating=paint, validating=check_length)
    await server.start()
    await server.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    return server


def kite(**spec: Any) -> Manifest:
    return {"apiVersion": "toys.example/v1", "kind": "Kite", "metadata": {"name": "k"}, "spec": spec}


async def test_a_wrong_type_is_refused_before_admission_reads_it(server: TestServer) -> None:
    refused = await server.post(KITES, kite(length="long", color="blue"))
    assert refused.code == 422
    assert "spec.length" in refused.message


async def test_what_is_missing_may_still_be_filled_in(server: TestServer) -> None:
    assert (await server.made(KITES, kite(length=3)))["spec"] == {"length": 3, "color": "red"}


async def test_what_is_still_missing_is_refused_before_anybody_judges(server: TestServer) -> None:
    refused = await server.post(KITES, kite(color="blue"))
    assert refused.code == 422
    assert "spec.length: Required value" in refused.message
