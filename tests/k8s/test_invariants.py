"""The invariants of the fault tests find violations."""

import pytest

from tests.k8s import invariants
from tests.k8s.plain import Object

NODES = [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}]


def pod(
    name: str, *, node: str = "", phase: str = "Pending", cpu: str = "1", uid: str = "", **more: Object
) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    metadata = {"namespace": "ns", "name": name, "uid": uid or name, "resourceVersion": "7", **more}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_a_pod_that_moves_was_bound_twice() -> None:
    events = [("ADDED", pod("a")), ("MODIFIED", pod("a", node="n1")), ("MODIFIED", pod("a", node="n2"))]
    assert invariants.bound_twice(events[:2]) == []
    assert invariants.bound_twice(events) == ["ns/a moved from n1 to n2"]


@pytest.mark.parametrize(
    ("third", "violations"),
    [
        pytest.param(("MODIFIED", pod("a", node="n1", phase="Succeeded")), 0, id="the first has ended"),
        pytest.param(("DELETED", pod("a", node="n1")), 0, id="the first is deleted"),
        pytest.param(("MODIFIED", pod("a", node="n1", phase="Running")), 1, id="all are running"),
    ],
)
def test_a_node_with_more_than_its_allocatable_is_reported_however_briefly(
    third: tuple[str, Object], violations: int
) -> None:
    events = [("ADDED", pod(name, node="n1")) for name in ("a", "b")]
    events += [third, ("ADDED", pod("c", node="n1")), ("DELETED", pod("c", node="n1"))]
    assert len(invariants.over_allocated(events, NODES)) == violations


def test_with_several_schedulers_only_pods_accepted_by_the_kubelet_count() -> None:
    bound = [("ADDED", pod(name, node="n1")) for name in ("a", "b", "c")]
    running = [("MODIFIED", pod(name, node="n1", phase="Running")) for name in ("a", "b")]
    rejected = ("MODIFIED", pod("c", node="n1", phase="Failed"))
    assert invariants.over_allocated([*bound, *running, rejected], NODES, accepted=True) == []
    admitted = ("MODIFIED", pod("c", node="n1", phase="Running"))
    assert len(invariants.over_allocated([*bound, *running, admitted], NODES, accepted=True)) == 1


def test_a_pod_created_more_often_than_its_job_was_tried_is_reported() -> None:
    labels: Object = {"volcano.sh/job-name": "j"}
    events = [("ADDED", pod("j-0", uid=uid, labels=labels)) for uid in ("1", "2")]
    assert invariants.started_twice(events, {"ns/j": 1}) == []
    assert invariants.started_twice(events, {"ns/j": 0}) == ["ns/j-0 was created 2 times, allowed 1"]


@pytest.mark.parametrize(("placed", "broken"), [(0, False), (1, True), (2, False)])
def test_a_gang_is_whole_or_pending(placed: int, broken: bool) -> None:
    group = {"metadata": {"namespace": "ns", "name": "g"}, "spec": {"minMember": 2}}
    annotations: Object = {"scheduling.k8s.io/group-name": "g"}
    pods = [
        pod(f"p{number}", node="n1" if number < placed else "", annotations=annotations)
        for number in range(2)
    ]
    assert bool(invariants.broken_gangs([group], pods)) is broken
