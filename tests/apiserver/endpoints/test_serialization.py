"""Request bodies in every format clients send, and compression of responses."""

import asyncio
import gzip
import time
from typing import Any

import orjson
import pytest

from volcano.apiserver.endpoints.serialization import (
    PROTOBUF,
    YAML_IN_LOOP_UP_TO,
    Body,
    BodyDecoder,
    compressed,
    decode_json,
)
from volcano.apiserver.limits import MAX_DEPTH, MAX_VALUES, MAX_VALUES_OF_CRDS
from volcano.kube.api import protobuf, type_info
from volcano.kube.api.errors import ApiError, BadRequest, TooLarge, UnsupportedMediaType

POD = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
JSON_BODY = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}'
YAML_BODY = b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n"
LARGE = b"# padding\n" * (YAML_IN_LOOP_UP_TO // 10 + 1)


def decode(body: bytes, content_type: str, *, strict: bool = False) -> Body:
    return asyncio.run(BodyDecoder().decode(body, content_type, strict=strict))


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (JSON_BODY, "application/json"),
        (JSON_BODY, "application/json; charset=utf-8"),
        (JSON_BODY, ""),
        (YAML_BODY, "application/yaml"),
        (LARGE + YAML_BODY, "application/yaml"),
        (YAML_BODY + b"---\nkind: Other\n", "application/yaml"),
        (JSON_BODY, "application/yaml"),
    ],
)
def test_json_and_yaml_mean_the_same(body: bytes, content_type: str) -> None:
    assert decode(body, content_type).value == POD


def test_protobuf_bodies_are_understood() -> None:
    type_ = type_info.type_named("v1", "Namespace")
    assert type_ is not None
    decoded = decode(protobuf.encode(type_, POD), PROTOBUF).value
    assert (decoded["kind"], decoded["metadata"]["name"]) == ("Namespace", "a")


@pytest.mark.parametrize("content_type", ["application/cbor", "text/plain", "application/x-yaml", ";;;"])
def test_other_formats_are_rejected(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="accepted media types include: application/json"):
        decode(JSON_BODY, content_type)


@pytest.mark.parametrize("content_type", ["", "application/json"])
def test_yaml_is_accepted_only_when_it_is_declared(content_type: str) -> None:
    with pytest.raises(BadRequest):
        decode(YAML_BODY, content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b"", "application/json"),
        (b'{"a": NaN}', "application/json"),
        (b'{"a": 1' + b"0" * 400 + b"}", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[" * 5000, "application/json"),
        (b"a: [", "application/yaml"),
        (b"a: !!python/object:os.system x", "application/yaml"),
        (b"? [a]\n: b", "application/yaml"),
        (b"a: .nan", "application/yaml"),
        (b"a: 99999999999999999999999", "application/yaml"),
        (b"{a: b", "application/yaml"),
        (b"[" * 40_000, "application/yaml"),
        (b"- " * 40_000, "application/yaml"),
        (b"? " * 40_000, "application/yaml"),
        (b"{a: " * 40_000, "application/yaml"),
        (b"[" * 5000, "application/yaml"),
        (b"[" * 1000 + b"]" * 1000, "application/json"),
        (LARGE + b"a: [", "application/yaml"),
        (b"nonsense", PROTOBUF),
        (b"k8s\x00\xff\xff\xff", PROTOBUF),
    ],
)
def test_malformed_bodies_are_the_clients_fault(body: bytes, content_type: str) -> None:
    with pytest.raises(BadRequest):
        decode(body, content_type)


def test_a_yaml_bomb_is_rejected_before_it_is_expanded() -> None:
    levels = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [b"a%d: &a%d [%b]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 9)]
    with pytest.raises(BadRequest, match="excessive aliasing"):
        decode(b"\n".join(levels), "application/yaml")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b"- a\n" * 500_000, "application/yaml", id="yaml scalars"),
        pytest.param(b"[" + b"1," * 1_500_000 + b"1]", "application/json", id="json numbers"),
        pytest.param(b"[" + b"{}," * 1_000_000 + b"{}]", "application/json", id="json objects"),
        pytest.param(
            b"a: &a {" + b",".join(b"k%d: 1" % i for i in range(300)) + b"}\n" + b"b: {<<: *a}\n" * 20_000,
            "application/yaml",
            id="yaml merge keys",
        ),
    ],
)
def test_a_body_with_too_many_values_is_rejected_soon(body: bytes, content_type: str) -> None:
    started = time.monotonic()
    with pytest.raises((TooLarge, BadRequest), match=rf"{MAX_VALUES} |{2 * MAX_VALUES} "):
        decode(body, content_type)
    assert time.monotonic() - started < 10  # took half a minute before there were limits


def test_a_crd_may_have_more_values_than_other_objects() -> None:
    properties = {f"field{i}": {"type": "string"} for i in range(MAX_VALUES // 2 + 1)}
    body = {"kind": "CustomResourceDefinition", "spec": {"properties": properties}}
    assert decode(orjson.dumps(body), "application/json").value == body
    with pytest.raises(TooLarge, match=f"{MAX_VALUES} "):
        decode(orjson.dumps({**body, "kind": "ConfigMap"}), "application/json")
    body["spec"] = dict.fromkeys(map(str, range(MAX_VALUES_OF_CRDS)))
    with pytest.raises(TooLarge, match=f"{MAX_VALUES_OF_CRDS} "):
        decode(orjson.dumps(body), "application/json")


def test_many_duplicate_fields_are_found_soon() -> None:
    body = b"{" + b",".join(b'"k%d":1,"k%d":2' % (i, i) for i in range(20_000)) + b"}"
    started = time.monotonic()
    errors = decode(body, "application/json").strict_errors
    assert time.monotonic() - started < 5  # took 26 s when the check was quadratic
    assert len(errors) == 100


def test_the_limit_of_depth_is_that_of_objects_which_can_be_encoded() -> None:
    nested = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert decode_json(nested).value
    with pytest.raises(BadRequest, match="exceeded max depth"):
        decode_json(b"[" + nested + b"]")


async def test_the_event_loop_runs_while_a_large_yaml_body_is_decoded() -> None:
    body = b"".join(b"k%d: v\n" % i for i in range(30_000))
    decoding = asyncio.create_task(BodyDecoder().decode(body, "application/yaml"))
    longest, last = 0.0, time.monotonic()
    while not decoding.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert len((await decoding).value) == 30_000
    assert longest < 0.5


async def test_duplicate_keys_of_a_large_yaml_body_are_reported() -> None:
    body = await BodyDecoder().decode_yaml(b"a: 1\na: 2\n" + LARGE)
    assert body == Body({"a": 2}, ('line 2: key "a" already set in map',))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"2026-01-02", "2026-01-02"),
        (b"2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        (b"12:30:45", "12:30:45"),
        (b"0644", 0o644),
        (b"0x1f", 31),
        (b"1e3", 1000.0),
        (b"yes", True),
        (b"null", None),
        (b"'1'", "1"),
        (b"-7", -7),
    ],
)
def test_yaml_scalars_are_read_as_kubernetes_reads_them(text: bytes, value: Any) -> None:
    assert decode(b"v: " + text, "application/yaml").value == {"v": value}


def test_yaml_keys_become_text() -> None:
    assert decode(b"1: a\ntrue: b\n", "application/yaml").value == {"1": "a", "true": "b"}


DUPLICATE = b'{"spec": {"replicas": 1, "replicas": 2, "list": [{"a": 1, "a": 1}]}}'


def test_duplicate_fields_are_named_with_their_path() -> None:
    body = decode(DUPLICATE, "application/json", strict=True)
    assert body.strict_errors == ('duplicate field "spec.replicas"', 'duplicate field "spec.list[0].a"')
    assert body.value["spec"]["replicas"] == 2


def test_duplicates_are_also_found_when_not_strict() -> None:
    assert decode(DUPLICATE.replace(b" ", b""), "application/json").strict_errors
    assert not decode(JSON_BODY, "application/json").strict_errors


def test_duplicate_yaml_keys_are_named_with_their_line() -> None:
    assert decode(b"a: 1\nb: 2\na: 3\n", "application/yaml").strict_errors == (
        'line 3: key "a" already set in map',
    )


async def test_only_long_responses_are_compressed_and_only_on_request() -> None:
    long, short = b"x" * 200_000, b"x" * 1000
    packed, headers = await compressed(long, "deflate, gzip")
    assert gzip.decompress(packed) == long
    assert headers["Content-Encoding"] == "gzip"
    assert await compressed(long, "") == (long, {})
    assert await compressed(short, "gzip") == (short, {})
    huge = b"y" * 2_000_000
    assert gzip.decompress((await compressed(huge, "gzip"))[0]) == huge


def test_decoding_errors_are_api_errors() -> None:
    with pytest.raises(ApiError):
        decode(b"{", "")
