"""Durations are parsed and printed as in Go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.api import duration


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
