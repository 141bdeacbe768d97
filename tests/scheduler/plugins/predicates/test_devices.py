"""Claims of pods: devices are allocated with the placement, for all pods of a gang or for none."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.builders import node, pod, podgroup, priority_class, queue
from tests.dra import (
    DRIVER,
    Gang,
    allocated,
    claim,
    claiming,
    gang,
    gpu_class,
    gpus,
    request,
    slice_of,
    templated,
    uid,
)
from tests.scenario import Result, cluster_of, config, event
from tests.scenario import schedule as run_schedule
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import EventType
from volcano.kube.devices.dra.slices import device, node_slices
from volcano.model.decisions import Bind, ReserveClaim
from volcano.scheduler.cycle import schedule as run_cycle

PREEMPT = ("enqueue", "allocate", "preempt", "reclaim", "backfill")


def schedule(*gangs: Gang, others: Sequence[Manifest] = (), **more: Any) -> Result:
    nodes = more.pop("nodes", [node("n1", cpu=64)])
    everything = [gpu_class(), *others, *(each for one in gangs for each in one.claims)]
    pods = [each for one in gangs for each in one.pods]
    groups = [one.group for one in gangs]
    return run_schedule(
        nodes=nodes,
        others=everything,
        pods=[*pods, *more.pop("pods", ())],
        podgroups=[*groups, *more.pop("podgroups", ())],
        **more,
    )


def devices_of(result: Result) -> dict[str, list[str]]:
    """The devices that are allocated to claims in a cycle, by claim."""
    found: dict[str, list[str]] = {}
    for bind in result.decisions:
        for each in bind.claims if isinstance(bind, Bind) else ():
            if isinstance(each, ReserveClaim) and each.allocation is not None:
                results = each.allocation["devices"]["results"]
                found[each.name] = [f"{one['pool']}/{one['device']}" for one in results]
    return found


def reserved(result: Result) -> list[ReserveClaim]:
    binds = (each for each in result.decisions if isinstance(each, Bind))
    return [each for bind in binds for each in bind.claims if isinstance(each, ReserveClaim)]


def distinct(found: Iterable[list[str]]) -> bool:
    every = [each for devices in found for each in devices]
    return len(every) == len(set(every))


# -- gangs -----------------------------------------------------------------------------------------


def test_a_gang_whose_claims_do_not_all_fit_gets_no_device() -> None:
    result = schedule(gang("train", 3, request(count=2)), others=[gpus("n1", 4)])
    assert result.bound() == {}
    assert devices_of(result) == {}
    assert not result.outcome.memory.get("predicates")


def test_a_gang_whose_claims_fit_gets_all_devices() -> None:
    result = schedule(gang("train", 2, request(count=2)), others=[gpus("n1", 4)])
    assert len(result.bound()) == 2
    found = devices_of(result)
    assert [len(each) for each in found.values()] == [2, 2]
    assert distinct(found.values())
    (first, _) = reserved(result)
    assert first.protect
    assert first.allocation is not None
    assert first.allocation["nodeSelector"] == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    }


def test_a_gang_spans_nodes_when_no_node_has_enough_devices() -> None:
    nodes = [node(name, cpu=64) for name in ("n1", "n2", "n3")]
    slices = [gpus("n1", 1), gpus("n2", 2), gpus("n3", 0)]
    result = schedule(gang("train", 3), nodes=nodes, others=slices)
    assert result.bound_per_node() == {"n1": 1, "n2": 2}


def test_pods_with_nothing_but_claims_wait_for_their_gang_too() -> None:
    result = schedule(gang("train", 3, cpu=None), others=[gpus("n1", 2)])
    assert result.bound() == {}
    assert len(schedule(gang("train", 3, cpu=None), others=[gpus("n1", 3)]).bound()) == 3


def test_devices_in_use_are_not_allocated_again() -> None:
    running = gang("old", 1, request(count=3), on=[("n1", ["gpu-0", "gpu-1", "gpu-2"])])
    result = schedule(running, gang("new", 1), others=[gpus("n1", 4)])
    assert devices_of(result) == {"new-0-gpu": ["n1/gpu-3"]}


def test_decisions_that_the_server_has_not_confirmed_count() -> None:
    cluster = cluster_of(
        nodes=[node("n1", cpu=64)], others=[gpu_class(), gpus("n1", 2), *gang("a", 1).claims, *gang("b", 2).claims],
        pods=[*gang("a", 1).pods], podgroups=[gang("a", 1).group, gang("b", 2).group],
    )  # fmt: skip
    first = run_cycle(cluster.snapshot(), config())
    assert first.memory["predicates"]["devices"]
    cluster.assume(first.decisions)
    for manifest in gang("b", 2).pods:
        cluster.apply(event(manifest, cluster))
    second = cluster.snapshot(memory=first.memory)
    assert Result(run_cycle(second, config()), second).bound() == {}
    forgotten = next(each for each in first.decisions if isinstance(each, Bind))
    cluster.forget(forgotten)  # the binding failed
    third = cluster.snapshot(memory=first.memory)
    assert len(Result(run_cycle(third, config()), third).bound()) > 0


def test_a_confirmed_allocation_is_not_counted_twice() -> None:
    one = gang("a", 1)
    cluster = cluster_of(
        nodes=[node("n1", cpu=64)], others=[gpu_class(), gpus("n1", 2), *one.claims], pods=one.pods,
        podgroups=[one.group],
    )  # fmt: skip
    first = run_cycle(cluster.snapshot(), config())
    cluster.assume(first.decisions)
    (bind,) = (each for each in first.decisions if isinstance(each, Bind))
    (written,) = bind.claims
    assert isinstance(written, ReserveClaim)
    assert written.allocation is not None
    users = [{"resource": "pods", "name": "a-0", "uid": uid("a-0")}]
    confirmed = {**one.claims[0], "status": {"allocation": dict(written.allocation), "reservedFor": users}}
    cluster.apply(event(confirmed, cluster, EventType.MODIFIED))
    other = gang("b", 1)
    for manifest in other.manifests:
        cluster.apply(event(manifest, cluster))
    second = cluster.snapshot(memory=first.memory)
    result = Result(run_cycle(second, config()), second)
    assert result.bound() == {"b-0": "n1"}
    assert "default/a-0-gpu" not in result.outcome.memory["predicates"]["devices"]


# -- waiting, with reasons -------------------------------------------------------------------------


def test_a_pod_waits_until_its_claim_is_generated() -> None:
    waiting = pod("p", group="g", **templated("p", generated=False))
    result = schedule(
        others=[gpus("n1", 1)], pods=[waiting], podgroups=[podgroup("g", min_member=1, phase="Inqueue")]
    )
    assert result.bound() == {}
    assert 'the resourceclaim is not created yet from template "one-gpu"' in result.said("p")


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([], 'resourceclaim "shared" not found'),
        ([claim("shared", request(device_class="tpu"))], "device class tpu does not exist"),
        (
            [claim("shared", request(count=3))],
            "1 node(s) had too few free devices of class gpu for request gpu (3 needed; in the cluster 2 match, "
            "0 in use)",
        ),
        (
            [claim("shared", request(count=2)), allocated(claim("old"), "n1", "gpu-0", pods=["x"])],
            "1 node(s) had too few free devices of class gpu for request gpu (2 needed; in the cluster 2 match, "
            "1 in use)",
        ),
        (
            [claim("shared", request(selectors=[{"cel": {"expression": 'device.attributes["x"].y'}}]))],
            "(1 needed; in the cluster 0 match, 0 in use; a selector failed: no such key: y)",
        ),
    ],
)  # fmt: skip
def test_a_pod_whose_claim_cannot_be_allocated_says_why(others: list[Manifest], reason: str) -> None:
    waiting = pod("p", group="g", **claiming("shared"))
    group = podgroup("g", min_member=1, phase="Inqueue")
    result = schedule(others=[gpus("n1", 2), *others], pods=[waiting], podgroups=[group])
    assert result.bound() == {}
    assert reason in result.said("p")


def test_the_filter_can_be_switched_off() -> None:
    arguments = {"predicate.DynamicResourceAllocationEnable": False}
    predicates = {"name": "predicates", "arguments": arguments}
    result = schedule(gang("train", 1), others=[], plugins=["gang", predicates])
    assert len(result.bound()) == 1
    assert reserved(result) == []


# -- shared claims ---------------------------------------------------------------------------------


def shared_pods(count: int) -> dict[str, Any]:
    pods = [pod(f"p{number}", group="g", **claiming("shared")) for number in range(count)]
    return {"pods": pods, "podgroups": [podgroup("g", min_member=count, phase="Inqueue")]}


def test_pods_that_share_a_claim_get_the_same_devices_on_one_node() -> None:
    nodes = [node(name, cpu=64) for name in ("n1", "n2")]
    others = [claim("shared", request(count=2)), gpus("n1", 2), gpus("n2", 2)]
    result = schedule(nodes=nodes, others=others, **shared_pods(3))
    assert len(set(result.bound().values())) == 1
    entries = reserved(result)
    assert len(entries) == 3
    assert all(each.allocation == entries[0].allocation for each in entries)


def test_a_pod_joins_an_allocated_claim_on_its_node() -> None:
    nodes = [node(name, cpu=64) for name in ("n1", "n2")]
    running = pod("old", node="n2", **claiming("shared"))
    held = allocated(claim("shared"), "n2", "gpu-0", pods=["old"])
    others = [gpus("n1", 1), gpus("n2", 1), held]
    group = podgroup("g", min_member=1, phase="Inqueue")
    result = schedule(
        nodes=nodes,
        others=others,
        pods=[running, pod("new", group="g", **claiming("shared"))],
        podgroups=[group],
    )
    assert result.bound() == {"new": "n2"}
    (entry,) = reserved(result)
    assert entry.allocation is None
    assert not entry.protect


def test_a_claim_takes_at_most_256_pods() -> None:
    held = allocated(claim("shared"), "n1", "gpu-0", pods=[f"x{number}" for number in range(256)])
    result = schedule(others=[gpus("n1", 1), held], **shared_pods(1))
    assert result.bound() == {}
    assert "is reserved for 256 pods already" in result.said("p0")


# -- preemption ------------------------------------------------------------------------------------


def test_a_pod_of_higher_priority_gets_the_device_of_its_victim() -> None:
    low = gang("low", 2, min_available=1, on=[("n1", ["gpu-0"]), ("n1", ["gpu-1"])])
    high = gang("high", 1, group={"priority_class": "high"})
    result = schedule(
        low, high, others=[gpus("n1", 2), priority_class("high", 100)], actions=PREEMPT,
        plugins=["priority", "gang", "predicates"],
    )  # fmt: skip
    assert len(result.evicted()) == 1
    assert result.bound() == {}
    assert result.nominated() == {"high-0": "n1"}


def test_devices_of_pods_that_are_being_deleted_are_not_free_yet() -> None:
    old = gang("old", 1, on=[("n1", ["gpu-0"])], deleting=True)
    new = gang("new", 1)
    result = schedule(old, new, others=[gpus("n1", 1)])
    assert result.bound() == {}
    assert devices_of(result) == {}


def test_an_idle_device_is_preferred_to_waiting_for_a_released_one() -> None:
    nodes = [node(name, cpu=64) for name in ("n1", "n2")]
    old = gang("old", 1, on=[("n1", ["gpu-0"])], deleting=True)
    result = schedule(old, gang("new", 1), nodes=nodes, others=[gpus("n1", 1), gpus("n2", 1)])
    assert result.bound() == {"new-0": "n2"}


# -- requests --------------------------------------------------------------------------------------


def models(name: str, *numbers: int) -> list[Manifest]:
    return [device(f"gpu-{number}", {"model": name}) for number in numbers]


def test_selectors_choose_devices() -> None:
    devices = [*models("A100", 0), *models("H100", 1)]
    expression = f'device.attributes["{DRIVER}"].model == "H100"'
    wanted = request(selectors=[{"cel": {"expression": expression}}])
    result = schedule(gang("train", 1, wanted), others=[slice_of("n1", devices)])
    assert devices_of(result) == {"train-0-gpu": ["n1/gpu-1"]}


def test_all_devices_of_a_node_are_taken_or_none() -> None:
    wanted = request(allocationMode="All")
    result = schedule(gang("train", 1, wanted), others=[gpus("n1", 3)])
    assert devices_of(result) == {"train-0-gpu": ["n1/gpu-0", "n1/gpu-1", "n1/gpu-2"]}
    held = allocated(claim("old"), "n1", "gpu-1", pods=["x"])
    assert devices_of(schedule(gang("train", 1, wanted), others=[gpus("n1", 3), held])) == {}


def alternatives(*options: Manifest) -> Manifest:
    return {"name": "gpu", "firstAvailable": list(options)}


def test_the_first_alternative_that_is_available_is_taken() -> None:
    big = {"name": "big", "deviceClassName": "gpu", "count": 4}
    small = {"name": "small", "deviceClassName": "gpu", "count": 1}
    result = schedule(gang("train", 1, alternatives(big, small)), others=[gpus("n1", 2)])
    (entry,) = reserved(result)
    assert entry.allocation is not None
    assert [each["request"] for each in entry.allocation["devices"]["results"]] == ["gpu/small"]


def test_nodes_with_an_earlier_alternative_are_preferred() -> None:
    nodes = [node(name, cpu=64) for name in ("n1", "n2", "n3")]
    big = {"name": "big", "deviceClassName": "gpu", "count": 2}
    small = {"name": "small", "deviceClassName": "gpu", "count": 1}
    slices = [gpus("n1", 1), gpus("n2", 2), gpus("n3", 1)]
    for seed in range(5):
        result = schedule(gang("train", 1, alternatives(big, small)), nodes=nodes, others=slices, seed=seed)
        assert result.bound() == {"train-0": "n2"}


@pytest.mark.parametrize(
    ("constraint", "found"),
    [
        ({"matchAttribute": f"{DRIVER}/numa"}, ["n1/gpu-1", "n1/gpu-2"]),
        ({"distinctAttribute": f"{DRIVER}/numa"}, ["n1/gpu-0", "n1/gpu-1"]),
    ],
)
def test_constraints_hold_for_all_devices_of_a_claim(constraint: Manifest, found: list[str]) -> None:
    devices = [device(f"gpu-{number}", {"numa": numa}) for number, numa in enumerate((0, 1, 1))]
    made = gang("train", 1, request(count=2), devices={"constraints": [constraint]})
    assert devices_of(schedule(made, others=[slice_of("n1", devices)])) == {"train-0-gpu": found}


def test_a_constraint_between_requests_needs_backtracking() -> None:
    numas = (0, 0, 1, 1)
    devices = [device(f"gpu-{number}", {"numa": numa}) for number, numa in enumerate(numas)]
    first = request("a", selectors=[{"cel": {"expression": "true"}}])
    second = request("b", count=2)
    constraint = {"matchAttribute": f"{DRIVER}/numa", "requests": ["a", "b"]}
    made = gang("train", 1, first, second, devices={"constraints": [constraint]})
    devices.append(device("gpu-4", {"numa": 1}))
    found = devices_of(schedule(made, others=[slice_of("n1", devices)]))
    assert found == {"train-0-gpu": ["n1/gpu-2", "n1/gpu-3", "n1/gpu-4"]}


def test_tainted_devices_need_a_toleration() -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    slices = slice_of("n1", [device("gpu-0", taints=[taint])])
    assert devices_of(schedule(gang("train", 1), others=[slices])) == {}
    tolerant = request(tolerations=[{"key": "example.com/broken", "operator": "Exists"}])
    result = schedule(gang("train", 1, tolerant), others=[slices])
    assert devices_of(result) == {"train-0-gpu": ["n1/gpu-0"]}
    (entry,) = reserved(result)
    assert entry.allocation is not None
    assert entry.allocation["devices"]["results"][0]["tolerations"] == [
        {"key": "example.com/broken", "operator": "Exists"}
    ]


def partitions() -> list[Manifest]:
    """A card of 40Gi: as a whole, or in two halves."""
    whole = {"name": "n1-counters"}
    (counters,) = node_slices("n1", DRIVER, [])
    counters["metadata"] = {**counters["metadata"], **whole}
    counters["spec"] = {
        **{name: value for name, value in counters["spec"].items() if name != "devices"},
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}],
    }
    parts = [("whole", "40Gi"), ("half-0", "20Gi"), ("half-1", "20Gi")]
    devices = [
        device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": amount}}}])
        for name, amount in parts
    ]
    found = slice_of("n1", devices)
    found["spec"]["pool"] = counters["spec"]["pool"]
    return [counters, found]


def test_partitions_of_a_device_do_not_exceed_its_counters() -> None:
    result = schedule(gang("train", 2, min_available=1), others=partitions())
    assert sorted(devices_of(result).values()) == [["n1/whole"]]
    half = request(selectors=[{"cel": {"expression": "true"}}])
    held = allocated(claim("old", half), "n1", "half-0", pods=["x"])
    result = schedule(gang("train", 2, min_available=1), others=[*partitions(), held])
    assert sorted(devices_of(result).values()) == [["n1/half-1"]]


def shares(memory: str, **policy: Any) -> Manifest:
    capacity = {"memory": {"value": memory, **({"requestPolicy": policy} if policy else {})}}
    return slice_of("n1", [{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}])


def test_claims_share_the_capacity_of_a_device() -> None:
    wanted = request(capacity={"requests": {"memory": "4Gi"}})
    result = schedule(gang("train", 3, wanted, min_available=1), others=[shares("10Gi")])
    assert len(result.bound()) == 2
    results = [each.allocation["devices"]["results"][0] for each in reserved(result) if each.allocation]
    assert [each["consumedCapacity"] for each in results] == [{"memory": "4Gi"}] * 2
    assert len({each["shareID"] for each in results}) == 2


def test_requests_are_rounded_up_to_what_the_device_allows() -> None:
    wanted = request(capacity={"requests": {"memory": "3Gi"}})
    policy = {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}
    result = schedule(gang("train", 3, wanted, min_available=1), others=[shares("8Gi", **policy)])
    assert len(result.bound()) == 2
    (first, _) = (each.allocation for each in reserved(result))
    assert first is not None
    assert first["devices"]["results"][0]["consumedCapacity"] == {"memory": "4Gi"}


def test_admin_access_uses_devices_that_are_in_use() -> None:
    held = allocated(claim("old"), "n1", "gpu-0", pods=["x"])
    result = schedule(gang("watch", 1, request(adminAccess=True)), others=[gpus("n1", 1), held])
    (entry,) = reserved(result)
    assert entry.allocation is not None
    assert entry.allocation["devices"]["results"][0]["adminAccess"] is True


def test_devices_of_several_nodes_are_allocated_once() -> None:
    nodes = [node("n1", cpu=1, labels={"zone": "a"}), node("n2", cpu=64, labels={"zone": "b"})]
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    pool = slice_of("n1", [device("link-0")], nodeSelector={"nodeSelectorTerms": [term]})
    del pool["spec"]["nodeName"]
    result = schedule(gang("train", 2, min_available=1), nodes=nodes, others=[pool])
    assert list(result.bound().values()) == ["n2"]
    (entry,) = reserved(result)
    assert entry.allocation is not None
    assert entry.allocation["nodeSelector"] == {"nodeSelectorTerms": [term]}


def test_an_incomplete_pool_is_not_used() -> None:
    part = gpus("n1", 1)
    part["spec"]["pool"] = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    assert devices_of(schedule(gang("train", 1), others=[part])) == {}


def test_parameters_of_class_and_claim_go_to_the_driver() -> None:
    def config_of(text: str) -> Manifest:
        return {"opaque": {"driver": DRIVER, "parameters": {"from": text}}}

    made = gang("train", 1, devices={"config": [config_of("claim")]})
    result = run_schedule(
        nodes=[node("n1", cpu=64)],
        others=[gpu_class(config=[config_of("class")]), gpus("n1", 1), *made.claims],
        pods=made.pods,
        podgroups=[made.group],
    )
    (entry,) = reserved(result)
    assert entry.allocation is not None
    assert entry.allocation["devices"]["config"] == [
        {"source": "FromClass", "requests": ["gpu"], **config_of("class")},
        {"source": "FromClaim", **config_of("claim")},
    ]


def test_pods_without_claims_are_still_placed_in_runs() -> None:
    pods = [pod(f"p{number}", group="g") for number in range(4)]
    group = podgroup("g", min_member=4, phase="Inqueue")
    result = schedule(others=[gpus("n1", 1)], pods=pods, podgroups=[group], queues=[queue("default")])
    assert len(result.bound()) == 4
