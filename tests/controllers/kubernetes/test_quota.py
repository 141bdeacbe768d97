"""The status of resource quotas."""

from collections.abc import Iterable

from tests.apiserver.admission.test_quota import NOW, pod, quota
from volcano.controllers.kubernetes.quota import ResourceQuotaController
from volcano.kube.api.kinds import POD, RESOURCE_QUOTA, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import Patch
from volcano.kube.client.protocol import Event, EventType


class Cluster:
    """Objects and their events, for a controller."""

    def __init__(self, controller: ResourceQuotaController) -> None:
        self.controller, self.version = controller, 0

    def see(self, kind: Kind, manifest: Manifest, event: EventType = EventType.ADDED) -> None:
        self.version += 1
        metadata = {
            "uid": manifest["metadata"]["name"],
            **manifest["metadata"],
            "resourceVersion": str(self.version),
        }
        self.controller.on_event(Event(event, kind, {**manifest, "metadata": metadata}))

    def on_written(self) -> Iterable[Manifest]:
        for work in self.controller.step(NOW):
            for operation in work.operations:
                assert isinstance(operation, Patch)
                assert operation.subresource == "status"
                yield operation.patch[0]["value"]


def test_the_status_follows_creations_and_deletions() -> None:
    cluster = Cluster(ResourceQuotaController())
    cluster.see(RESOURCE_QUOTA, quota({"pods": "5", "cpu": "2"}))
    assert list(cluster.on_written()) == [
        {"hard": {"pods": "5", "cpu": "2"}, "used": {"pods": "0", "cpu": "0"}}
    ]
    cluster = Cluster(ResourceQuotaController())
    cluster.see(POD, pod("a", cpu="500m"))
    cluster.see(POD, pod("b", cpu="1"))
    cluster.see(RESOURCE_QUOTA, quota({"pods": "5", "cpu": "2"}))
    assert [status["used"] for status in cluster.on_written()] == [{"pods": "2", "cpu": "1500m"}]
    told = quota({"pods": "5", "cpu": "2"})
    told["status"] = {"hard": {"pods": "5", "cpu": "2"}, "used": {"pods": "2", "cpu": "1500m"}}
    cluster = Cluster(ResourceQuotaController())
    cluster.see(POD, pod("a", cpu="500m"))
    cluster.see(POD, pod("b", cpu="1"))
    cluster.see(RESOURCE_QUOTA, told)
    assert list(cluster.on_written()) == [], "a true status is left alone"
    cluster.see(POD, pod("b", cpu="1"), EventType.DELETED)
    assert [status["used"] for status in cluster.on_written()] == [{"pods": "1", "cpu": "500m"}]


def test_keys_of_other_namespaces_are_left_alone() -> None:
    controller = ResourceQuotaController()
    cluster = Cluster(controller)
    cluster.see(RESOURCE_QUOTA, quota({"pods": "5"}))
    list(cluster.on_written())
    elsewhere = pod("x")
    elsewhere["metadata"]["namespace"] = "other"
    assert list(controller.keys(Event(EventType.ADDED, POD, elsewhere))) == []
    assert list(controller.keys(Event(EventType.ADDED, POD, pod("y")))) == [Key("default", "q")]
