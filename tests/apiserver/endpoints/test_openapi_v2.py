"""/openapi/v2: media types, caching, and the same content as JSON and as protobuf."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.schema.test_crds import definition
from tests.apiserver.servers import TestServer

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields of a message that has only strings and messages."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        assert key & 7 == 2, "only length-delimited fields are expected"
        length = varint()
        yield key >> 3, data[at : at + length]
        at += length


def named(data: bytes, number: int) -> dict[str, bytes]:
    """A repeated field of names and values."""
    entries = [dict(fields(entry)) for found, entry in fields(data) if found == number]
    return {entry[1].decode(): entry.get(2, b"") for entry in entries}


@pytest.fixture
async def server() -> TestServer:
    return await TestServer().start()


async def swagger(server: TestServer) -> Any:
    return (await server.get("/openapi/v2")).json


async def test_the_document_describes_built_in_and_custom_kinds(server: TestServer) -> None:
    await server.made(CRDS, definition())
    document = await swagger(server)
    assert document["swagger"] == "2.0"
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert document["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["type"] == "object"
    create = document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]
    assert create["parameters"][0]["schema"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}
    assert create["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    assert "#/components" not in json.dumps(document)


async def test_every_reference_is_defined(server: TestServer) -> None:
    document = await swagger(server)
    text = json.dumps(document)
    references = {part.split('"')[0] for part in text.split('"$ref": "#/definitions/')[1:]}
    assert references <= set(document["definitions"])


async def test_protobuf_has_the_same_paths_and_definitions(server: TestServer) -> None:
    await server.made(CRDS, definition())
    document = await swagger(server)
    answer = await server.get("/openapi/v2", accept=PROTOBUF)
    assert answer.headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    whole = dict(fields(answer.body))
    assert whole[1] == b"2.0"
    assert set(named(whole[8], 2)) == set(document["paths"])
    definitions = named(whole[9], 1)
    assert set(definitions) == set(document["definitions"])
    pod = definitions["io.k8s.api.core.v1.Pod"]
    properties = next(value for number, value in fields(pod) if number == 25)
    assert set(named(properties, 1)) == set(document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"])


async def test_large_responses_are_compressed_and_cached(server: TestServer) -> None:
    answer = await server.get("/openapi/v2", accept_encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body)) == await swagger(server)
    again = await server.get("/openapi/v2", if_none_match=answer.headers["ETag"])
    assert again.code == 304
    await server.made(CRDS, definition())
    changed = await server.get("/openapi/v2", if_none_match=answer.headers["ETag"])
    assert changed.code == 200


@pytest.mark.parametrize(
    ("accept", "code"),
    [("text/html", 406), ("application/yaml", 406), ("*/*", 200), ("text/html, application/json;q=0.5", 200)],
)
async def test_only_json_and_protobuf_are_served(server: TestServer, accept: str, code: int) -> None:
    assert (await server.get("/openapi/v2", accept=accept)).code == code


async def test_the_event_loop_runs_while_the_document_is_built(server: TestServer) -> None:
    building = asyncio.ensure_future(server.get("/openapi/v2"))
    steps = 0
    while not building.done():
        steps += 1
        await asyncio.sleep(0)
    assert steps > 10
    assert (await building).code == 200
