"""`vc-scheduler`: what its health endpoints show."""

import asyncio

from tests.cluster import SmallCluster
from volcano.entry.process import _checked
from volcano.entry.scheduler import health_of
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.loop import Scheduler

CONFIGURATION = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: usage\n"


async def test_readyz_shows_plugins_that_are_not_provided_and_is_ready() -> None:
    async with SmallCluster() as cluster:
        scheduler = Scheduler(cluster.client, ConfigSource(CONFIGURATION, "x.conf"), cluster.clock)
        health = health_of(scheduler, asyncio.Event())
        answer = _checked(health.ready, health.warnings)
    assert answer.status == 200
    assert (
        answer.body
        == b"ok\nwarning: config: x.conf:5: plugin 'usage' of Volcano is not provided and is skipped\n"
    )
