"""CEL validation rules: their variables, when they are evaluated and how errors are reported."""

from typing import Any

import pytest

from volcano.apiserver.schema.crd_schema import CompiledSchema
from volcano.apiserver.schema.validation_rules import compile_rules
from volcano.kube.api.errors import Cause
from volcano.kube.cel.program import InvalidExpression


def causes(schema: dict[str, Any], new: Any, old: Any = None) -> list[Cause]:
    rules = compile_rules({"type": "object", "properties": {"spec": schema}})
    assert rules is not None
    return rules.causes({"spec": new}, None if old is None else {"spec": old})


def rule(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": text, **more}]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, Cause("FieldValueInvalid", "Invalid value: 5: failed rule: self < 3", "spec")),
        ({"message": "too big"}, Cause("FieldValueInvalid", "Invalid value: 5: too big", "spec")),
        (
            {"messageExpression": "'%d is too big'.format([self])"},
            Cause("FieldValueInvalid", "Invalid value: 5: 5 is too big", "spec"),
        ),
        (
            {"message": "too big", "messageExpression": "string(1 / (self - 5))"},
            Cause("FieldValueInvalid", "Invalid value: 5: too big", "spec"),
        ),
        (
            {"message": "no", "reason": "FieldValueForbidden"},
            Cause("FieldValueForbidden", "Forbidden: no", "spec"),
        ),
        ({"reason": "FieldValueDuplicate"}, Cause("FieldValueDuplicate", "Duplicate value: 5", "spec")),
    ],
)
def test_a_rule_that_fails_reports_the_given_message(more: dict[str, Any], expected: Cause) -> None:
    schema = {"type": "integer", "x-kubernetes-validations": rule("self < 3", **more)}
    assert causes(schema, 2) == []
    assert causes(schema, 5) == [expected]


def test_a_rule_about_an_object_can_report_one_of_its_fields() -> None:
    schema = {
        "type": "object",
        "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
        "x-kubernetes-validations": rule("self.low <= self.high", fieldPath=".low", message="upside down"),
    }
    assert causes(schema, {"low": 1, "high": 2}) == []
    assert causes(schema, {"low": 3, "high": 2}) == [
        Cause("FieldValueInvalid", "Invalid value: upside down", "spec.low")
    ]


def test_transition_rules_are_evaluated_only_with_an_old_value() -> None:
    schema = {
        "type": "integer",
        "x-kubernetes-validations": rule("self >= oldSelf", message="may not shrink"),
    }
    assert causes(schema, 1) == []
    assert causes(schema, 5, 4) == []
    assert [cause.message for cause in causes(schema, 3, 4)] == ["Invalid value: 3: may not shrink"]


def test_an_optional_old_value_can_be_used() -> None:
    text = "oldSelf.hasValue() ? self == oldSelf.value() : self == 1"
    schema = {"type": "integer", "x-kubernetes-validations": rule(text, optionalOldSelf=True)}
    assert causes(schema, 1) == []
    assert causes(schema, 7, 7) == []
    assert len(causes(schema, 2)) == 1
    assert len(causes(schema, 2, 1)) == 1


def test_items_of_map_lists_are_compared_with_their_old_values() -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": rule("self.size >= oldSelf.size"),
    }
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    old = [{"name": "a", "size": 2}, {"name": "b", "size": 1}]
    assert causes(keyed, [{"name": "b", "size": 1}, {"name": "a", "size": 2}], old) == []
    assert [
        cause.field for cause in causes(keyed, [{"name": "b", "size": 0}, {"name": "c", "size": 0}], old)
    ] == ["spec[0]"]
    plain = {"type": "array", "items": item}
    assert causes(plain, [{"name": "b", "size": 0}], old) == []


def test_unchanged_values_are_not_validated_again() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "x-kubernetes-validations": rule("self < 3")}},
    }
    assert causes(schema, {"a": 5, "b": 2}, {"a": 5, "b": 1}) == []
    assert len(causes(schema, {"a": 6}, {"a": 5})) == 1


def test_rules_see_times_durations_and_awkward_names() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "for": {"type": "string", "format": "duration"},
            "max-surge": {"type": "integer"},
        },
        "x-kubernetes-validations": [
            {"rule": "self.at > timestamp('2020-01-01T00:00:00Z')"},
            {"rule": "self.__for__ < duration('1h')"},
            {"rule": "self.max__dash__surge == 3"},
        ],
    }
    assert causes(schema, {"at": "2026-01-01T00:00:00Z", "for": "30m", "max-surge": 3}) == []
    assert len(causes(schema, {"at": "2019-01-01T00:00:00Z", "for": "2h", "max-surge": 4})) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self +", "compilation failed: .*mismatched input"),
        ("nonsense(self)", "undeclared reference to 'nonsense'"),
        ("other == 1", "undeclared reference to 'other'"),
        ("self + 1", "must evaluate to a bool"),
    ],
)
def test_an_invalid_rule_is_rejected_when_it_is_compiled(text: str, message: str) -> None:
    with pytest.raises(InvalidExpression, match=message):
        compile_rules({"type": "integer", "x-kubernetes-validations": rule(text)})


def test_a_rule_without_a_value_rejects_the_object() -> None:
    schema = {
        "type": "object",
        "properties": {"missing": {"type": "integer"}},
        "x-kubernetes-validations": rule("self.missing == 1"),
    }
    assert [cause.message for cause in causes(schema, {})] == [
        'Invalid value: "object": no such key: missing evaluating rule: self.missing == 1'
    ]


def test_rules_are_not_evaluated_for_values_that_the_schema_rejects() -> None:
    schema = {"type": "integer", "x-kubernetes-validations": rule("self < 3")}
    compiled = CompiledSchema({"type": "object", "properties": {"spec": schema}})
    type_error, not_checked = compiled.causes({"spec": "text"})
    assert type_error.reason == "FieldValueTypeInvalid"
    assert not_checked.message == (
        "Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


def nested(quantifier: str, depth: int) -> str:
    """`self.all(a, self.all(b, ...))`."""
    text = "true" if quantifier == "all" else "1"
    for level in range(depth):
        text = f"self.{quantifier}(v{level}, {text})"
    return text if quantifier == "all" else f"{text}.size() > 0"


@pytest.mark.parametrize("quantifier", ["all", "map"])
def test_a_rule_that_exceeds_the_cost_limit_of_a_call_is_stopped(quantifier: str) -> None:
    items = {"type": "array", "items": {"type": "integer"}}
    text = nested(quantifier, 4)
    schema = {**items, "x-kubernetes-validations": [*rule(text), *rule("self.size() < 0")]}
    assert [cause.message for cause in causes(schema, list(range(100)))] == [
        "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules "
        f"will be run due to call cost exceeds limit for rule: {text}"
    ]


def test_rules_that_together_exceed_the_cost_limit_of_an_object_are_stopped() -> None:
    text = nested("all", 2)
    items = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rule(text) * 200}
    found = causes(items, list(range(100)))
    assert [cause.message for cause in found] == [
        'Invalid value: "array": validation failed due to running out of cost budget, no further validation rules '
        "will be run"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "self.replace('a', self).size() > 0",
        "self.split('').join(self).size() > 0",
        "[self, self, self, self].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x)"
        ".map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).size() > 0",
        "'%s%s%s%s'.format([self, self, self, self]).size() > 0 && self.contains(self + 'b')",
        "lists.range(100000000).size() > 0",
        "self.findAll('x*').size() > 0",
        "self.split('').distinct().size() > 0",
        "[self.split('')].map(x, sets.contains(x, x))[0]",
    ],
)
def test_an_expression_cannot_build_or_search_more_than_its_cost_limit(text: str) -> None:
    schema = {"type": "string", "x-kubernetes-validations": rule(text)}
    found = causes(schema, "ab" * 500_000)
    assert len(found) == 1
    assert "actual cost limit exceeded" in found[0].message


def test_a_pattern_needs_linear_time_only() -> None:
    schema = {
        "type": "string",
        "pattern": "^(a+)+$",
        "x-kubernetes-validations": rule("self.matches('^(a+)+$')"),
    }
    compiled = CompiledSchema({"type": "object", "properties": {"spec": schema}})
    assert compiled.causes({"spec": "a" * 40}) == []
    messages = [cause.message for cause in compiled.causes({"spec": "a" * 40 + "b"})]
    assert len(messages) == 2
    assert "should match '^(a+)+$'" in messages[0]
    assert "failed rule" in messages[1]


def test_the_oldest_values_of_long_map_lists_are_found_quickly() -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": rule("self.size >= oldSelf.size"),
    }
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    old = [{"name": str(number), "size": 2} for number in range(2000)]
    new = [{"name": str(number), "size": 1 if number == 1234 else 2} for number in reversed(range(2000))]
    assert [cause.field for cause in causes(keyed, new, old)] == ["spec[765]"]
