"""Metrics of cards and of the pods on them."""

from prometheus_client import generate_latest

from tests.scheduler.plugins.deviceshare.cards import Cards, ask, gpu_node, pods
from volcano.kube.client.protocol import EventType
from volcano.scheduler.report.metrics import SchedulerMetrics


def exported(metrics: SchedulerMetrics) -> dict[str, float]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith("volcano_vgpu_device_"))
    return {name.removeprefix("volcano_vgpu_device_"): float(value) for name, value in found}


def test_use_of_cards_follows_the_pods_on_them() -> None:
    metrics, world = SchedulerMetrics(), Cards(nodes=[gpu_node()], jobs=[pods("p", 2, **ask(1, 4000, 10))])

    def cycle() -> dict[str, float]:
        result = world.cycle()
        metrics.cycle(result.outcome, result.snapshot)
        return exported(metrics)

    cycle()
    at = '{NodeName="g",devID="GPU-a"}'
    of_pod = '{NodeName="g",devID="GPU-a",podName="default/p-worker-0"}'
    found = cycle()
    assert found[f"shared_number{at}"] == 2
    assert found[f"allocated_memory{at}"] == 8000
    assert found[f"allocated_cores{at}"] == 20
    assert found[f"memory_limit{at}"] == 16000
    assert found[f"memory_allocation_for_a_certain_pod{of_pod}"] == 4000
    assert found[f"core_allocation_for_a_certain_pod{of_pod}"] == 10
    world.delete("p-worker-0")
    found = cycle()
    assert found[f"shared_number{at}"] == 1
    assert f"memory_allocation_for_a_certain_pod{of_pod}" not in found
    world.apply(gpu_node(), EventType.DELETED)
    assert cycle() == {}


def test_an_unchanged_cluster_has_no_new_samples() -> None:
    world = Cards(nodes=[gpu_node()], jobs=[pods("p", **ask(1, 4000))])
    world.cycle()
    world.cycle()
    assert [s for s in world.cycle().outcome.samples if s.metric.startswith("vgpu")] == []
