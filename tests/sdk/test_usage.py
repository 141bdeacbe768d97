"""Reports of usage as objects."""

import asyncio
import dataclasses
from datetime import UTC, datetime

import pytest

from volcano.sdk import ApiError, Cluster, UsageReport, run, usage


def test_usage_is_a_report_with_hours_and_costs(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    done = run(["true"], name="accounted", cpus="100m", memory="32Mi", cluster=cluster).wait(120)
    prices = tmp_path_factory.mktemp("prices") / "prices.yaml"
    prices.write_text("currency: EUR\nprices: {cpu: 3600}\n")

    async def recorded() -> UsageReport:
        async with asyncio.timeout(60):
            while not (found := await asyncio.to_thread(read)).rows:
                await asyncio.sleep(0.2)
        return found

    def read() -> UsageReport:
        return usage("job", job=done.name, prices=prices, cluster=cluster)

    report = asyncio.run(recorded())
    (row,) = report.rows
    assert (row.group, row.runs, report.by) == ({"job": "accounted"}, 1, ("job",))
    assert row.cost == pytest.approx(row.hours["cpu"] * 3600)
    assert report.total.cost == row.cost
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.runs = 2  # type: ignore[misc]


def test_a_time_before_the_cluster_has_no_usage(cluster: Cluster) -> None:
    before = datetime(2020, 1, 1, tzinfo=UTC)
    assert usage(start=before, end=before.replace(day=2), cluster=cluster).rows == []


def test_what_usage_cannot_be_summed_by_is_rejected(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="colour"):
        usage("colour", cluster=cluster)
