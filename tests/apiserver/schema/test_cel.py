"""CEL validation rules: their variables, when they are evaluated and how errors are reported."""

from typing import Any

import pytest

from volcano.apiserver.schema.cel import Expression, RuleCompilationError, compile_rules
from volcano.apiserver.schema.crd_schema import CompiledSchema
from volcano.kube.errors import Cause


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
            {"message": "too big", "messageExpression": "self.nowhere"},
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
    "text",
    [
        "quantity('1Gi').isGreaterThan(quantity('1000M'))",
        "quantity('1Gi').compareTo(quantity('1024Mi')) == 0",
        "quantity('2').add(quantity('500m')).asApproximateFloat() == 2.5",
        "isQuantity('1Gi') && !isQuantity('lots')",
        "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [3, 1].max() == 3",
        "['a', 'b', 'a'].indexOf('a') == 0 && ['a', 'b', 'a'].lastIndexOf('a') == 2",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "'a,b'.split(',') == ['a', 'b'] && ' x '.trim() == 'x' && 'ab'.upperAscii() == 'AB'",
        "url('https://example.com:80/p?q=1').getHost() == 'example.com:80'",
        "isIP('10.0.0.1') && ip('::1').family() == 6 && !isIP('ten')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsCIDR('11.0.0.0/16')",
        "'%s has %d of %.1f'.format(['a', 2, 3.0]) == 'a has 2 of 3.0'",
        "isSemver('1.2.3') && semver('1.10.0').isGreaterThan(semver('1.9.9'))",
        "self.?a.orValue(3) == 1 && self.?b.orValue(3) == 3 && self.?m.?k.orValue(0) == 7",
        "sets.contains([1, 2], [1]) && math.greatest(1, 2) == 2",
        "has(self.a) && !has(self.b) && self.m.all(k, self.m[k] > 0)",
    ],
)
def test_kubernetes_functions_are_there(text: str) -> None:
    assert Expression(text)({"self": {"a": 1, "m": {"k": 7}}}) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self +", "compilation failed: .*mismatched input"),
        ("nonsense(self)", "undeclared reference to 'nonsense'"),
        ("other == 1", "undeclared reference to 'other'"),
    ],
)
def test_an_invalid_rule_is_rejected_when_it_is_compiled(text: str, message: str) -> None:
    with pytest.raises(RuleCompilationError, match=message):
        Expression(text)


def test_a_rule_without_a_value_rejects_the_object() -> None:
    schema = {"type": "object", "x-kubernetes-validations": rule("self.missing == 1")}
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
