"""Selectors choose what a real API server would choose."""

from typing import Any

import pytest

from volcano.kube.api import selectors
from volcano.kube.api.selectors import EVERYTHING, NOTHING, FieldRequirement

LABELS = {"app": "web", "tier": "front", "volcano.sh/queue": "q1", "rank": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("missing", False),
        ("!missing", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier = front ", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=web", True),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (api,db)", True),
        ("app notin (web)", False),
        ("missing notin (web)", True),
        ("missing in (web)", False),
        ("volcano.sh/queue=q1", True),
        ("rank>4", True),
        ("rank < 5", False),
        ("app>4", False),
        ("empty=", True),
        ("app=", False),
        ("empty in (,x)", True),
    ],
)
def test_label_selector_text(text: str, expected: bool) -> None:
    assert selectors.parse_labels(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    "text",
    [
        "app=web,",
        ",app=web",
        "app in web",
        "app in (web",
        "app in (web api)",
        "=web",
        "app=web=x",
        "app web",
        "rank>high",
        "a b/c=d",
        "Bad_Prefix/x=1",
        "app=-web",
        "(",
        "!",
        "app in",
        "x" * 64,
    ],
)
def test_label_selectors_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse requirement"):
        selectors.parse_labels(text)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "api"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        (
            {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "no", "operator": "Exists"}]},
            False,
        ),
    ],
)
def test_label_selector_objects(selector: dict[str, Any], expected: bool) -> None:
    assert selectors.from_object(selector).matches(LABELS) is expected


def test_an_absent_selector_means_what_the_caller_says() -> None:
    assert not selectors.from_object(None).matches(LABELS)
    assert selectors.from_object(None, absent=EVERYTHING).matches(LABELS)
    assert EVERYTHING.empty
    assert not NOTHING.empty


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "Gt", "values": ["1"]},
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "Sometimes"},
    ],
)
def test_malformed_expressions_are_refused(expression: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="operator"):
        selectors.from_object({"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([], False, id="no term: no node"),
        pytest.param([{}], False, id="an empty term matches no node"),
        pytest.param(
            [{"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["4"]}]}], True, id="Gt"
        ),
        pytest.param(
            [{"matchExpressions": [{"key": "rank", "operator": "Lt", "values": ["4"]}]}], False, id="Lt"
        ),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}],
            True,
            id="by name",
        ),
        pytest.param(
            [
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
            ],
            True,
            id="one of several terms is enough",
        ),
        pytest.param(
            [
                {
                    "matchExpressions": [{"key": "app", "operator": "Exists"}],
                    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
                }
            ],
            False,
            id="all conditions of a term must hold",
        ),
    ],
)
def test_node_selectors(terms: list[Any], expected: bool) -> None:
    assert selectors.node_selector({"nodeSelectorTerms": terms}).matches("n1", LABELS) is expected


FIELDS = {"metadata.name": "a", "status.phase": "Running", "spec.nodeName": "", "odd": "x=1,y\\"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==b", False),
        ("metadata.name!=b", True),
        ("status.phase!=Running", False),
        ("spec.nodeName=", True),
        ("metadata.name=a,status.phase=Running", True),
        ("metadata.name=a,status.phase=Failed", False),
        (r"odd=x\=1\,y\\", True),
    ],
)
def test_field_selector_text(text: str, expected: bool) -> None:
    assert selectors.parse_fields(text).matches(lambda path: FIELDS.get(path, "")) is expected


def test_field_selectors_tell_their_requirements() -> None:
    selector = selectors.parse_fields("metadata.name==a,status.phase!=Failed")
    assert selector.requirements == (
        FieldRequirement("metadata.name", "=", "a"),
        FieldRequirement("status.phase", "!=", "Failed"),
    )
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("status.phase") is None


@pytest.mark.parametrize("text", ["metadata.name", "=a", "a=b=c", "a>b"])
def test_field_selectors_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="selector"):
        selectors.parse_fields(text)
