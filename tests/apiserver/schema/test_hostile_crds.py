"""CRDs with malformed, deep, large or expensive schemas get a 4xx response that names the field."""

import copy
import random
import re
from typing import Any

import pytest

from tests.apiserver.schema.test_crds import definition
from tests.apiserver.servers import TestServer
from volcano.kube.api.manifest import Manifest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GARBAGE: list[Any] = [
    None,
    "",
    "text",
    0,
    -1,
    2.5,
    True,
    [],
    {},
    [None],
    ["text"],
    [[]],
    {"a": None},
    [{}],
    10**20,
]
# Parts of Kueue's CRDs that need RE2.
KUEUE_PATTERNS = [
    r"^(?i)[a-z]([a-z0-9-]*[a-z0-9])?$",
    r"^(?i)(flavor|resource)$",
    r"^[\p{L}\p{Lu}\p{N}_-]+$",
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
]


def crd(spec: Any, **versions: Any) -> Manifest:
    made = definition()
    made["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}
    }
    return made


def nested(depth: int, kind: str = "properties") -> Manifest:
    found: Manifest = {"type": "string"}
    for _ in range(depth):
        if kind == "properties":
            found = {"type": "object", "properties": {"a": found}}
        elif kind == "items":
            found = {"type": "array", "items": found}
        else:
            found = {"type": "object", kind: found if kind in ("additionalProperties", "not") else [found]}
    return found


@pytest.fixture
def server() -> TestServer:
    return TestServer()


@pytest.mark.parametrize(
    "rules",
    [
        "x", ["x"], [1], {"rule": "true"}, [{"rule": 1}], [{"rule": []}], [{}], [None], [{"rule": ""}], 7,
        [{"rule": "true", "message": 5}], [{"rule": "true", "message": "a\nb"}], [{"rule": "true\n&& true"}],
        [{"rule": "true", "reason": "Foo"}], [{"rule": "true", "fieldPath": ".x"}],
        [{"rule": "true", "messageExpression": "1"}], [{"rule": "true", "messageExpression": " "}],
        [{"rule": "true", "optionalOldSelf": "x"}], [{"rule": "self.nothing"}], [{"rule": "+".join(["1"] * 40000)}],
        [{"rule": "(" * 90000}], [{"rule": "'" + "\\" * 999}], [{"rule": "true || " + "x" * 100_000}],
        [{"rule": "'a'.matches('(?=a)')"}], [{"rule": f"'{'x' * 60_000}' != ''"}] * 2,
    ],
    ids=lambda rules: str(rules)[:40],
)  # fmt: skip
async def test_malformed_rules_are_rejected(server: TestServer, rules: Any) -> None:
    answer = await server.post(CRDS, crd({"type": "object", "x-kubernetes-validations": rules}))
    assert answer.code in (400, 422), answer.json
    assert "x-kubernetes-validations" in answer.message


@pytest.mark.parametrize("kind", ["properties", "items", "additionalProperties", "allOf", "anyOf", "not"])
async def test_deep_schemas_are_rejected(server: TestServer, kind: str) -> None:
    answer = await server.post(CRDS, crd(nested(110, kind)))
    assert answer.code in (400, 422), answer.json  # 400 where the body itself is nested too deep
    assert re.search(
        r"schemas may be nested at most 100 levels deep|exceeded max depth of 128", answer.message
    )


async def test_a_schema_of_fifty_levels_is_accepted(server: TestServer) -> None:
    assert (await server.post(CRDS, crd(nested(50)))).code == 201


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "(?=a)", "a{1001}", "a**", r"\8", "x" * 20_000,
                "((a{100}){100}){100}", r"\C"],
    ids=lambda pattern: pattern[:20],
)  # fmt: skip
async def test_patterns_that_are_not_valid_in_re2_are_rejected(server: TestServer, pattern: str) -> None:
    answer = await server.post(CRDS, crd({"type": "string", "pattern": pattern}))
    assert answer.code == 422, answer.json
    assert answer.json["details"]["causes"][0]["field"].endswith("properties[spec].pattern")
    assert "must be a valid regular expression, but isn't" in answer.message


async def test_an_invalid_pattern_below_a_default_is_rejected(server: TestServer) -> None:
    inner = {"type": "string", "pattern": "("}
    schema = {"type": "object", "properties": {"a": inner}, "default": {"a": "x"}}
    answer = await server.post(CRDS, crd(schema))
    assert answer.code == 422
    assert "must be a valid regular expression" in answer.message


async def test_patterns_that_together_are_too_long_are_rejected(server: TestServer) -> None:
    schema = {"type": "string", "pattern": "x" * 9_000}
    answer = await server.post(CRDS, crd({"type": "object", "properties": dict.fromkeys("abcdef", schema)}))
    assert answer.code == 422
    assert "the patterns of a schema may have at most 50000 characters in total" in answer.message


@pytest.mark.parametrize("pattern", KUEUE_PATTERNS)
async def test_patterns_of_re2_are_accepted(server: TestServer, pattern: str) -> None:
    assert (await server.post(CRDS, crd({"type": "string", "pattern": pattern}))).code == 201


@pytest.mark.parametrize(
    ("rule", "bounded"),
    [
        ("self.all(a, self.all(b, self.all(c, a + b + c > 0)))", 20),
        ("self.map(a, self.map(b, self.map(c, c))).size() > 0", 20),
        ("self.all(a, self.exists_one(b, a == b))", 500),
    ],
)
async def test_expensive_rules_are_rejected_unless_the_schema_bounds_them(
    server: TestServer, rule: str, bounded: int
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]}
    answer = await server.post(CRDS, crd(schema))
    assert answer.code == 422
    assert "estimated rule cost exceeds budget by factor of more than 100x" in answer.message
    assert "adding maxItems, maxProperties, and maxLength" in answer.message
    assert (await server.post(CRDS, crd({**schema, "maxItems": bounded}))).code == 201


async def test_rules_that_together_are_too_expensive_are_rejected(server: TestServer) -> None:
    rules = [{"rule": "self.all(a, self.all(b, self.all(c, a + b + c > 0)))"}] * 20
    schema = {
        "type": "array",
        "maxItems": 100,
        "items": {"type": "integer"},
        "x-kubernetes-validations": rules,
    }
    answer = await server.post(CRDS, crd(schema))
    assert answer.code == 422
    assert (
        "estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of" in answer.message
    )


async def test_a_rule_about_old_values_needs_items_that_can_be_correlated(server: TestServer) -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    answer = await server.post(CRDS, crd({"type": "array", "maxItems": 5, "items": item}))
    assert answer.code == 422
    assert "oldSelf cannot be used on the uncorrelatable portion of the schema" in answer.message


async def test_an_object_whose_evaluation_is_too_expensive_is_rejected(server: TestServer) -> None:
    rule = {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}
    schema = {
        "type": "array",
        "maxItems": 100,
        "items": {"type": "integer"},
        "x-kubernetes-validations": [rule],
    }
    assert (await server.post(CRDS, crd(schema))).code == 201
    await server.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": [1] * 100}
    answer = await server.post(path, body)
    assert answer.code == 422
    assert "actual cost limit exceeded" in answer.message
    assert (await server.post(path, {**body, "spec": [1] * 10})).code == 201


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [here, *(path for name, item in entries for path in places(item, (*here, name)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


async def test_no_garbage_in_a_crd_is_an_internal_error(server: TestServer) -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 5}},
        "required": ["name"],
    }
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "pattern": "^a+$", "default": "a", "format": "uuid", "enum": ["a"]},
            "b": {"type": "array", "maxItems": 5, "items": item, "x-kubernetes-list-type": "map",
                  "x-kubernetes-list-map-keys": ["name"]},
            "c": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "d": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
            "e": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": [
            {"rule": "self.a == 'a'", "message": "m", "messageExpression": "self.a", "reason": "FieldValueInvalid",
             "fieldPath": ".a", "optionalOldSelf": True}
        ],
    }  # fmt: skip
    whole = crd(schema)
    whole["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": "QQ=="},
            "conversionReviewVersions": ["v1"],
        },
    }
    whole["spec"]["versions"][0] |= {
        "selectableFields": [{"jsonPath": ".spec.a"}],
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
    }
    dice = random.Random(7)
    every = [path for path in places(whole) if path and path[0] == "spec"]
    for path in every:
        for garbage in dice.sample(GARBAGE, 4):
            body = replaced(whole, path, garbage)
            answer = await server.post(f"{CRDS}?dryRun=All", body)
            assert answer.code < 500, (path, garbage, answer.json)
