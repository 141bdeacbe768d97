"""Selectors and short lists as kubectl prints them."""

import pytest

from volcano.apiserver.endpoints.tables.cells import first_few, labels_text, selector_text


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        (None, "<none>"),
        ({}, "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["b", "a"]},
                    {"key": "old", "operator": "DoesNotExist"},
                    {"key": "zone", "operator": "NotIn", "values": ["x"]},
                    {"key": "new", "operator": "Exists"},
                ],
            },
            "app=web,new,!old,tier in (a,b),zone notin (x)",
        ),
    ],
)
def test_selectors_are_shown_on_one_line(selector: object, shown: str) -> None:
    assert selector_text(selector) == shown


def test_labels_are_shown_in_order() -> None:
    assert labels_text({"b": "2", "a": "1"}) == "a=1,b=2"
    assert labels_text(None) == "<none>"


def test_long_lists_are_cut_after_three() -> None:
    assert first_few(["a", "b", "c"], "-") == "a,b,c"
    assert first_few(["a", "b", "c", "d", "e"], "-") == "a,b,c + 2 more..."
    assert first_few([], "-") == "-"
