"""Recorded usage is read once when `fairshare` is used, and again some times if that fails."""

import asyncio
from typing import Any

import pytest

from tests.scenario import config
from volcano.accounting.api import DecayedEntry, DecayedUsage
from volcano.base.clock import VirtualClock
from volcano.kube.api.errors import NotFound
from volcano.scheduler.usage_history import ATTEMPTS, ReadUsage, UsageHistory

WITH = config(["gang", {"name": "fairshare", "arguments": {"fairshare.halfLife": "24h"}}])
WITHOUT = config(["gang"])
RECORDED = DecayedUsage(1000.0, (DecayedEntry("research", "alice", {"cpu": 5.0, "gpu": 1.0}),))


class Source:
    """Recorded usage, after some failures."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.asked: list[float] = []

    async def __call__(self, half_life: float) -> DecayedUsage:
        self.asked.append(half_life)
        if len(self.asked) <= self.failures:
            raise NotFound("accounting is not there")
        return RECORDED


async def restored(read: ReadUsage | None, *configs: Any, seconds: float = 0.0) -> list[Any]:
    """Memory of the cycles with these configurations; between the cycles so much time passes."""
    clock = VirtualClock()
    history = UsageHistory(clock, read)
    task = asyncio.create_task(history.run())
    found = []
    for each in configs:
        found.append(dict(await history.restore(each, {"fairshare": "counted", "other": 1})))
        for _ in range(20):
            clock.advance(seconds / 20)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found


def test_the_first_cycle_has_the_recorded_usage_and_later_ones_go_on() -> None:
    source = Source()
    first, second = asyncio.run(restored(source, WITH, WITH))
    assert first["fairshare"]["accounts"] == [["research", "alice"]]
    assert first["fairshare"]["used"][0][0] == 5000
    assert first["fairshare"]["resources"] == ["cpu", "memory", "pods"]
    assert first["other"] == 1
    assert second["fairshare"] == "counted"
    assert source.asked == [24 * 3600]


def test_nothing_is_read_without_the_plugin() -> None:
    source = Source()
    assert asyncio.run(restored(source, WITHOUT))[0]["fairshare"] == "counted"
    assert source.asked == []


def test_the_plugin_may_be_configured_later() -> None:
    found = asyncio.run(restored(Source(), WITHOUT, WITH))
    assert found[1]["fairshare"]["accounts"] == [["research", "alice"]]


def test_usage_that_is_available_later_replaces_what_was_counted() -> None:
    source = Source(failures=2)
    found = asyncio.run(restored(source, WITH, WITH, seconds=60.0))
    assert found[0]["fairshare"] == "counted"
    assert found[1]["fairshare"]["accounts"] == [["research", "alice"]]
    assert len(source.asked) == 3


def test_after_some_failures_it_is_not_tried_any_more() -> None:
    source = Source(failures=1000)
    found = asyncio.run(restored(source, WITH, WITH, WITH, WITH, seconds=1000.0))
    assert all(each["fairshare"] == "counted" for each in found)
    assert len(source.asked) == ATTEMPTS


def test_without_accounting_usage_begins_at_zero(caplog: pytest.LogCaptureFixture) -> None:
    found = asyncio.run(restored(None, WITH))
    assert found[0]["fairshare"] == "counted"
    assert "fair shares begin at zero" in caplog.text
