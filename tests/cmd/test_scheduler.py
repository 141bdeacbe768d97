"""`vc-scheduler`: what its health endpoints show."""

import asyncio

from tests.cluster import SmallCluster
from volcano.cmd.scheduler import health_of
from volcano.component.process import _checked
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.engine.faults import Fault
from volcano.scheduler.engine.session import Outcome
from volcano.scheduler.loop import Scheduler

CONFIGURATION = "actions: allocate, elect\ntiers:\n- plugins:\n  - name: gang\n"


async def test_readyz_shows_actions_that_are_not_provided_and_is_ready() -> None:
    async with SmallCluster() as cluster:
        scheduler = Scheduler(cluster.client, ConfigSource(CONFIGURATION, "x.conf"), cluster.clock)
        health = health_of(scheduler, asyncio.Event())
        answer = _checked(health.ready, health.warnings)
    assert answer.status == 200
    assert (
        answer.body
        == b"ok\nwarning: config: x.conf:1: action 'elect' of Volcano is not provided and is skipped\n"
    )


async def test_readyz_names_skipped_jobs_and_the_plugin_that_failed_and_is_ready() -> None:
    async with SmallCluster() as cluster:
        scheduler = Scheduler(cluster.client, ConfigSource(), cluster.clock)
        health = health_of(scheduler, asyncio.Event())
        assert _checked(health.ready, health.warnings).body == b"ok"
        fault = Fault("plugin binpack failed in score_nodes: ValueError: no", "binpack")
        scheduler.cycles.last_outcome = Outcome((), faults={f"team/train-{i}": fault for i in range(7)})
        answer = _checked(health.ready, health.warnings)
    assert answer.status == 200
    text = answer.body.decode()
    assert (
        "warning: jobs: 7 skipped, tried again with back-off: team/train-0 (plugin binpack failed in score_nodes: "
        in text
    )
    assert text.endswith("and 2 more\n")


async def test_readyz_names_a_source_of_load_values_that_fails_and_is_ready() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: usage\nmetrics: {type: prometheus, address: 'http://127.0.0.1:1'}\n"
    async with SmallCluster() as cluster:
        scheduler = Scheduler(cluster.client, ConfigSource(text, "x.conf"), cluster.clock)
        assert scheduler.source.current is not None
        await scheduler.inputs.load.collect(scheduler.source.current.load)
        health = health_of(scheduler, asyncio.Event())
        answer = _checked(health.ready, health.warnings)
    assert answer.status == 200
    assert answer.body.startswith(b"ok\nwarning: metrics: prometheus http://127.0.0.1:1 cannot be read: ")
