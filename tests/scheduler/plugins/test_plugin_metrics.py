"""Metrics of plugins have Volcano's names."""

import pytest

from tests.builders import START, job, node, queue, resources
from tests.scenario import cluster_of, config, event, schedule
from volcano.base.metrics import CollectorRegistry, render
from volcano.kube.client.protocol import EventType
from volcano.scheduler.cycle import schedule as run_cycle
from volcano.scheduler.engine.plugin_metrics import METRICS
from volcano.scheduler.report.metric_types import PluginGauges


def test_shares_and_limits_of_queues_are_shown() -> None:
    result = schedule(
        nodes=[node("n1", cpu=10, memory="10Gi", gpu=2)],
        queues=[queue("a", capability=resources(cpu=8)), queue("b")],
        jobs=[job("j", 4, min_available=0, queue="a"), job("k", 1, queue="b")],
    )
    registry = CollectorRegistry()
    gauges = PluginGauges("volcano", registry)
    gauges.update(result.outcome.samples, result.snapshot)
    text = render(registry).decode()
    for line in (
        'volcano_queue_deserved_milli_cpu{queue_name="a"} 4000.0',
        'volcano_queue_capacity_milli_cpu{queue_name="a"} 8000.0',
        'volcano_queue_real_capacity_milli_cpu{queue_name="b"} 10000.0',
        'volcano_queue_real_capacity_scalar_resources{queue_name="a",resource="nvidia.com/gpu"} 2000.0',
        'volcano_queue_share{queue_name="a"} 1.0',
        'volcano_queue_overused{queue_name="a"} 1.0',
        'volcano_job_share{job_id="j",job_ns="default"} 0.4',
    ):
        assert line in text, line
    assert 'volcano_queue_capacity_milli_cpu{queue_name="b"}' not in text, "unlimited"


def test_what_is_gone_is_no_longer_shown() -> None:
    nodes = [node("n1", cpu=10)]
    registry = CollectorRegistry()
    gauges = PluginGauges("volcano", registry)
    for queues, jobs in (
        ([queue("a"), queue("b")], [job("j", 1, queue="a"), job("k", 1, queue="b")]),
        ([queue("b")], [job("k", 1, queue="b")]),
    ):
        result = schedule(nodes=nodes, queues=queues, jobs=jobs)
        gauges.update(result.outcome.samples, result.snapshot)
    text = render(registry).decode()
    assert 'queue_name="b"' in text
    assert 'queue_name="a"' not in text
    assert 'job_id="j"' not in text


def test_a_cycle_in_which_nothing_changed_measures_nothing() -> None:
    made = cluster_of(
        nodes=[node("n1")], queues=[queue("default")], jobs=[job("j", 1, on="n1", phase="Running")]
    )
    first, second = (run_cycle(made.snapshot(START, seed), config()) for seed in (1, 2))
    assert [reading for reading in first.samples if reading.metric.startswith("queue_")]
    assert not [reading for reading in second.samples if reading.metric.startswith("queue_")]


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_queue_whose_last_job_ended_holds_nothing_of_its_share(plugin: str) -> None:
    ended = job("j", 1, queue="a", on="n1", phase="Running")
    made = cluster_of(nodes=[node("n1", cpu=1)], queues=[queue("a", deserved=resources(cpu=1))], jobs=[ended])
    tiers = config(tiers=[["gang", plugin]])
    busy = run_cycle(made.snapshot(START, 1), tiers)
    made.apply(event(ended.pods[0], made, EventType.DELETED))
    idle = run_cycle(made.snapshot(START, 2), tiers)
    shares = [
        {reading.metric: reading.value for reading in cycle.samples if reading.labels == ("a",)}
        for cycle in (busy, idle)
    ]
    assert [share["queue_share"] for share in shares] == [1.0, 0.0]
    assert shares[1]["queue_overused"] == 0.0


def test_every_metric_has_labels() -> None:
    assert all(METRICS.values())
