"""Durations, selectors and short lists as kubectl prints them."""

import pytest

from volcano.apiserver.endpoints.tables.cells import (
    at,
    first_few,
    human_duration,
    labels_text,
    selector_text,
    since,
)
from volcano.base.clock import timestamp

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(-5, "<invalid>", id="the future"),
        pytest.param(-1.5, "0s", id="clocks that differ a little"),
        pytest.param(0, "0s", id="now"),
        pytest.param(119, "119s", id="up to two minutes in seconds"),
        pytest.param(2 * MINUTE, "2m", id="whole minutes"),
        pytest.param(5 * MINUTE + 30, "5m30s", id="minutes and seconds up to ten minutes"),
        pytest.param(10 * MINUTE + 30, "10m", id="then minutes alone"),
        pytest.param(179 * MINUTE, "179m", id="up to three hours"),
        pytest.param(3 * HOUR, "3h", id="whole hours"),
        pytest.param(7 * HOUR + 59 * MINUTE, "7h59m", id="hours and minutes up to eight hours"),
        pytest.param(47 * HOUR, "47h", id="then hours alone, up to two days"),
        pytest.param(2 * DAY + 4 * HOUR, "2d4h", id="days and hours up to eight days"),
        pytest.param(8 * DAY + 4 * HOUR, "8d", id="then days alone"),
        pytest.param(2 * YEAR + 3 * DAY, "2y3d", id="years and days up to eight years"),
        pytest.param(9 * YEAR, "9y", id="then years alone"),
    ],
)
def test_a_length_of_time_has_two_or_three_figures(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_what_is_no_timestamp_has_an_unknown_age() -> None:
    assert since(None, 100.0) == "<unknown>"
    assert since("yesterday", 100.0) == "<unknown>"
    assert since(timestamp(40.0), 100.0) == "60s"


def test_looking_into_something_else_than_an_object_finds_nothing() -> None:
    assert at({"a": [1]}, "a", "b") is None
    assert at({"a": {"b": None}}, "a", "b", default="x") == "x"
    assert at({"a": {"b": 0}}, "a", "b", default="x") == 0


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
