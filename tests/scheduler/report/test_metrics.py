"""What dashboards find at /metrics: Volcano's names, exactly, and series that go with what they are about."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import START, job, node, priority_class
from tests.scenario import cluster_of, event
from tests.scheduler.test_loop import bench
from volcano.base.metrics import render
from volcano.kube.client.protocol import EventType
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import parse, shipped
from volcano.scheduler.engine.faults import Fault
from volcano.scheduler.report.metrics import SchedulerMetrics

CONFIG = parse(shipped("volcano-scheduler-preempt.conf"))
HISTOGRAMS = (
    "e2e_scheduling_latency_milliseconds",
    "open_session_duration_milliseconds",
    "e2e_job_scheduling_latency_milliseconds",
    "plugin_scheduling_latency_milliseconds",
    "action_scheduling_latency_milliseconds",
    "task_scheduling_latency_milliseconds",
    "scheduling_stage_duration_milliseconds",
)
PLAIN = (
    "e2e_job_scheduling_duration",
    "e2e_job_scheduling_start_time",
    "e2e_job_scheduling_last_time",
    "schedule_attempts_total",
    "pod_preemption_victims",
    "total_preemption_attempts",
    "eviction_transactions_total",
    "unschedule_task_count",
    "unschedule_job_count",
    "job_share",
    "job_retry_counts",
    "queue_share",
    "queue_weight",
    "queue_overused",
    *(
        f"queue_{what}_{unit}"
        for what in ("allocated", "request", "inqueue", "deserved", "real_capacity")
        for unit in ("milli_cpu", "memory_bytes")
    ),
    "queue_allocated_scalar_resources",
)


def samples(registry: CollectorRegistry) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def world() -> dict[str, Any]:
    """One job fits, one can only by preemption, one not at all."""
    return {
        "nodes": [node("n1", cpu=4, gpu=4)],
        "jobs": [
            job("old", 2, on="n1", priority_class="low", min_available=0, gpu=1),
            job("fits", 1, priority_class="low"),
            job("urgent", 3, priority_class="high"),
            job("large", 9, priority_class="low", phase="Inqueue"),
        ],
        "others": [priority_class("low", 1), priority_class("high", 100)],
    }


def test_after_a_cycle_every_metric_is_there_under_volcanos_name() -> None:
    metrics = SchedulerMetrics()
    cluster = cluster_of(**world())
    snapshot = cluster.snapshot(START, 1)
    watch = iter(range(10**6))
    outcome = schedule(snapshot, CONFIG, lambda: float(next(watch)))
    metrics.placed(outcome.decisions, snapshot)
    metrics.cycle(outcome, snapshot)
    found = samples(metrics.registry)
    assert [name for name in HISTOGRAMS if not found.get(f"volcano_{name}_count")] == []
    assert [name for name in PLAIN if not found.get(f"volcano_{name}")] == []
    plugins = {
        labels["plugin"] for labels, _ in found["volcano_plugin_scheduling_latency_milliseconds_count"]
    }
    assert {"gang", "proportion", "predicates"} <= plugins
    stages = {labels["stage"] for labels, _ in found["volcano_scheduling_stage_duration_milliseconds_count"]}
    assert stages == {"Predicate", "Scoring"}
    assert ({"job_id": "large"}, 1.0) in found["volcano_job_retry_counts"]
    assert ({"job_id": "large"}, 9.0) in found["volcano_unschedule_task_count"]


def test_series_of_a_job_go_with_it() -> None:
    metrics = SchedulerMetrics()
    jobs = world()["jobs"]
    cluster = cluster_of(**world())
    for number in range(2):
        snapshot = cluster.snapshot(START, number)
        outcome = schedule(snapshot, CONFIG)
        cluster.assume(outcome.decisions)
        metrics.placed(outcome.decisions, snapshot)
        metrics.cycle(outcome, snapshot)
        for each in jobs:
            for manifest in (*each.pods, each.group):
                cluster.apply(event(manifest, cluster, EventType.DELETED))
    found = samples(metrics.registry)
    for name in ("e2e_job_scheduling_duration", "job_retry_counts", "unschedule_task_count", "job_share"):
        assert f"volcano_{name}" not in found, name
    assert found["volcano_unschedule_job_count"] == [({}, 0.0)]


async def test_a_pod_is_timed_from_its_creation_to_its_binding() -> None:
    async with bench() as b:
        await b.add(node("n1"), job("j", 1, phase="Inqueue"))

        async def bound() -> bool:
            return await b.nodes_of("j-worker-0") == ["n1"] and b.scheduler.commit.write_back.pending == 0

        await b.until(bound)
        found = samples(b.scheduler.metrics.registry)
    counts = {
        labels["stage"]: count
        for labels, count in found["volcano_task_scheduling_latency_milliseconds_count"]
    }
    assert counts == {"Watched": 1, "Assumed": 1, "PreBound": 1, "Bound": 1}
    stages = {labels["stage"] for labels, _ in found["volcano_scheduling_stage_duration_milliseconds_count"]}
    assert stages == {"Predicate", "Scoring", "PreBind", "Bind"}


@pytest.mark.parametrize(
    "name", ["volcano_job_retry_counts_total", "volcano_total_preemption_attempts_total"]
)
def test_no_name_is_lengthened(name: str) -> None:
    metrics = SchedulerMetrics()
    snapshot = cluster_of(**world()).snapshot(START, 1)
    metrics.cycle(schedule(snapshot, CONFIG), snapshot)
    assert name not in samples(metrics.registry)


def test_skipped_jobs_are_counted_by_the_plugin_that_failed() -> None:
    metrics, cluster = SchedulerMetrics(), cluster_of(nodes=[node("n1")], jobs=[job("j", 1)])
    snapshot = cluster.snapshot(START, 1)
    outcome = schedule(snapshot, CONFIG)
    metrics.cycle(replace(outcome, faults={"default/j": Fault("no", "binpack")}), snapshot)
    assert samples(metrics.registry)["volcano_skipped_jobs"] == [({"plugin": "binpack"}, 1.0)]
    metrics.cycle(outcome, snapshot)
    assert samples(metrics.registry)["volcano_skipped_jobs"] == [({"plugin": "binpack"}, 0.0)]
