"""Resources that other schedulers' pods took during a cycle are not used a second time."""

from tests.builders import START, job, node, pod
from tests.scenario import cluster_of, event
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Decision, SetPodGroup
from volcano.scheduler.writeback.stale_decisions import drop_stale


def cluster() -> Cluster:
    """Two gangs of two pods with one cpu each, and two nodes with room for two pods each."""
    jobs = [job("a", 2, cpu=1, phase="Inqueue"), job("b", 2, cpu=1, phase="Inqueue")]
    return cluster_of(nodes=[node("n1", cpu=2), node("n2", cpu=2)], jobs=jobs)


def gang(name: str, *nodes: str) -> list[Decision]:
    said = SetPodGroup(f"default/{name}", "default", name, phase="Running")
    return [*(_bind(name, number, node) for number, node in enumerate(nodes)), said]


def _bind(name: str, number: int, to: str) -> Bind:
    pod_name = f"{name}-worker-{number}"
    return Bind(f"uid-default-{pod_name}", "default", pod_name, f"default/{name}", to)


def foreign(cpu: int, on: str) -> dict[str, object]:
    return pod("foreign", cpu=cpu, node=on, scheduler="default-scheduler")


def test_a_gang_beside_a_new_foreign_pod_is_put_off_whole() -> None:
    seen = cluster()
    snapshot = seen.snapshot(START)
    seen.apply(event(foreign(1, "n1"), seen))
    decisions = [*gang("a", "n1", "n1"), *gang("b", "n2", "n2")]
    assert drop_stale(decisions, snapshot, seen) == gang("b", "n2", "n2")


def test_of_a_gang_on_two_nodes_neither_half_is_bound() -> None:
    seen = cluster()
    snapshot = seen.snapshot(START)
    seen.apply(event(foreign(2, "n2"), seen))
    assert drop_stale(gang("a", "n1", "n2"), snapshot, seen) == []


def test_a_foreign_pod_that_fits_changes_nothing() -> None:
    seen = cluster()
    snapshot = seen.snapshot(START)
    seen.apply(event(foreign(1, "n1"), seen))
    assert drop_stale(gang("a", "n1", "n2"), snapshot, seen) == gang("a", "n1", "n2")


def test_what_was_decided_knowingly_stands() -> None:
    seen = cluster()
    seen.apply(event(foreign(1, "n1"), seen))
    snapshot = seen.snapshot(START)  # already too full when the decision was made, which was on purpose
    assert drop_stale(gang("a", "n1", "n1"), snapshot, seen) == gang("a", "n1", "n1")
