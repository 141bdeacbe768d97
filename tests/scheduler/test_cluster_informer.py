"""How soon a change needs a scheduling cycle."""

from typing import cast

import pytest

from tests.builders import job, node, numatopology, pod
from tests.scenario import cluster_of, event
from volcano.base.clock import VirtualClock
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client, EventType
from volcano.scheduler.cluster_informer import ClusterInformer
from volcano.scheduler.cycle_timer import Urgency


@pytest.mark.parametrize(
    ("changed", "urgency"),
    [
        pytest.param(node("n", cpu=9), Urgency.DECISION, id="capacity"),
        pytest.param(pod("j-worker-0", group="j"), Urgency.DECISION, id="a pod without a node"),
        pytest.param(pod("j-worker-0", group="j", node="n"), Urgency.STATUS, id="a pod that runs"),
        pytest.param(pod("other", node="n"), Urgency.FOREIGN, id="a pod without a job"),
        pytest.param(numatopology("n", allocatable="0-3"), Urgency.STATUS, id="cpus in use"),
        pytest.param(numatopology("n"), None, id="nothing new"),
    ],
)
def test_a_change_needs_a_cycle_as_soon_as_it_matters(changed: Manifest, urgency: Urgency | None) -> None:
    cluster = cluster_of(nodes=[node("n")], jobs=[job("j", 0)], others=[numatopology("n")])
    told: list[Urgency] = []
    informer = ClusterInformer(
        cast(Client, None),  # not used without `run`
        VirtualClock(),
        cluster,
        on_change=told.append,
        on_pod_added=lambda task: None,
        on_group_deleted=lambda group: None,
    )
    changed["metadata"]["resourceVersion"] = "2"
    informer.apply([event(changed, cluster, EventType.MODIFIED)])
    assert told == ([] if urgency is None else [urgency])
