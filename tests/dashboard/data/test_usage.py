"""What the page of usage asks for and draws."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.accounting.builders import HOUR, START
from volcano.accounting.api import UsageRow
from volcano.dashboard.data.usage import MOST_GROUPS, OTHERS, RANGES, Wanted, bars, short_names
from volcano.services.prices import Prices
from volcano.services.usage import UsageReport, build_report

DAY = 24 * HOUR


def test_an_address_says_what_is_shown() -> None:
    wanted = Wanted.of_query({"by": "user", "range": "week", "period": "day", "queue": "research"})
    assert wanted == Wanted(by="user", range="week", period="day", queue="research")
    assert {name: value for name, value in wanted.query().items() if value} == {
        "by": "user",
        "range": "week",
        "period": "day",
        "queue": "research",
    }


def test_usual_values_are_not_in_the_address() -> None:
    assert set(Wanted().query().values()) == {""}


def test_values_of_an_address_that_do_not_exist_are_replaced() -> None:
    assert (
        Wanted.of_query({"by": "colour", "range": "century", "period": "second", "measure": "x"}) == Wanted()
    )


@pytest.mark.parametrize("name", RANGES)
def test_every_range_ends_now_and_has_a_readable_number_of_bars(name: str) -> None:
    wanted = Wanted(range=name)
    start, end = wanted.bounds(START)
    assert end == START
    assert start < end
    assert 1 <= len(bars(replace(report(), start=start, end=end), wanted).periods) <= 62


def test_this_month_begins_with_its_first_day() -> None:
    start, _ = Wanted(range="month").bounds(START)
    assert start == START - 14 * DAY - 8 * HOUR  # START is the 15th at 8


def test_bars_are_hours_by_period_with_the_largest_group_first() -> None:
    chart = bars(
        report(row("a", "2027-01-14", gpu=2), row("b", "2027-01-14", gpu=1), row("b", "2027-01-15", gpu=5)),
        Wanted(range="day"),
    )
    assert chart.periods == ("2027-01-14", "2027-01-15")
    assert list(chart.groups.items()) == [("b", (1.0, 5.0)), ("a", (2.0, 0.0))]
    assert chart.sentence() == "GPU hours: b 6.0, a 2.0"


def test_small_groups_are_shown_together() -> None:
    rows = [row(f"q{index:02}", "2027-01-15", gpu=20 - index) for index in range(MOST_GROUPS + 3)]
    groups = bars(report(*rows), Wanted(range="day")).groups
    assert list(groups) == [f"q{index:02}" for index in range(MOST_GROUPS)] + [OTHERS]
    assert groups[OTHERS][-1] == sum(20 - index for index in range(MOST_GROUPS, MOST_GROUPS + 3))


def test_a_cluster_without_gpus_is_measured_by_cores() -> None:
    assert bars(report(row("a", "2027-01-15", cpu=3)), Wanted()).title == "CPU hours"


def test_costs_need_prices() -> None:
    rows = [row("a", "2027-01-15", gpu=3)]
    assert bars(report(*rows), Wanted(measure="cost")).measure == "gpu"
    priced = reported(rows, Prices("EUR", gpus={"default": 2.0}))
    chart = bars(priced, Wanted(measure="cost", range="day"))
    assert (chart.title, chart.groups) == ("Cost", {"a": (0.0, 6.0)})


def row(queue: str, period: str, *, gpu: float = 0.0, cpu: float = 0.0) -> UsageRow:
    resources = {"gpu": gpu * HOUR, "cpu": cpu * HOUR}
    used = {name: amount for name, amount in resources.items() if amount}
    return UsageRow({"queue": queue, "gpu-type": ""}, used, runs=1, period=period)


def report(*rows: UsageRow) -> UsageReport:
    return reported(rows)


def reported(rows: Iterable[UsageRow], prices: Prices | None = None) -> UsageReport:
    return replace(build_report(rows, ("queue",), prices), start=START - DAY, end=START)


def test_the_names_of_bars_have_the_year_where_it_is_needed() -> None:
    assert short_names(["2026-11-01", "2026-11-02"]) == ("11-01", "11-02")
    assert short_names(["2025-12-31", "2026-01-01"]) == ("2025-12-31", "2026-01-01")
    assert short_names(["2026-10", "2026-11"]) == ("2026-10", "2026-11")
    assert short_names([]) == ()
