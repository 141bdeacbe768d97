"""Endpoints behind Services, nodes that fall silent, and claims that get volumes."""

from tests.cluster import SmallCluster
from volcano.controllers.kubernetes.endpoints import EndpointsController
from volcano.controllers.kubernetes.node_lifecycle import NodeLifecycleController
from volcano.controllers.kubernetes.volumes import PROVISIONER, VolumeController
from volcano.kube.api.kinds import (
    ENDPOINT_SLICE,
    ENDPOINTS,
    EVENT,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    STORAGE_CLASS,
)
from volcano.kube.api.manifest import Manifest, condition_of
from volcano.kube.api.names import HOST_DIRECTORY
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes

LABELS = {"app": "web"}


def simulated() -> SimulatedNodes:
    return SimulatedNodes(nodes_of(parse_pools([1], [])))


def pod_spec(**fields: object) -> Manifest:
    return {"nodeName": "node-0", "containers": [{"name": "web", "image": "web"}], **fields}


async def test_a_service_lists_its_ready_pods_and_drops_those_that_go() -> None:
    async with SmallCluster(EndpointsController(), simulated()) as cluster:
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        await cluster.create(SERVICE, "web", spec={"selector": LABELS, "ports": ports})
        await cluster.create(POD, "a", metadata={"labels": LABELS}, spec=pod_spec())
        await cluster.create(POD, "b", metadata={"labels": {"app": "db"}}, spec=pod_spec())
        await cluster.pass_time(1)
        (subset,) = (await cluster.get(ENDPOINTS, "web"))["subsets"]
        assert [address["targetRef"]["name"] for address in subset["addresses"]] == ["a"]
        assert subset["ports"][0]["port"] == 8080
        (piece,) = await cluster.all(ENDPOINT_SLICE)
        assert piece["endpoints"][0]["conditions"]["ready"] is True
        await cluster.delete(POD, "a")
        await cluster.pass_time(1)
        assert not (await cluster.get(ENDPOINTS, "web")).get("subsets")


async def test_endpoints_are_removed_with_their_service() -> None:
    async with SmallCluster(EndpointsController(), simulated()) as cluster:
        await cluster.create(SERVICE, "web", spec={"selector": LABELS, "ports": [{"port": 80}]})
        # A Service without a selector has the user's Endpoints; those without a Service are nobody's concern.
        await cluster.create(SERVICE, "db", spec={"ports": [{"port": 80}]})
        subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]
        await cluster.create(ENDPOINTS, "db", subsets=subsets)
        await cluster.create(ENDPOINTS, "alone", subsets=subsets)
        await cluster.pass_time(1)
        assert [each["metadata"]["name"] for each in await cluster.all(ENDPOINTS)] == ["alone", "db", "web"]
        await cluster.delete(SERVICE, "web")
        await cluster.delete(SERVICE, "db")
        await cluster.pass_time(1)
        assert [each["metadata"]["name"] for each in await cluster.all(ENDPOINTS)] == ["alone"]
        assert await cluster.all(ENDPOINT_SLICE) == []


async def test_a_named_port_has_its_own_number_in_each_pod() -> None:
    def serving(number: int) -> Manifest:
        container = {"name": "web", "image": "web", "ports": [{"name": "http", "containerPort": number}]}
        return pod_spec(containers=[container])

    async with SmallCluster(EndpointsController(), simulated()) as cluster:
        ports = [{"port": 80, "targetPort": "http"}]
        await cluster.create(SERVICE, "web", spec={"selector": LABELS, "ports": ports})
        for name, number in (("a", 8080), ("b", 9090), ("c", 8080)):
            await cluster.create(POD, name, metadata={"labels": LABELS}, spec=serving(number))
        await cluster.create(POD, "without", metadata={"labels": LABELS}, spec=pod_spec())
        await cluster.pass_time(1)
        subsets = (await cluster.get(ENDPOINTS, "web"))["subsets"]
        found = {
            subset["ports"][0]["port"]: [each["targetRef"]["name"] for each in subset["addresses"]]
            for subset in subsets
        }
        assert found == {8080: ["a", "c"], 9090: ["b"]}
        slices = await cluster.all(ENDPOINT_SLICE)
        assert sorted(len(each["endpoints"]) for each in slices) == [1, 1, 2]
        await cluster.delete(POD, "b")
        await cluster.delete(POD, "without")
        await cluster.pass_time(1)
        (only,) = await cluster.all(ENDPOINT_SLICE)
        assert only["ports"][0]["port"] == 8080


async def test_a_silent_node_is_tainted_and_loses_its_pods_when_their_patience_ends() -> None:
    patient = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    async with SmallCluster(NodeLifecycleController()) as cluster:
        kubelet = cluster.start(simulated())
        await cluster.rest()
        await cluster.create(POD, "short", spec=pod_spec(tolerations=[{**patient, "tolerationSeconds": 20}]))
        await cluster.create(POD, "long", spec=pod_spec(tolerations=[patient]))
        await cluster.pass_time(5)
        kubelet.cancel()
        await cluster.pass_time(60, step=5)
        node = await cluster.get(NODE, "node-0")
        ready = condition_of(node, "Ready")
        assert ready is not None
        assert ready["status"] == "Unknown"
        assert {t["effect"] for t in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        await cluster.pass_time(25, step=5)
        deleting = [
            p["metadata"]["name"] for p in await cluster.all(POD) if p["metadata"].get("deletionTimestamp")
        ]
        assert deleting == ["short"]


async def test_a_node_that_comes_back_loses_its_taints() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        kubelet = cluster.start(simulated())
        await cluster.pass_time(5)
        kubelet.cancel()
        await cluster.pass_time(60, step=5)
        assert (await cluster.get(NODE, "node-0"))["spec"].get("taints")
        cluster.start(simulated())
        await cluster.rest()
        await cluster.pass_time(5)
        assert not (await cluster.get(NODE, "node-0"))["spec"].get("taints")


async def test_a_cordoned_node_carries_the_unschedulable_taint() -> None:
    async with SmallCluster(NodeLifecycleController(), simulated()) as cluster:
        await cluster.patch(NODE, "node-0", {"spec": {"unschedulable": True}})
        (taint,) = (await cluster.get(NODE, "node-0"))["spec"]["taints"]
        assert (taint["key"], taint["effect"]) == ("node.kubernetes.io/unschedulable", "NoSchedule")


async def test_pods_of_a_deleted_node_are_removed() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        kubelet = cluster.start(simulated())
        await cluster.rest()
        await cluster.create(POD, "p", spec=pod_spec())
        kubelet.cancel()
        await cluster.delete(NODE, "node-0")
        await cluster.pass_time(39)
        (pod,) = await cluster.all(POD)
        assert "deletionTimestamp" not in pod["metadata"]  # the node may register again
        await cluster.pass_time(2)
        assert await cluster.names(POD) == []


async def test_owners_see_why_the_pods_of_a_deleted_node_failed() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        held = {"finalizers": ["example.com/hold"]}
        await cluster.create(NODE, "n1", spec={})
        await cluster.create(POD, "p", spec={**pod_spec(), "nodeName": "n1"}, metadata=held)
        await cluster.delete(NODE, "n1")
        await cluster.pass_time(41)
        (pod,) = await cluster.all(POD)
        assert (pod["status"]["phase"], bool(pod["metadata"]["deletionTimestamp"])) == ("Failed", True)
        (condition,) = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert (condition["reason"], condition["message"]) == (
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        )


async def test_a_node_that_registers_again_keeps_its_pods() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        await cluster.create(NODE, "n1", spec={})
        await cluster.create(POD, "p", spec={**pod_spec(), "nodeName": "n1"})
        await cluster.delete(NODE, "n1")
        await cluster.pass_time(30)
        await cluster.create(NODE, "n1", spec={})
        await cluster.pass_time(15)
        await cluster.delete(NODE, "n1")
        await cluster.pass_time(39)
        assert await cluster.names(POD) == ["p"]  # the wait begins again


async def test_a_pod_bound_to_a_node_that_does_not_exist_yet_waits_for_it() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        await cluster.create(POD, "p", spec={**pod_spec(), "nodeName": "later"})
        await cluster.pass_time(30)
        assert await cluster.names(POD) == ["p"]
        await cluster.pass_time(15)
        assert await cluster.names(POD) == []


async def test_a_deletion_that_waits_for_a_finalizer_leaves_the_pods_running() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        await cluster.create(NODE, "n1", spec={}, metadata={"finalizers": ["example.com/hold"]})
        await cluster.create(POD, "p", spec={**pod_spec(), "nodeName": "n1"})
        await cluster.delete(NODE, "n1")
        await cluster.pass_time(45)
        assert await cluster.names(POD) == ["p"]


async def test_events_tell_of_nodes_that_come_go_and_fail() -> None:
    async with SmallCluster(NodeLifecycleController(grace=50.0)) as cluster:

        def ready(status: str) -> Manifest:
            heartbeat = cluster.clock.now().timestamp()
            condition = {"type": "Ready", "status": status, "reason": "r", "lastHeartbeatTime": heartbeat}
            return {"status": {"conditions": [condition]}}

        await cluster.create(NODE, "n1", spec={})
        await cluster.patch(NODE, "n1", ready("True"), "status")
        await cluster.create(POD, "p", spec={**pod_spec(), "nodeName": "n1"})
        await cluster.patch(
            POD, "p", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status"
        )
        await cluster.pass_time(55)  # without heartbeats
        await cluster.patch(NODE, "n1", ready("True"), "status")
        await cluster.patch(NODE, "n1", ready("False"), "status")  # as the kubelet says itself
        await cluster.delete(NODE, "n1")
        found = sorted(
            (event["reason"], event["type"], event["involvedObject"]["kind"], event["message"])
            for event in await cluster.all(EVENT)
        )
        assert found == [
            ("NodeNotReady", "Normal", "Node", "Node n1 status is now: NodeNotReady"),
            ("NodeNotReady", "Normal", "Node", "Node n1 status is now: NodeNotReady"),
            ("NodeNotReady", "Warning", "Pod", "Node is not ready"),
            ("RegisteredNode", "Normal", "Node", "Node n1 event: Registered Node n1 in Controller"),
            ("RemovingNode", "Normal", "Node", "Node n1 event: Removing Node n1 from Controller"),
        ]
        sources = {event["source"]["component"] for event in await cluster.all(EVENT)}
        assert sources == {"node-controller"}


async def test_a_restarted_controller_does_not_report_nodes_again() -> None:
    async with SmallCluster(NodeLifecycleController()) as cluster:
        await cluster.create(NODE, "n1", spec={})
        cluster.start(NodeLifecycleController())
        await cluster.rest()
        assert [event["reason"] for event in await cluster.all(EVENT)] == ["RegisteredNode"]


def claim(**fields: object) -> Manifest:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **fields}


async def test_a_claim_of_the_default_class_gets_a_volume_and_gives_it_back() -> None:
    marks = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    async with SmallCluster(VolumeController()) as cluster:
        await cluster.create(
            STORAGE_CLASS, "local", metadata=marks, provisioner=PROVISIONER, reclaimPolicy="Delete"
        )
        await cluster.create(PERSISTENT_VOLUME_CLAIM, "data", spec=claim())
        bound = await cluster.get(PERSISTENT_VOLUME_CLAIM, "data")
        assert bound["status"]["phase"] == "Bound"
        volume = await cluster.get(PERSISTENT_VOLUME, bound["spec"]["volumeName"])
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["claimRef"]["name"] == "data"
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "data", {"metadata": {"finalizers": None}})
        await cluster.delete(PERSISTENT_VOLUME_CLAIM, "data")
        assert await cluster.names(PERSISTENT_VOLUME) == []


async def test_a_volume_of_a_host_directory_is_deleted_with_its_claim_whatever_its_reclaim_policy() -> None:
    async with SmallCluster(VolumeController()) as cluster:
        created = await cluster.create(PERSISTENT_VOLUME_CLAIM, "code", spec=claim(storageClassName=""))
        metadata = created["metadata"]
        reference = {"namespace": metadata["namespace"], "name": "code", "uid": metadata["uid"]}
        for name, notes in (("marked", {HOST_DIRECTORY: "true"}), ("other", {})):
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": reference,
                "hostPath": {"path": "/x"},
            }
            await cluster.create(PERSISTENT_VOLUME, name, metadata={"annotations": notes}, spec=spec)
        assert (await cluster.get(PERSISTENT_VOLUME_CLAIM, "code"))["status"]["phase"] == "Bound"
        await cluster.patch(PERSISTENT_VOLUME_CLAIM, "code", {"metadata": {"finalizers": None}})
        await cluster.delete(PERSISTENT_VOLUME_CLAIM, "code")
        assert await cluster.names(PERSISTENT_VOLUME) == ["other"]


async def test_a_claim_takes_the_smallest_volume_that_is_large_enough() -> None:
    async with SmallCluster(VolumeController()) as cluster:
        for name, size in (("small", "500Mi"), ("fit", "2Gi"), ("huge", "9Gi")):
            spec = {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": f"/x/{name}"},
            }
            await cluster.create(PERSISTENT_VOLUME, name, spec=spec)
        await cluster.create(PERSISTENT_VOLUME_CLAIM, "data", spec=claim(storageClassName=""))
        assert (await cluster.get(PERSISTENT_VOLUME_CLAIM, "data"))["spec"]["volumeName"] == "fit"


async def test_a_claim_that_waits_for_its_consumer_is_bound_when_the_pod_has_a_node() -> None:
    async with SmallCluster(VolumeController()) as cluster:
        await cluster.create(
            STORAGE_CLASS, "late", provisioner=PROVISIONER, volumeBindingMode="WaitForFirstConsumer"
        )
        await cluster.create(PERSISTENT_VOLUME_CLAIM, "data", spec=claim(storageClassName="late"))
        assert not (await cluster.get(PERSISTENT_VOLUME_CLAIM, "data"))["spec"].get("volumeName")
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cluster.create(POD, "p", spec=pod_spec(volumes=volumes))
        assert (await cluster.get(PERSISTENT_VOLUME_CLAIM, "data"))["status"]["phase"] == "Bound"
