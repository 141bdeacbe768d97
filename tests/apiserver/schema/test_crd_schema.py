"""Schemas of CRDs: validation, pruning and defaulting."""

import copy
from typing import Any

import pytest

from volcano.apiserver.schema.crd_schema import CompiledSchema
from volcano.kube.api.errors import Cause

NAMED = {"type": "object", "properties": {"name": {"type": "string"}}}


def schema(spec: dict[str, Any]) -> CompiledSchema:
    """Schema of objects with this spec."""
    return CompiledSchema({"type": "object", "properties": {"spec": spec}})


def causes(spec: dict[str, Any], value: Any) -> list[Cause]:
    return schema(spec).causes({"spec": value})


@pytest.mark.parametrize(
    ("spec", "value", "reason", "message"),
    [
        (
            {"type": "integer"},
            "x",
            "TypeInvalid",
            'Invalid value: "string": {} must be of type integer: "string"',
        ),
        (
            {"type": "integer"},
            1.5,
            "TypeInvalid",
            'Invalid value: "number": {} must be of type integer: "number"',
        ),
        (
            {"type": "integer"},
            True,
            "TypeInvalid",
            'Invalid value: "boolean": {} must be of type integer: "boolean"',
        ),
        ({"type": "string"}, None, "TypeInvalid", 'Invalid value: "null": {} must be of type string: "null"'),
        ({"type": "object"}, [], "TypeInvalid", 'Invalid value: "array": {} must be of type object: "array"'),
        (
            {"x-kubernetes-int-or-string": True},
            0.5,
            "TypeInvalid",
            'Invalid value: "number": {} must be of type integer,string: "number"',
        ),
        (
            {"type": "integer", "minimum": 0},
            -1,
            "Invalid",
            "Invalid value: -1: {} should be greater than or equal to 0",
        ),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            0,
            "Invalid",
            "Invalid value: 0: {} should be greater than 0",
        ),
        (
            {"type": "integer", "maximum": 5},
            6,
            "Invalid",
            "Invalid value: 6: {} should be less than or equal to 5",
        ),
        (
            {"type": "integer", "maximum": 5, "exclusiveMaximum": True},
            5,
            "Invalid",
            "Invalid value: 5: {} should be less than 5",
        ),
        (
            {"type": "integer", "multipleOf": 2},
            3,
            "Invalid",
            "Invalid value: 3: {} should be a multiple of 2",
        ),
        (
            {"type": "string", "minLength": 2},
            "a",
            "Invalid",
            'Invalid value: "a": {} should be at least 2 chars long',
        ),
        ({"type": "string", "maxLength": 2}, "abc", "TooLong", "Too long: may not be more than 2 bytes"),
        (
            {"type": "string", "pattern": "^a+$"},
            "b",
            "Invalid",
            "Invalid value: \"b\": {} should match '^a+$'",
        ),
        (
            {"type": "string", "pattern": "^a+$"},
            "a\n",
            "Invalid",
            "Invalid value: \"a\\n\": {} should match '^a+$'",
        ),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            "NotSupported",
            'Unsupported value: "c": supported values: "a", "b"',
        ),
        (
            {"type": "string", "format": "date-time"},
            "noon",
            "TypeInvalid",
            'Invalid value: "noon": {} must be of type date-time: "noon"',
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            "Invalid",
            "Invalid value: 0: {} should have at least 1 items",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "TooMany",
            "Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
            {"a": "b", "c": "d"},
            "TooMany",
            "Too many: 2: must have at most 1 item",
        ),
    ],
)
def test_an_invalid_value_gets_the_error_of_a_real_server(
    spec: dict[str, Any], value: Any, reason: str, message: str
) -> None:
    assert causes(spec, value) == [
        Cause(f"FieldValue{reason}", message.replace("{}", "spec in body"), "spec")
    ]


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, 1),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z"),
        ({"type": "string", "format": "unknown-format"}, "x"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"unknown": 1}),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"anything": [1, "b"]}),
        ({"type": "string", "pattern": r"^\$[[:alpha:]]+$"}, "$abc"),
    ],
)
def test_a_valid_value_is_accepted(spec: dict[str, Any], value: Any) -> None:
    assert causes(spec, value) == []


def test_what_is_missing_is_named_by_its_path() -> None:
    spec = {
        "type": "object",
        "properties": {"tasks": {"type": "array", "items": NAMED | {"required": ["name"]}}},
    }
    assert causes(spec, {"tasks": [{"name": "a"}, {}]}) == [
        Cause("FieldValueRequired", "Required value", "spec.tasks[1].name")
    ]


def test_every_fault_is_found_in_one_go() -> None:
    spec = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"type": "string"}},
        "required": ["c"],
    }
    assert {cause.field for cause in causes(spec, {"a": 1, "b": 2})} == {"spec.a", "spec.b", "spec.c"}


@pytest.mark.parametrize(
    ("kind", "items", "value", "field", "message"),
    [
        ("set", {"type": "string"}, ["a", "b", "a"], "spec[2]", 'Duplicate value: "a"'),
        ("map", NAMED, [{"name": "a"}, {"name": "a"}], "spec[1]", 'Duplicate value: {"name":"a"}'),
    ],
)
def test_items_of_sets_and_maps_are_unique(
    kind: str, items: dict[str, Any], value: Any, field: str, message: str
) -> None:
    spec = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": kind,
        "x-kubernetes-list-map-keys": ["name"],
    }
    assert causes(spec, value) == [Cause("FieldValueDuplicate", message, field)]


@pytest.mark.parametrize(
    ("keyword", "options", "right", "wrong", "text"),
    [
        ("anyOf", [{"minimum": 10}, {"maximum": 0}], 20, 5, "must validate at least one schema (anyOf)"),
        (
            "oneOf",
            [{"minimum": 10}, {"maximum": 20}],
            5,
            15,
            "must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
        ("allOf", [{"minimum": 10}, {"maximum": 20}], 15, 5, "must validate all the schemas (allOf)"),
    ],
)
def test_schemas_combine(keyword: str, options: Any, right: int, wrong: int, text: str) -> None:
    spec = {"type": "integer", keyword: options}
    assert causes(spec, right) == []
    assert f'Invalid value: "": "spec" {text}' in [cause.message for cause in causes(spec, wrong)]


def test_a_schema_may_be_ruled_out() -> None:
    spec = {"type": "integer", "not": {"minimum": 10}}
    assert causes(spec, 5) == []
    assert [cause.message for cause in causes(spec, 15)] == [
        'Invalid value: "": "spec" must not validate the schema (not)'
    ]


def test_unknown_fields_are_dropped_except_where_they_are_kept() -> None:
    compiled = schema(
        {
            "type": "object",
            "properties": {
                "known": {"type": "string"},
                "list": {"type": "array", "items": NAMED},
                "map": {"type": "object", "additionalProperties": NAMED},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"in": NAMED},
                },
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        }
    )
    manifest = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "m", "labels": {}},
        "other": 1,
        "spec": {
            "known": "a",
            "unknown": 1,
            "list": [{"name": "a", "unknown": 1}],
            "map": {"k": {"name": "a", "unknown": 1}},
            "free": {"kept": 1, "in": {"name": "a", "unknown": 1}},
            "embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "unknown": 1},
        },
    }
    unknown = compiled.unknown_fields(manifest)
    assert set(unknown) == {
        "other",
        "spec.unknown",
        "spec.list[0].unknown",
        "spec.map.k.unknown",
        "spec.free.in.unknown",
        "spec.embedded.unknown",
    }
    compiled.prune(manifest)
    assert compiled.unknown_fields(manifest) == []
    assert manifest["spec"] == {
        "known": "a",
        "list": [{"name": "a"}],
        "map": {"k": {"name": "a"}},
        "free": {"kept": 1, "in": {"name": "a"}},
        "embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}},
    }


def test_defaults_are_filled_in_at_every_depth_and_nulls_count_as_missing() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    compiled = schema(
        {
            "type": "object",
            "default": {"list": [{}]},
            "properties": {
                "a": {"type": "string", "default": "x"},
                "b": {"type": "string", "default": "y", "nullable": True},
                "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": item},
            },
        }
    )
    first: dict[str, Any] = {}
    compiled.default(first)
    assert first == {"spec": {"a": "x", "b": "y", "list": [{"n": 1}]}}
    second: dict[str, Any] = {"spec": {"a": None, "b": None, "list": [{"n": 2}, {}], "map": {"k": {}}}}
    compiled.default(second)
    assert second == {"spec": {"a": "x", "b": None, "list": [{"n": 2}, {"n": 1}], "map": {"k": {"n": 1}}}}
    again: dict[str, Any] = {}
    compiled.default(again)
    assert again == {"spec": {"a": "x", "b": "y", "list": [{"n": 1}]}}, "a default is copied each time"


@pytest.mark.parametrize("value", [1, "text", [1], {"list": 1}, {"list": [None, 1]}, {"map": []}])
def test_no_value_breaks_pruning_and_defaulting(value: Any) -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    compiled = schema(
        {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": item},
                "map": {"type": "object", "additionalProperties": item},
            },
        }
    )
    manifest = {"spec": copy.deepcopy(value)}
    compiled.unknown_fields(manifest)
    compiled.prune(manifest)
    compiled.default(manifest)
    assert compiled.causes(manifest) != []


def test_a_null_counts_as_absent_unless_it_is_allowed() -> None:
    compiled = schema(
        {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": True}},
        }
    )
    manifest = {"spec": {"a": None, "b": None}}
    compiled.prune(manifest)
    assert manifest == {"spec": {"b": None}}
    assert compiled.causes(manifest) == [Cause("FieldValueRequired", "Required value", "spec.a")]


def test_an_object_where_something_else_is_wanted_has_no_known_fields() -> None:
    compiled = schema({"type": "string"})
    manifest = {"spec": {"a": 1}}
    assert compiled.unknown_fields(manifest) == ["spec.a"]
    compiled.prune(manifest)
    assert manifest == {"spec": {}}


def test_numbers_out_of_their_formats_range_are_rejected() -> None:
    assert [
        cause.message for cause in causes({"type": "integer", "format": "int32", "maximum": 9}, 2**40)
    ] == [
        'Invalid value: "": Checked value must be of type integer with format int32 in spec',
        "Invalid value: 1099511627776: spec in body should be less than or equal to 9",
    ]


def test_errors_of_unchanged_values_are_ignored() -> None:
    compiled = schema({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    old = {"spec": {"a": "stale", "b": 1}}
    assert compiled.causes({"spec": {"a": "stale", "b": 2}}, old) == []
    assert [cause.field for cause in compiled.causes({"spec": {"a": "other", "b": 2}}, old)] == ["spec.a"]
