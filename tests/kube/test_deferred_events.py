"""Events that concern no key at present are deferred, and applied when objects are read."""

from collections.abc import Iterable
from typing import Any

import pytest

from volcano.clock import Instant
from volcano.controllers.kubernetes.endpoints import EndpointsController
from volcano.controllers.kubernetes.node_lifecycle import NodeLifecycleController
from volcano.controllers.kubernetes.quota import ResourceQuotaController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.kube.client import Event, EventType
from volcano.kube.controller import NOTHING, Plan, Reconciler
from volcano.kube.kinds import CONFIG_MAP, NODE, POD, REPLICA_SET, RESOURCE_QUOTA, SECRET, SERVICE, Kind
from volcano.kube.manifest import Manifest, key_of
from volcano.kube.names import SIMULATED

NOW = Instant(0.0, 0.0)


def thing(name: str, version: int = 1, namespace: str = "ns", **more: object) -> Manifest:
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **more}


class Reader(Reconciler[str]):
    """Reads secrets whenever there is a config map."""

    name = "reader"

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[list[str]] = []

    def is_irrelevant(self, event: Event) -> bool:
        return event.kind is SECRET and not self.indexer.count(CONFIG_MAP)

    def keys(self, event: Event) -> Iterable[str]:
        return ("all",)

    def reconcile(self, key: str, now: Instant) -> Plan:
        self.looked_at.append([key_of(found).name for found in self.indexer.all(SECRET)])
        return NOTHING


def test_irrelevant_events_queue_nothing_and_are_found_when_objects_are_read() -> None:
    controller = Reader()
    for version, name in enumerate(["a", "b", "a"], start=1):
        controller.on_event(Event(EventType.MODIFIED, SECRET, thing(name, version)))
    assert controller.next_due() is None
    controller.on_event(Event(EventType.DELETED, SECRET, thing("b", 4)))
    controller.on_event(Event(EventType.ADDED, CONFIG_MAP, thing("here")))
    controller.step(NOW)
    assert controller.looked_at == [["a"]]


POD_OF_NS = thing(
    "p", 5, spec={"nodeName": "n1"}, status={"phase": "Running", "podIP": "10.0.0.1", "conditions": []}
)
POD_OF_NS["metadata"]["labels"] = {"app": "web"}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
WELL = thing("n1", 1, "", spec={}, status={"conditions": [{"type": "Ready", "status": "True"}]})
# Registering a node that is not simulated is an event, which this test does not write.
WELL["metadata"]["labels"] = {SIMULATED: "true"}
UNWELL = thing("n1", 9, "", spec={"taints": [{"key": "gone", "effect": "NoExecute"}]}, status={})


@pytest.mark.parametrize(
    ("controller", "first", "kind", "waker"),
    [
        pytest.param(
            EndpointsController(),
            (SERVICE, thing("plain", 1, spec={})),
            SERVICE,
            thing("web", 9, spec={"selector": {"app": "web"}}),
            id="a Service that selects",
        ),
        pytest.param(
            ResourceQuotaController(),
            (CONFIG_MAP, thing("other")),
            RESOURCE_QUOTA,
            thing("q", 9, spec={"hard": {"pods": "3"}}),
            id="a quota",
        ),
        pytest.param(
            ReplicaSetController(),
            (POD, thing("q", 1, spec={}, status={})),
            REPLICA_SET,
            thing(
                "r",
                9,
                spec={"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
            ),
            id="a ReplicaSet that adopts",
        ),
        pytest.param(NodeLifecycleController(), (NODE, WELL), NODE, UNWELL, id="a node that is unwell"),
    ],
)
def test_pods_queue_nothing_until_a_controller_needs_them(
    controller: Reconciler[Any], first: tuple[Kind, Manifest], kind: Kind, waker: Manifest
) -> None:
    controller.on_event(Event(EventType.ADDED, *first))
    while controller.step(NOW) or controller.next_due() == float("-inf"):
        pass
    due = controller.next_due()
    controller.on_event(Event(EventType.ADDED, POD, POD_OF_NS))
    assert controller.next_due() == due
    controller.on_event(Event(EventType.MODIFIED, kind, waker))
    writes = str(controller.step(NOW))
    assert "'p'" in writes or "10.0.0.1" in writes or "'pods': '1'" in writes
