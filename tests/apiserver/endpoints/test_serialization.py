"""Request bodies in every format clients send, and the answers they accept."""

import gzip
from typing import Any

import pytest

from volcano.apiserver.endpoints.serialization import (
    DISCOVERY_SHAPES,
    PROTOBUF,
    Wanted,
    compressed,
    decode,
    decode_yaml,
    negotiate,
)
from volcano.kube import protobuf, type_info
from volcano.kube.errors import ApiError, BadRequest, NotAcceptable, UnsupportedMediaType

KUBECTL_TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        pytest.param("", Wanted(), id="no preference"),
        pytest.param("*/*", Wanted(), id="anything"),
        pytest.param("application/json, */*", Wanted(), id="JSON first"),
        pytest.param(
            "application/vnd.kubernetes.protobuf,application/json", Wanted(), id="client-go settles for JSON"
        ),
        pytest.param(KUBECTL_TABLE, Wanted("application/json", "Table", "v1"), id="kubectl get"),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Wanted("application/json", "PartialObjectMetadataList", "v1"),
            id="metadata only",
        ),
        pytest.param("application/json;as=Nonsense;g=x;v=v1,application/json", Wanted(), id="unknown shape"),
        pytest.param("application/yaml", Wanted("application/yaml"), id="YAML"),
        pytest.param("application/yaml;q=0.1, application/json", Wanted(), id="quality decides"),
        pytest.param("application/yaml;q=x, application/json", Wanted(), id="quality that is no number"),
    ],
)
def test_the_best_acceptable_shape_is_chosen(accept: str, wanted: Wanted) -> None:
    assert negotiate(accept) == wanted


def test_aggregated_discovery_is_a_shape_of_its_own() -> None:
    assert negotiate(KUBECTL_DISCOVERY, DISCOVERY_SHAPES).version == "v2"
    assert negotiate(KUBECTL_DISCOVERY).shape == ""


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;as=Table;g=meta.k8s.io;v=v9", "image/*", ";,;"]
)
def test_what_nobody_can_answer_is_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: application/json"):
        negotiate(accept)


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


def test_other_formats_are_refused() -> None:
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


def test_a_yaml_bomb_is_refused_before_it_unfolds() -> None:
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
    assert body.complaints == ('duplicate field "spec.replicas"', 'duplicate field "spec.list[0].a"')
    assert body.value["spec"]["replicas"] == 2


def test_duplicates_are_also_found_when_nobody_is_strict() -> None:
    assert decode(DUPLICATE.replace(b" ", b""), "application/json").complaints
    assert not decode(JSON_BODY, "application/json").complaints


def test_duplicate_yaml_keys_are_named_with_their_line() -> None:
    assert decode_yaml(b"a: 1\nb: 2\na: 3\n").complaints == ('line 3: key "a" already set in map',)


async def test_only_long_answers_are_compressed_and_only_on_request() -> None:
    long, short = b"x" * 200_000, b"x" * 1000
    packed, headers = await compressed(long, "deflate, gzip")
    assert gzip.decompress(packed) == long
    assert headers["Content-Encoding"] == "gzip"
    assert await compressed(long, "") == (long, {})
    assert await compressed(short, "gzip") == (short, {})
    huge = b"y" * 2_000_000
    assert gzip.decompress((await compressed(huge, "gzip"))[0]) == huge


def test_refusals_are_api_errors() -> None:
    with pytest.raises(ApiError):
        decode(b"{", "")
