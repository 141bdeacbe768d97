"""Protobuf bodies written by Kubernetes' own Go code decode to the JSON it writes for the same objects."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.api import protobuf, type_info

# Each line holds one object as k8s.io/apimachinery serialises it, in protobuf and in JSON.
RECORDED = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/protobuf.jsonl").read_text().splitlines()
]
NAMES = [recorded["json"]["kind"] for recorded in RECORDED]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return value


@pytest.mark.parametrize("recorded", RECORDED, ids=NAMES)
def test_a_recorded_body_decodes_to_its_json(recorded: Any) -> None:
    decoded = protobuf.decode(base64.b64decode(recorded["protobuf"]))
    assert decoded == without_nulls(recorded["json"])


@pytest.mark.parametrize("recorded", RECORDED, ids=NAMES)
def test_what_is_encoded_decodes_to_the_same(recorded: Any) -> None:
    manifest = without_nulls(recorded["json"])
    type_ = type_info.type_named(manifest["apiVersion"], manifest["kind"])
    assert type_ is not None
    assert protobuf.decode(protobuf.encode(type_, manifest)) == manifest


@pytest.mark.parametrize("recorded", RECORDED, ids=NAMES)
def test_decoded_manifests_are_what_their_type_says(recorded: Any) -> None:
    decoded = protobuf.decode(base64.b64decode(recorded["protobuf"]))
    type_ = type_info.type_named(decoded["apiVersion"], decoded["kind"])
    assert type_ is not None
    assert type_info.inspect(type_, decoded) == type_info.Inspection([], [])


def test_fields_of_newer_clients_are_passed_over() -> None:
    names = b"\x0a\x02v1\x12\x09ConfigMap"
    content = b"\x12\x06\x0a\x01a\x12\x01b" + b"\xd2\x0f\x01A"  # data: {a: b}, then field 250
    body = b"k8s\x00" + b"\x0a" + bytes([len(names)]) + names + b"\x12" + bytes([len(content)]) + content
    assert protobuf.decode(body) == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "must start with k8s"),
        (b'{"kind":"Pod"}', "must start with k8s"),
        (b"k8s\x00", "no protobuf is known for kind ''"),
        (b"k8s\x00\x0a\xff", "ends in the middle|cut off"),
        (b"k8s\x00\x0b", "wire type 3"),
    ],
)
def test_garbage_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        protobuf.decode(body)


def test_a_bottomless_schema_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(80):
        schema = {"type": "object", "properties": {"a": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }
    body = protobuf.encode(type_info.named("apiextensions.v1.CustomResourceDefinition"), crd)
    with pytest.raises(ValueError, match="levels of nesting"):
        protobuf.decode(body)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(RECORDED), st.integers(4, 5000), st.binary(max_size=4), st.integers(0, 4))
def test_damaged_bodies_are_decoded_or_refused_but_never_break(
    recorded: Any, place: int, put: bytes, dropped: int
) -> None:
    body = base64.b64decode(recorded["protobuf"])
    place = min(place, len(body))
    damaged = body[:place] + put + body[place + dropped :]
    try:
        decoded = protobuf.decode(damaged)
    except ValueError:
        return
    assert isinstance(decoded["kind"], str)
