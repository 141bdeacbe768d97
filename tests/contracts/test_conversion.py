"""Conversion webhooks: a custom kind in two versions with different fields, on every server."""

import asyncio
import base64
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contracts.namespace_client import NamespaceClient
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls import Authority, create_authority, issue, server_context
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import CRD, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options, PatchType, Query

pytestmark = pytest.mark.slow

READY_WITHIN = 30.0
names = itertools.count(1)
Change = Callable[[Manifest], Any]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return create_authority("hooks", now=time.time())


@dataclass
class Converter:
    """A conversion webhook: v1 has `spec.host` and `spec.port`, v2 has `spec.address`. `change` alters responses."""

    server: Server
    authority: str
    reviews: list[Manifest] = field(default_factory=list)
    change: Change | None = None

    async def answer(self, request: Request) -> Answer:
        review = json.loads(request.body)
        self.reviews.append(review["request"])
        objects = [
            converted(each, review["request"]["desiredAPIVersion"]) for each in review["request"]["objects"]
        ]
        response = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": objects,
        }
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        if self.change is not None:
            changed = self.change(body)
            if isinstance(changed, Response):
                return changed
        return Response(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    @property
    def conversion(self) -> Manifest:
        client = {"url": f"{self.server.url}/convert", "caBundle": self.authority}
        return {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }


def converted(manifest: Manifest, api_version: str) -> Manifest:
    spec = dict(manifest.get("spec") or {})
    if api_version.endswith("/v2"):
        spec = {"address": f"{spec.get('host', '')}:{spec.get('port', 0)}"}
    else:
        host, _, port = spec.get("address", ":0").partition(":")
        spec = {"host": host, "port": int(port)}
    metadata = {**manifest["metadata"], "annotations": {"converted-to": api_version.rpartition("/")[2]}}
    return {**manifest, "apiVersion": api_version, "metadata": metadata, "spec": spec}


@pytest.fixture
async def converter(authority: Authority) -> AsyncIterator[Converter]:
    credential = issue(authority, "hooks", now=time.time(), hosts=["127.0.0.1"], server=True)
    made: list[Converter] = []
    server = Server(lambda request: made[0].answer(request), tls=server_context(credential))
    await server.start()
    made.append(Converter(server, base64.b64encode(authority.cert_pem).decode()))
    yield made[0]
    await server.stop(grace=0.1)


@dataclass
class Endpoints:
    """The custom kind of one test, in both versions."""

    ns: NamespaceClient
    v1: Kind
    v2: Kind
    crd: str

    def make(self, version: str, name: str, **spec: Any) -> Manifest:
        metadata = {"name": name, "namespace": self.ns.namespace}
        return {
            "apiVersion": f"{self.v1.group}/{version}",
            "kind": "Point",
            "metadata": metadata,
            "spec": spec,
        }

    async def store_in(self, version: str) -> None:
        """Changes the storage version."""
        stored = await self.ns.client.get(CRD, Key("", self.crd))
        for each in stored["spec"]["versions"]:
            each["storage"] = each["name"] == version
        await self.ns.client.update(CRD, stored)


@pytest.fixture
async def points(ns: NamespaceClient, converter: Converter) -> Endpoints:
    group = f"g{next(names)}.convert.example.com"
    fields = {"v1": {"host": "string", "port": "integer"}, "v2": {"address": "string"}}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == "v1",
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {name: {"type": kind} for name, kind in properties.items()},
                        },
                        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
                    },
                }
            },
        }
        for version, properties in fields.items()
    ]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"points.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "points", "singular": "point", "kind": "Point", "listKind": "PointList"},
            "versions": versions,
            "conversion": converter.conversion,
        },
    }
    await ns.client.create(CRD, crd)
    kinds = [Kind(group, version, "Point", "points", True, (), (), ("status",)) for version in ("v1", "v2")]
    made = Endpoints(ns, kinds[0], kinds[1], f"points.{group}")
    await served(made)
    return made


async def served(points: Endpoints) -> None:
    """Waits until both versions are served, which takes a real server a moment."""
    deadline = time.monotonic() + READY_WITHIN
    for kind in (points.v1, points.v2):
        while True:
            try:
                await points.ns.client.list(kind, points.ns.query())
                break
            except NotFound:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)


async def test_an_object_is_read_in_every_version(points: Endpoints) -> None:
    client, ns = points.ns.client, points.ns
    made = await client.create(points.v2, points.make("v2", "a", address="h:80"))
    assert (made["apiVersion"], made["spec"]) == (points.v2.api_version, {"address": "h:80"})
    v1 = await client.get(points.v1, ns.key("a"))
    assert (v1["apiVersion"], v1["spec"]) == (points.v1.api_version, {"host": "h", "port": 80})
    v2 = await client.get(points.v2, ns.key("a"))
    assert v2["spec"] == {"address": "h:80"}
    assert v2["metadata"]["uid"] == v1["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_list_is_converted(
    points: Endpoints, converter: Converter, request: pytest.FixtureRequest
) -> None:
    client, ns = points.ns.client, points.ns
    for number in range(3):
        await client.create(points.v1, points.make("v1", f"p{number}", host="h", port=number))
    converter.reviews.clear()
    listing = await client.list(points.v2, ns.query())
    assert sorted(item["spec"]["address"] for item in listing.items) == ["h:0", "h:1", "h:2"]
    if "real" not in request.node.name:  # a real server converts objects when they enter its watch cache
        assert [len(review["objects"]) for review in converter.reviews] == [3]
        assert converter.reviews[0]["desiredAPIVersion"] == points.v2.api_version


async def test_updates_and_patches_are_made_in_the_version_of_the_request(points: Endpoints) -> None:
    client, ns = points.ns.client, points.ns
    made = await client.create(points.v1, points.make("v1", "a", host="h", port=1))
    changed = await client.get(points.v2, ns.key("a"))
    changed["spec"]["address"] = "other:2"
    updated = await client.update(points.v2, changed)
    assert updated["spec"] == {"address": "other:2"}
    assert updated["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert (await client.get(points.v1, ns.key("a")))["spec"] == {"host": "other", "port": 2}
    merge = Options(patch_type=PatchType.MERGE)
    await client.patch(points.v2, ns.key("a"), {"spec": {"address": "third:3"}}, options=merge)
    assert (await client.get(points.v1, ns.key("a")))["spec"] == {"host": "third", "port": 3}


async def test_a_watch_gets_events_in_its_version(points: Endpoints) -> None:
    client, ns = points.ns.client, points.ns
    await client.create(points.v1, points.make("v1", "first", host="h", port=1))
    listing = await client.list(points.v2, ns.query())
    query = Query(namespace=ns.namespace, resource_version=listing.resource_version, timeout_seconds=20)
    seen = []
    async with aclosing(client.watch(points.v2, query)) as events:  # type: ignore[type-var]
        await client.create(points.v1, points.make("v1", "second", host="h", port=2))
        await client.delete(points.v1, ns.key("first"))
        async for event in events:
            seen.append((event.type, event.object["apiVersion"], event.object["spec"]))
            if len(seen) == 2:
                break
    assert seen == [
        ("ADDED", points.v2.api_version, {"address": "h:2"}),
        ("DELETED", points.v2.api_version, {"address": "h:1"}),
    ]


async def test_labels_and_annotations_may_change_and_other_metadata_is_restored(
    points: Endpoints, converter: Converter
) -> None:
    client, ns = points.ns.client, points.ns
    made = await client.create(points.v1, points.make("v1", "a", host="h", port=1))

    def garble(body: Manifest) -> None:
        for each in body["response"]["convertedObjects"]:
            each["metadata"] |= {
                "labels": {"added": "1"},
                "generation": 99,
                "finalizers": ["x.example.com/y"],
            }

    converter.change = garble
    found = await client.get(points.v2, ns.key("a"))
    assert found["metadata"]["labels"] == {"added": "1"}
    assert found["metadata"]["annotations"] == {"converted-to": "v2"}
    assert found["metadata"]["generation"] == made["metadata"]["generation"]
    assert "finalizers" not in found["metadata"]


def _uid(body: Manifest) -> None:
    body["response"]["uid"] = "another"


def _missing(body: Manifest) -> None:
    body["response"]["convertedObjects"] = []


def _name(body: Manifest) -> None:
    body["response"]["convertedObjects"][0]["metadata"]["name"] = "b"


def _version(body: Manifest) -> None:
    body["response"]["convertedObjects"][0]["apiVersion"] = "example.com/v3"


def _kind(body: Manifest) -> None:
    body["response"]["convertedObjects"][0]["kind"] = "Line"


def _failure(body: Manifest) -> None:
    body["response"] |= {"result": {"status": "Failure", "message": "no such address"}}


def _wrong_review(body: Manifest) -> None:
    body["kind"] = "AdmissionReview"


def _not_json(body: Manifest) -> Response:
    return Response(200, {"Content-Type": "application/json"}, b"<html>")


def _error(body: Manifest) -> Response:
    return Response(503, {}, b"")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_uid, "uid"),
        (_missing, "0 objects"),
        (_name, "must have the same name"),
        (_version, "invalid groupVersion"),
        (_kind, "invalid kind"),
        (_failure, "no such address"),
        (_wrong_review, "AdmissionReview"),
        (_not_json, "conversion webhook"),
        (_error, "conversion webhook"),
    ],
)
async def test_an_invalid_response_is_an_error_and_changes_nothing(
    points: Endpoints, converter: Converter, change: Change, text: str
) -> None:
    client, ns = points.ns.client, points.ns
    await client.create(points.v1, points.make("v1", "a", host="h", port=1))
    converter.change = change
    with pytest.raises(ApiError, match=r"conversion webhook for .* Kind=Point") as caught:
        await client.get(points.v2, ns.key("a"))
    assert caught.value.code == 500
    if text != "0 objects":  # a real server counts in other words
        assert text in str(caught.value)
    with pytest.raises(ApiError):
        await client.create(points.v2, points.make("v2", "c", address="h:1"))
    converter.change = None
    assert [item["metadata"]["name"] for item in (await client.list(points.v1, ns.query())).items] == ["a"]


async def test_a_webhook_that_cannot_be_reached_affects_only_other_versions(
    points: Endpoints, converter: Converter
) -> None:
    client, ns = points.ns.client, points.ns
    await client.create(points.v1, points.make("v1", "a", host="h", port=1))
    await converter.server.stop(grace=0)
    assert (await client.get(points.v1, ns.key("a")))["spec"] == {"host": "h", "port": 1}
    with pytest.raises(ApiError, match=r"conversion webhook for .* failed"):
        await client.list(points.v2, ns.query())
    await client.delete(points.v1, ns.key("a"))


async def test_the_storage_version_may_change_and_old_versions_are_recorded(points: Endpoints) -> None:
    client, ns = points.ns.client, points.ns
    await client.create(points.v1, points.make("v1", "old", host="h", port=1))
    await points.store_in("v2")
    stored = await client.get(CRD, Key("", points.crd))
    deadline = time.monotonic() + READY_WITHIN
    while stored["status"]["storedVersions"] != ["v1", "v2"] and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        stored = await client.get(CRD, Key("", points.crd))
    assert stored["status"]["storedVersions"] == ["v1", "v2"]
    await client.create(points.v1, points.make("v1", "new", host="h", port=2))
    for kind, specs in (
        (points.v1, [{"host": "h", "port": 2}, {"host": "h", "port": 1}]),
        (points.v2, [{"address": "h:2"}, {"address": "h:1"}]),
    ):
        listing = await client.list(kind, ns.query())
        assert [
            item["spec"] for item in sorted(listing.items, key=lambda each: str(each["metadata"]["name"]))
        ] == specs
