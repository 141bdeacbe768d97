"""Request bodies in every format clients send, and compression of responses."""

import gzip
from typing import Any

import pytest

from volcano.apiserver.endpoints.serialization import (
    PROTOBUF,
    compressed,
    decode,
    decode_yaml,
)
from volcano.kube import protobuf, type_info
from volcano.kube.errors import ApiError, BadRequest, UnsupportedMediaType

POD = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
JSON_BODY = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}'
YAML_BODY = b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (JSON_BODY, "application/json"),
        (JSON_BODY, "application/json; charset=utf-8"),
        (JSON_BODY, ""),
        (JSON_BODY, "text/plain; charset=utf-8"),
        (YAML_BODY, "application/yaml"),
        (YAML_BODY, "text/plain"),
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


def test_other_formats_are_rejected() -> None:
    with pytest.raises(UnsupportedMediaType, match="accepted media types include: application/json"):
        decode(JSON_BODY, "application/cbor")


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
        (b"---\na: 1\n---\nb: 2\n", "application/yaml"),
        (b"[" * 5000, "application/yaml"),
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
    with pytest.raises(BadRequest, match="more than"):
        decode(b"\n".join(levels), "application/yaml")


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
    assert decode_yaml(b"a: 1\nb: 2\na: 3\n").strict_errors == ('line 3: key "a" already set in map',)


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
