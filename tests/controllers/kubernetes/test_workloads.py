"""ReplicaSets, Deployments, StatefulSets and DaemonSets on simulated nodes."""

from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.base.clock import Instant
from volcano.controllers.kubernetes.daemonset import DaemonSetController
from volcano.controllers.kubernetes.deployment import DeploymentController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.kubernetes.statefulset import BURST, StatefulSetController
from volcano.kube.api.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
)
from volcano.kube.api.manifest import Manifest, condition_of, controller_of
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes

LABELS = {"app": "web"}


def simulated(count: int = 1) -> SimulatedNodes:
    return SimulatedNodes(nodes_of(parse_pools([count], [])))


def template(image: str = "web:1", **fields: Any) -> Manifest:
    # Bound to a node from the start: these tests are not about scheduling.
    pod = {"nodeName": "node-0", "containers": [{"name": "web", "image": image}], **fields}
    return {"metadata": {"labels": LABELS}, "spec": pod}


def workload(replicas: int = 3, **fields: Any) -> Manifest:
    return {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(), **fields}


async def test_a_replica_set_keeps_so_many_pods() -> None:
    async with SmallCluster(ReplicaSetController(), simulated()) as cluster:
        await cluster.create(REPLICA_SET, "web", spec=workload(3))
        await cluster.pass_time(1)
        status = (await cluster.get(REPLICA_SET, "web"))["status"]
        assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 3, 3)
        await cluster.delete(POD, (await cluster.names(POD))[0])
        await cluster.pass_time(1)
        assert len(await cluster.all(POD)) == 3
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 1}})
        assert len(await cluster.all(POD)) == 1


async def test_a_replica_set_adopts_a_matching_orphan_and_nothing_else() -> None:
    async with SmallCluster(ReplicaSetController()) as cluster:
        await cluster.create(POD, "mine", metadata={"labels": LABELS}, spec=template()["spec"])
        await cluster.create(POD, "other", metadata={"labels": {"app": "db"}}, spec=template()["spec"])
        await cluster.create(REPLICA_SET, "web", spec=workload(1))
        assert await cluster.names(POD) == ["mine", "other"]
        owner = controller_of(await cluster.get(POD, "mine"))
        assert owner is not None
        assert owner["name"] == "web"
        assert controller_of(await cluster.get(POD, "other")) is None


async def test_scaling_down_loses_the_pods_that_matter_least() -> None:
    async with SmallCluster(ReplicaSetController(), simulated()) as cluster:
        await cluster.create(REPLICA_SET, "web", spec=workload(2))
        await cluster.pass_time(1)
        ready = set(await cluster.names(POD))
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 3}})
        await cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 2}})
        assert set(await cluster.names(POD)) == ready


async def test_a_deployment_rolls_to_a_new_template_without_losing_too_many() -> None:
    controllers = (DeploymentController(), ReplicaSetController(), simulated())
    async with SmallCluster(*controllers) as cluster:
        await cluster.create(DEPLOYMENT, "web", spec=workload(4))
        await cluster.pass_time(1)
        first = (await cluster.names(REPLICA_SET))[0]
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"template": template("web:2")}})
        for _ in range(10):
            status = (await cluster.get(DEPLOYMENT, "web"))["status"]
            assert status.get("availableReplicas", 0) >= 3
            assert status["replicas"] <= 5
            await cluster.pass_time(0.1, step=0.1)
        deployment = await cluster.get(DEPLOYMENT, "web")
        assert deployment["status"]["updatedReplicas"] == 4
        assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        progress = condition_of(deployment, "Progressing")
        assert progress is not None
        assert progress["reason"] == "NewReplicaSetAvailable"
        sizes = {s["metadata"]["name"]: s["spec"]["replicas"] for s in await cluster.all(REPLICA_SET)}
        assert sizes.pop(first) == 0
        assert list(sizes.values()) == [4]
        assert {p["spec"]["containers"][0]["image"] for p in await cluster.all(POD)} == {"web:2"}


async def test_going_back_to_an_old_template_reuses_its_replica_set() -> None:
    controllers = (DeploymentController(), ReplicaSetController(), simulated())
    async with SmallCluster(*controllers) as cluster:
        await cluster.create(DEPLOYMENT, "web", spec=workload(2))
        await cluster.pass_time(1)
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"template": template("web:2")}})
        await cluster.pass_time(2)
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"template": template("web:1")}})
        await cluster.pass_time(2)
        assert len(await cluster.all(REPLICA_SET)) == 2
        annotations = (await cluster.get(DEPLOYMENT, "web"))["metadata"]["annotations"]
        assert annotations["deployment.kubernetes.io/revision"] == "3"


async def test_a_replica_set_follows_the_annotations_of_its_deployment() -> None:
    async with SmallCluster(DeploymentController(), ReplicaSetController()) as cluster:
        await cluster.create(DEPLOYMENT, "web", spec=workload(3))
        minimum = {"scheduling.volcano.sh/group-min-member": "5"}
        await cluster.patch(
            DEPLOYMENT, "web", {"metadata": {"annotations": minimum}, "spec": {"replicas": 5}}
        )
        (replica_set,) = await cluster.all(REPLICA_SET)
        annotations = replica_set["metadata"]["annotations"]
        assert annotations.items() >= minimum.items()
        assert annotations["deployment.kubernetes.io/desired-replicas"] == "5"
        assert annotations["deployment.kubernetes.io/revision"] == "1"


async def test_recreate_ends_the_old_pods_before_the_new_ones_start() -> None:
    controllers = (DeploymentController(), ReplicaSetController(), simulated())
    slow = template()
    slow["metadata"]["annotations"] = {"volcano.sh/sim-stop-duration": "5s"}
    async with SmallCluster(*controllers) as cluster:
        spec = workload(2, strategy={"type": "Recreate"}) | {"template": slow}
        await cluster.create(DEPLOYMENT, "web", spec=spec)
        await cluster.pass_time(1)
        await cluster.patch(DEPLOYMENT, "web", {"spec": {"template": template("web:2")}})
        images = {p["spec"]["containers"][0]["image"] for p in await cluster.all(POD)}
        assert images == {"web:1"}
        await cluster.pass_time(7)
        images = {p["spec"]["containers"][0]["image"] for p in await cluster.all(POD)}
        assert images == {"web:2"}


async def test_a_rollout_that_cannot_progress_says_so() -> None:
    async with SmallCluster(DeploymentController(), ReplicaSetController()) as cluster:
        await cluster.create(DEPLOYMENT, "web", spec=workload(1, progressDeadlineSeconds=30))
        await cluster.pass_time(40, step=5)
        progress = condition_of(await cluster.get(DEPLOYMENT, "web"), "Progressing")
        assert progress is not None
        assert (progress["status"], progress["reason"]) == ("False", "ProgressDeadlineExceeded")


async def test_deleting_a_deployment_takes_its_sets_and_pods_along() -> None:
    controllers = (DeploymentController(), ReplicaSetController(), simulated())
    async with SmallCluster(*controllers) as cluster:
        await cluster.create(DEPLOYMENT, "web", spec=workload(2))
        await cluster.pass_time(1)
        await cluster.delete(DEPLOYMENT, "web")
        await cluster.pass_time(1)
        assert await cluster.names(REPLICA_SET) == []
        assert await cluster.names(POD) == []


async def test_a_stateful_set_starts_its_pods_in_order_and_gives_each_its_claim() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = workload(3, serviceName="web", volumeClaimTemplates=[claim])
    async with SmallCluster(StatefulSetController(), simulated()) as cluster:
        await cluster.create(STATEFUL_SET, "db", spec=spec)
        assert await cluster.names(POD) == ["db-0"]
        await cluster.pass_time(1, step=0.1)
        assert await cluster.names(POD) == ["db-0", "db-1", "db-2"]
        assert await cluster.names(PERSISTENT_VOLUME_CLAIM) == ["data-db-0", "data-db-1", "data-db-2"]
        pod = await cluster.get(POD, "db-1")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "web")
        await cluster.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
        await cluster.pass_time(1)
        assert await cluster.names(POD) == ["db-0"]


async def test_a_stateful_set_replaces_its_pods_from_the_last_to_the_first() -> None:
    async with SmallCluster(StatefulSetController(), simulated()) as cluster:
        await cluster.create(STATEFUL_SET, "db", spec=workload(3, serviceName="db"))
        await cluster.pass_time(2, step=0.1)
        await cluster.patch(STATEFUL_SET, "db", {"spec": {"template": template("web:2")}})
        images = [p["spec"]["containers"][0]["image"] for p in await cluster.all(POD)]
        assert images == ["web:1", "web:1", "web:2"]
        await cluster.pass_time(3, step=0.1)
        images = [p["spec"]["containers"][0]["image"] for p in await cluster.all(POD)]
        assert images == ["web:2", "web:2", "web:2"]
        status = (await cluster.get(STATEFUL_SET, "db"))["status"]
        assert status["currentRevision"] == status["updateRevision"]


def test_a_parallel_stateful_set_of_two_billion_replicas_creates_its_pods_in_bursts() -> None:
    spec = workload(2**31 - 1, serviceName="db", podManagementPolicy="Parallel")
    metadata = {"name": "db", "namespace": "default", "uid": "u"}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    operations = list(StatefulSetController()._next_pods(owner, {}, "r", "r", Instant(0.0, 0.0)))
    assert len(operations) == BURST


async def test_a_daemon_set_has_a_pod_on_every_node_that_will_have_it() -> None:
    spec = {"selector": {"matchLabels": LABELS}, "template": template()}
    del spec["template"]["spec"]["nodeName"]
    async with SmallCluster(DaemonSetController(), simulated(3)) as cluster:
        await cluster.patch(NODE, "node-2", {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
        await cluster.create(DAEMON_SET, "agent", spec=spec)
        assert len(await cluster.all(POD)) == 2
        status = (await cluster.get(DAEMON_SET, "agent"))["status"]
        assert (status["desiredNumberScheduled"], status["currentNumberScheduled"]) == (2, 2)
        await cluster.patch(NODE, "node-2", {"spec": {"taints": None}})
        assert len(await cluster.all(POD)) == 3
        await cluster.delete(NODE, "node-0")
        assert len(await cluster.all(POD)) == 2


@pytest.mark.parametrize("kind", [REPLICA_SET, DEPLOYMENT])
async def test_nothing_is_written_once_everything_is_as_it_should_be(kind: Any) -> None:
    controllers = (DeploymentController(), ReplicaSetController(), simulated())
    async with SmallCluster(*controllers) as cluster:
        await cluster.create(kind, "web", spec=workload(2))
        await cluster.pass_time(2)
        before = cluster.registry.store.version
        await cluster.pass_time(5)
        assert cluster.registry.store.version - before <= 1  # the node's lease
