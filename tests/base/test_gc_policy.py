"""The garbage collector leaves a cluster's objects alone while it is at work, and is as before when it is gone."""

import asyncio
import gc

import pytest

from volcano.base import gc_policy
from volcano.base.gc_policy import THRESHOLDS, GcPolicy


def test_the_policy_ends_with_the_cluster() -> None:
    before = gc.get_threshold()
    policy = GcPolicy()
    policy.apply()
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0
    policy.restore()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(
    "complete_every", [pytest.param(1e9, id="young"), pytest.param(0.0, id="all, now and then")]
)
async def test_garbage_goes_when_the_process_is_idle(
    monkeypatch: pytest.MonkeyPatch, complete_every: float
) -> None:
    monkeypatch.setattr(gc_policy, "FULL_COLLECTION_INTERVAL", complete_every)
    monkeypatch.setattr(gc_policy, "CHECK_INTERVAL", 0.01)
    monkeypatch.setattr(gc_policy, "IDLE_CPU_SHARE", 1e9)
    gone: list[str] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            gone.append("cycle")

    policy = GcPolicy()
    policy.apply()
    running = asyncio.create_task(policy.run())
    try:
        Cycle()
        async with asyncio.timeout(5):
            while not gone:
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        policy.restore()
