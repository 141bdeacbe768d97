"""kube-scheduler on the same small nodes: each scheduler binds only its own pods, and no node is over-allocated."""

import json
from collections import Counter

import pytest

from tests.k8s import invariants
from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.load import job, task
from tests.k8s.plain import JOBS, PODS, History, Object, until
from tests.k8s.programs import Programs

pytestmark = pytest.mark.k8s

NAMESPACE = "mixed"
GANGS, FOREIGN = 10, 40
USER_AGENTS = {"volcano": "vc-scheduler", "default-scheduler": "kube-scheduler"}


def foreign(number: int) -> Object:
    """A pod for kube-scheduler."""
    spec = task("x", 1, seconds=1.0)["template"]["spec"]
    return {"metadata": {"name": f"foreign-{number}"}, "spec": spec}


def binders(cluster: RealCluster) -> dict[str, str]:
    """The user agent that bound each pod, from the server's audit log."""
    found = {}
    whole, _, _ = (cluster.directory / "audit.log").read_text().rpartition("\n")
    for line in whole.splitlines():
        event = json.loads(line)
        target = event.get("objectRef") or {}
        if target.get("subresource") == "binding" and event["responseStatus"]["code"] == 201:
            found[f"{target['namespace']}/{target['name']}"] = event["userAgent"].partition("/")[0]
    return found


def test_each_scheduler_binds_its_own_pods_and_no_node_is_over_allocated(installed: Programs) -> None:
    programs = installed
    programs.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    history = History(programs.api)
    restart = [{"event": "PodFailed", "action": "RestartJob"}]
    for number in range(max(GANGS, FOREIGN)):
        if number < GANGS:
            gang = job(f"gang-{number}", 4, policies=restart, maxRetry=50)
            programs.api.create(JOBS.format(NAMESPACE), gang)
        if number < FOREIGN:
            programs.api.create(PODS.format(NAMESPACE), foreign(number))
    until(
        lambda: _unfinished(programs) == [],
        90.0,
        lambda: "\n".join([*_unfinished(programs), programs.logs()]),
    )
    events = history.caught_up()
    history.stop()
    nodes = programs.api.items("/api/v1/nodes")
    assert invariants.bound_twice(events) == []
    assert invariants.over_allocated(events, nodes, accepted=True) == []
    bound_by = binders(programs.cluster)
    wanted = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": USER_AGENTS[pod["spec"]["schedulerName"]]
        for _, pod in events
        if pod["spec"].get("nodeName") and pod["metadata"]["namespace"] == NAMESPACE
    }
    assert {name: bound_by[name] for name in wanted} == wanted
    assert Counter(wanted.values())["kube-scheduler"] == FOREIGN


def _unfinished(programs: Programs) -> list[str]:
    """Gangs that are not completed and foreign pods that are not finished."""
    jobs = programs.api.items(JOBS.format(NAMESPACE))
    pods = programs.api.items(PODS.format(NAMESPACE))
    return [
        *(
            j["metadata"]["name"]
            for j in jobs
            if j.get("status", {}).get("state", {}).get("phase") != "Completed"
        ),
        *(p["metadata"]["name"] for p in pods if p["status"]["phase"] not in invariants.TERMINAL),
    ]
