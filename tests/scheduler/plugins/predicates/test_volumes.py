"""Volumes: nodes on which a pod's claims can be bound, attachment limits, and the bindings."""

from typing import Any

import pytest

from tests.builders import START, metadata, node, pod, podgroup
from tests.scenario import Result, schedule
from volcano.base.clock import Instant
from volcano.kube.api.manifest import Manifest
from volcano.model.decisions import Bind, ClaimVolume
from volcano.scheduler.writeback.operations import OperationBuilder, volume_claim_patch

GROUP = podgroup("g", min_member=0)
ZONE = "topology.kubernetes.io/zone"


def claim(
    name: str, volume: str = "", storage_class: str = "slow", size: str = "1Gi", **more: Any
) -> Manifest:
    spec: Manifest = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if volume:
        spec["volumeName"] = volume
    phase = "Bound" if volume else "Pending"
    notes = more.pop("annotations", None)
    meta = metadata(name, "default", annotations=notes)
    if more.pop("deleting", False):
        meta["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase},
    }


def volume(
    name: str,
    on: str = "",
    storage_class: str = "slow",
    size: str = "1Gi",
    labels: dict[str, str] | None = None,
    driver: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    owner: str = "",
) -> Manifest:
    spec: Manifest = {
        "storageClassName": storage_class,
        "capacity": {"storage": size},
        "accessModes": list(modes),
    }
    if on:
        wanted = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [wanted]}}
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": f"handle-{name}"}
    if owner:
        spec["claimRef"] = {"namespace": "default", "name": owner}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(name, labels=labels),
        "spec": spec,
        "status": {"phase": "Bound" if owner else "Available"},
    }


def storage_class(
    name: str = "slow", provisioner: str = "kubernetes.io/no-provisioner", **more: Any
) -> Manifest:
    mode = "Immediate" if more.pop("immediate", False) else "WaitForFirstConsumer"
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(name),
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


def csi_node(name: str, driver: str, count: int) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata(name),
        "spec": {"drivers": [{"name": driver, "nodeID": name, "allocatable": {"count": count}}]},
    }


def using(name: str, *claims: str, **more: Any) -> Manifest:
    """A pod that is to be scheduled and uses these claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, group="g", spec={"volumes": volumes}, **more)


NODES = [node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"})]


def cycle(pods: list[Manifest], *others: Manifest, **more: Any) -> Result:
    return schedule(
        nodes=more.pop("nodes", NODES),
        podgroups=[more.pop("group", GROUP)],
        pods=pods,
        others=others,
        plugins=["gang", "predicates"],
        **more,
    )


def reason(result: Result) -> str:
    diagnosis = result.diagnosis("g")
    assert diagnosis is not None
    return diagnosis.message


def test_a_bound_volume_ties_the_pod_to_its_node() -> None:
    result = cycle([using("p", "c")], claim("c", "v"), volume("v", on="b", owner="c"))
    assert result.bound() == {"p": "b"}


def test_a_bound_volume_ties_the_pod_to_its_zone() -> None:
    result = cycle([using("p", "c")], claim("c", "v"), volume("v", labels={ZONE: "y"}, owner="c"))
    assert result.bound() == {"p": "b"}
    beta = volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "y__z"}, owner="c")
    assert cycle([using("p", "c")], claim("c", "v"), beta).bound() == {"p": "b"}
    nowhere = [node("plain")]
    assert cycle([using("p", "c")], claim("c", "v"), beta, nodes=nowhere).bound() == {"p": "plain"}


@pytest.mark.parametrize(
    ("others", "why"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param(
            [claim("c", deleting=True)], 'persistentvolumeclaim "c" is being deleted', id="claim goes"
        ),
        pytest.param(
            [claim("c"), storage_class(immediate=True)],
            "pod has unbound immediate PersistentVolumeClaims",
            id="the volume controller has to bind it first",
        ),
        pytest.param(
            [claim("c", "gone")],
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="the volume is gone",
        ),
        pytest.param(
            [claim("c"), storage_class()],
            "node(s) didn't find available persistent volumes to bind",
            id="no volume",
        ),
        pytest.param(
            [claim("c", "v"), volume("v", on="elsewhere", owner="c")],
            "node(s) didn't match PersistentVolume's node affinity",
            id="the volume is elsewhere",
        ),
    ],
)
def test_why_a_claim_cannot_be_served(others: list[Manifest], why: str) -> None:
    result = cycle([using("p", "c")], *others)
    assert result.bound() == {}
    assert why in reason(result)


@pytest.mark.parametrize(
    "unfit",
    [
        pytest.param(volume("v", size="1Mi"), id="too small"),
        pytest.param(volume("v", storage_class="fast"), id="another class"),
        pytest.param(volume("v", modes=("ReadOnlyMany",)), id="another access mode"),
        pytest.param(volume("v", owner="other"), id="taken"),
    ],
)
def test_volumes_that_will_not_do(unfit: Manifest) -> None:
    assert cycle([using("p", "c")], claim("c"), storage_class(), unfit).bound() == {}


def test_a_waiting_claim_gets_the_smallest_volume_that_fits() -> None:
    result = cycle(
        [using("p", "c")],
        claim("c"),
        storage_class(),
        volume("large", on="a", size="9Gi"),
        volume("small", on="a", size="2Gi"),
    )
    bind = next(each for each in result.decisions if isinstance(each, Bind))
    assert bind.node == "a"
    assert bind.claims == (ClaimVolume("default", "c", "small"),)


def test_a_waiting_claim_is_provisioned_on_demand() -> None:
    provisioned = storage_class(provisioner="disk.example.com")
    result = cycle([using("p", "c")], claim("c"), provisioned)
    bind = next(each for each in result.decisions if isinstance(each, Bind))
    assert bind.claims == (ClaimVolume("default", "c", ""),)


def test_provisioning_keeps_to_the_allowed_topologies() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["y"]}]}]
    there = storage_class(provisioner="disk.example.com", allowedTopologies=allowed)
    assert cycle([using("p", "c")], claim("c"), there).bound() == {"p": "b"}


def test_provisioning_that_has_begun_keeps_to_its_node() -> None:
    begun = claim("c", annotations={"volume.kubernetes.io/selected-node": "b"})
    assert cycle([using("p", "c")], begun, storage_class(provisioner="disk.example.com")).bound() == {
        "p": "b"
    }


def gang(cpus: int, volumes: int) -> Result:
    """Two one-cpu pods with a claim each, all or nothing, on one node."""
    return cycle(
        [using(f"p{i}", f"c{i}") for i in range(2)],
        *(claim(f"c{i}") for i in range(2)),
        *(volume(f"v{i}", on="n") for i in range(volumes)),
        storage_class(),
        nodes=[node("n", cpu=cpus)],
        group=podgroup("g", min_member=2),
    )


def test_a_gang_that_does_not_fit_reserves_no_volume() -> None:
    result = gang(cpus=1, volumes=2)
    assert result.bound() == {}
    assert result.phase("g") == "Inqueue"
    assert not result.outcome.memory.get("predicates")


def test_a_gang_gets_a_volume_each() -> None:
    result = gang(cpus=2, volumes=2)
    assert len(result.bound()) == 2
    bound = [each.claims[0] for each in result.decisions if isinstance(each, Bind)]
    claims = [claim.volume for claim in bound if isinstance(claim, ClaimVolume)]
    assert sorted(claims) == ["v0", "v1"]


def test_one_volume_is_not_given_twice() -> None:
    assert gang(cpus=2, volumes=1).bound() == {}


def test_a_volume_stays_promised_until_the_server_says_so() -> None:
    others = (claim("c"), storage_class(), volume("v"))
    promised = {"predicates": {"volumes": {"v": ("default/other", START - 5)}}}
    assert cycle([using("p", "c")], *others, memory=promised).bound() == {}
    forgotten = {"predicates": {"volumes": {"v": ("default/other", START - 500)}}}
    assert len(cycle([using("p", "c")], *others, memory=forgotten).bound()) == 1


def test_nodes_attach_only_so_many_volumes() -> None:
    driver = "disk.example.com"
    bound = [(claim(f"c{i}", f"v{i}"), volume(f"v{i}", driver=driver, owner=f"c{i}")) for i in range(4)]
    others = [each for pair in bound for each in pair] + [csi_node("n", driver, 2)]
    result = cycle([using(f"p{i}", f"c{i}") for i in range(4)], *others, nodes=[node("n", cpu=10)])
    assert len(result.bound()) == 2
    assert "node(s) exceed max volume count" in reason(result)


def test_a_volume_that_several_pods_share_is_attached_once() -> None:
    driver = "disk.example.com"
    others = (claim("c", "v"), volume("v", driver=driver, owner="c"), csi_node("n", driver, 1))
    result = cycle([using(f"p{i}", "c") for i in range(3)], *others, nodes=[node("n", cpu=10)])
    assert len(result.bound()) == 3


def test_binding_settles_the_claims_first() -> None:
    writes = OperationBuilder("volcano").operations(
        Bind("u", "default", "p", "default/g", "a", {}, (ClaimVolume("default", "c", "v"),)),
        Instant(START, 0.0),
    )
    first, second = list(writes)
    assert first == volume_claim_patch("a", ClaimVolume("default", "c", "v"))
    assert getattr(second, "subresource", "") == "binding"
    assert volume_claim_patch("a", ClaimVolume("default", "c")).patch == {
        "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}
    }


def capacity(name: str, size: str, *, largest: str = "", **labels: str) -> Manifest:
    """What the driver of class `late` can provision for nodes with these labels."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(name, "default"),
        "storageClassName": "late",
        "capacity": size,
        **({"maximumVolumeSize": largest} if largest else {}),
        "nodeTopology": {"matchLabels": labels},
    }


def driver(*, publishes: bool = True) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": metadata("example.com/disks"),
        "spec": {"storageCapacity": publishes},
    }


@pytest.mark.parametrize(
    ("others", "node_name"),
    [
        pytest.param(
            [capacity("a", "1Gi", zone="a"), capacity("b", "100Gi", zone="b")], "n2", id="room in zone b"
        ),
        pytest.param([capacity("b", "100Gi", largest="1Gi", zone="b")], "", id="the volume is too large"),
        pytest.param([capacity("b", "10Gi", zone="c")], "", id="no room that a node reaches"),
        pytest.param([], "", id="nothing published"),
    ],
)
def test_volumes_are_provisioned_where_their_driver_has_room(others: list[Manifest], node_name: str) -> None:
    late = storage_class("late", "example.com/disks")
    wanted = claim("c", storage_class="late", size="10Gi")
    nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    result = cycle([using("p", "c")], late, wanted, driver(), *others, nodes=nodes)
    assert result.bound() == ({"p": node_name} if node_name else {})
    if not node_name:
        assert "2 node(s) did not have enough free storage" in reason(result)
    without = cycle([using("p", "c")], late, wanted, driver(publishes=False), *others, nodes=nodes)
    assert without.bound(), "a driver that publishes nothing is not checked"
