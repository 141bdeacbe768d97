"""Bars that show use, marks and warnings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.cli.printing.bars import Gauge, bar, fill_style, plain

# bars


@pytest.mark.parametrize(
    ("gauge", "text"),
    [
        pytest.param(Gauge(0, 10), "··········", id="empty"),
        pytest.param(Gauge(10, 10), "██████████", id="full"),
        pytest.param(Gauge(5, 10), "█████·····", id="half"),
        pytest.param(Gauge(0.01, 10), "▏·········", id="a trace shows"),
        pytest.param(Gauge(2.5, 10), "██▌·······", id="eighths"),
        pytest.param(Gauge(20, 10), "██████████", id="more than there is"),
        pytest.param(Gauge(3, 0), "··········", id="of nothing"),
        pytest.param(Gauge(4, 10, 2, 6, 9), "██[█··|··]", id="all marks"),
        pytest.param(Gauge(0, 10, 5, 5, 5), "····[|]···", id="marks that meet stand side by side"),
        pytest.param(Gauge(0, 10, capability=10), "·········]", id="a mark at the end stays inside"),
    ],
)
def test_a_bar_shows_use_and_marks(gauge: Gauge, text: str) -> None:
    assert plain(gauge, 10) == text if gauge.total else plain(gauge, 10).count("█") == 0


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(0, 1e12), st.integers(0, 60))
def test_a_bar_is_as_long_as_asked(used: float, total: float, mark: float, width: int) -> None:
    assert len(plain(Gauge(used, total, mark, mark, mark), width)) == width


def test_a_bar_warns_by_colour() -> None:
    assert [fill_style(Gauge(used, 10, deserved=4, capability=8)) for used in (3, 5, 8)] == [
        "green",
        "yellow",
        "red",
    ]
    assert bar(Gauge(5, 10), 4)[0] == ("██", "green")
