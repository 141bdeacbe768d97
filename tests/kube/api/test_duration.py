"""Durations are parsed and printed as in Go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.base.clock import timestamp
from volcano.kube.api import duration
from volcano.kube.api.duration import human_duration, since

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("-1.5s", -1.5),
        ("+2m", 120),
        ("1h0m0.5s", 3600.5),
        ("100us", 1e-4),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert duration.parse(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (5400, "1h30m0s"),
        (0.5, "500ms"),
        (-90, "-1m30s"),
        (1.5, "1.5s"),
        (2e-6, "2µs"),
        (3e-9, "3ns"),
    ],
)
def test_durations_are_printed(seconds: float, text: str) -> None:
    assert duration.format(seconds) == text


@pytest.mark.parametrize("text", ["", "5", "s", "1d", "1h 2m", "one", "--1s", "999999999h"])
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="duration") as refusal:
        duration.parse(text)
    assert repr(text) in str(refusal.value)


@settings(deadline=None)
@given(st.integers(-(2**62), 2**62))
def test_a_printed_duration_reads_back(nanoseconds: int) -> None:
    assert duration.parse_nanoseconds(duration.format_nanoseconds(nanoseconds)) == nanoseconds


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
