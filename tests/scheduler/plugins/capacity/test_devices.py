"""Devices in queues: capability, deserved and guarantee of `deviceclass/<class>`, shared claims counted once."""

from collections.abc import Sequence
from typing import Any

from tests.builders import node, pod, podgroup, queue
from tests.dra import Gang, allocated, claim, claiming, gang, gpu_class, gpus, request, slice_of
from tests.scenario import Result
from tests.scenario import schedule as run_schedule
from volcano.kube.api.manifest import Manifest

PLUGINS = ("gang", "predicates", "capacity")
RECLAIM = ("enqueue", "allocate", "reclaim")


def schedule(
    *gangs: Gang, queues: Sequence[Manifest], others: Sequence[Manifest] = (), cards: int = 8, **more: Any
) -> Result:
    return run_schedule(
        nodes=[node("n1", cpu=64)],
        queues=queues,
        others=[gpu_class(), gpus("n1", cards), *others, *(each for one in gangs for each in one.claims)],
        pods=[*(each for one in gangs for each in one.pods), *more.pop("pods", ())],
        podgroups=[*(one.group for one in gangs), *more.pop("podgroups", ())],
        plugins=PLUGINS,
        **more,
    )


def pending(name: str, *requests: Manifest, queue_name: str = "q", **more: Any) -> Gang:
    """A job of one pod that has not been admitted yet."""
    found = gang(name, 1, *requests, queue=queue_name, group={"min_resources": {"cpu": "1"}}, **more)
    found.group["status"]["phase"] = "Pending"
    return found


def running(name: str, device: str, queue_name: str = "q") -> Gang:
    return gang(name, 1, queue=queue_name, on=[("n1", [device])])


LIMITED = queue("q", capability={"deviceclass/gpu": "2"})


def test_a_third_job_waits_when_the_queue_may_have_two_devices() -> None:
    result = schedule(*(pending(f"j{number}") for number in range(3)), queues=[LIMITED])
    assert len(result.bound()) == 2
    (waiting,) = (name for name in ("j0", "j1", "j2") if f"{name}-0" not in result.bound())
    assert any(
        "queue resource quota insufficient: insufficient dra-resource-exceeded (deviceclass/gpu)" in text
        for text in result.events(waiting)
    )


def test_an_admitted_job_says_which_limit_it_waits_for() -> None:
    jobs = [running("a", "gpu-0"), running("b", "gpu-1"), gang("c", 1, queue="q")]
    result = schedule(*jobs, queues=[LIMITED])
    assert result.bound() == {}
    assert "queue q has reached its capability: deviceclass/gpu 2 in all, the pod requests 1" in result.said(
        "c-0"
    )


def test_a_job_runs_after_another_one_ended() -> None:
    result = schedule(running("a", "gpu-0"), gang("c", 1, queue="q"), queues=[LIMITED])
    assert result.bound() == {"c-0": "n1"}


def test_the_status_of_a_queue_shows_its_devices() -> None:
    result = schedule(running("a", "gpu-0"), running("b", "gpu-1"), queues=[LIMITED])
    assert result.allocated("q")["deviceclass/gpu"] == "2"


def test_devices_of_classes_that_the_queue_does_not_list_are_not_limited() -> None:
    result = schedule(gang("a", 4, queue="q"), queues=[queue("q", capability={"deviceclass/tpu": "1"})])
    assert len(result.bound()) == 4


def test_a_claim_that_two_pods_share_counts_once() -> None:
    shared = claim("shared", request(count=2))
    pods = [pod(name, group="g", **claiming("shared")) for name in ("a", "b")]
    group = podgroup("g", queue="q", min_member=2, phase="Inqueue")
    result = schedule(queues=[LIMITED], others=[shared], pods=pods, podgroups=[group])
    assert len(result.bound()) == 2
    held = allocated(shared, "n1", "gpu-0", "gpu-1", pods=["a", "b"])
    placed = [pod(name, group="g", node="n1", **claiming("shared")) for name in ("a", "b")]
    result = schedule(queues=[LIMITED], others=[held], pods=placed, podgroups=[group])
    assert result.allocated("q")["deviceclass/gpu"] == "2"


def vgpus(*requests: Manifest, capability: dict[str, str], others: Sequence[Manifest] = ()) -> Result:
    capacity = {"memory": {"value": "64Gi"}, "cores": {"value": "100"}}
    card = {"name": "card", "allowMultipleAllocations": True, "capacity": capacity}
    jobs = [gang(f"j{number}", 1, each, queue="q") for number, each in enumerate(requests)]
    return schedule(
        *jobs,
        queues=[queue("q", capability=capability)],
        others=[gpu_class("vgpu"), slice_of("n1", [card], driver="gpu.example.com"), *others],
        cards=0,
    )


def share(memory: str, count: int = 1, **more: str) -> Manifest:
    return request(device_class="vgpu", count=count, capacity={"requests": {"memory": memory, **more}})


def test_a_capacity_of_devices_is_limited() -> None:
    limit = {"memory.deviceclass/vgpu": "16Gi", "cores.deviceclass/vgpu": "100"}
    both = vgpus(share("8Gi", 2, cores="10"), share("1Gi", cores="10"), capability=limit)
    assert list(both.bound()) == ["j0-0"]
    assert "memory.deviceclass/vgpu 16Gi in all" in both.said("j1-0")


def test_a_capacity_that_the_queue_does_not_list_is_rejected() -> None:
    result = vgpus(share("1Gi", cores="10"), capability={"memory.deviceclass/vgpu": "16Gi"})
    assert result.bound() == {}
    assert "has no limit for cores.deviceclass/vgpu" in result.said("j0-0")


def test_prioritized_lists_are_not_counted() -> None:
    options = [
        {"name": "two", "deviceClassName": "gpu", "count": 2},
        {"name": "one", "deviceClassName": "gpu"},
    ]
    wanted = {"name": "gpu", "firstAvailable": options}
    jobs = [gang(f"j{number}", 1, wanted, queue="q") for number in range(3)]
    assert len(schedule(*jobs, queues=[LIMITED]).bound()) == 3


def test_a_queue_reclaims_the_devices_it_deserves() -> None:
    queues = [
        queue("q", deserved={"deviceclass/gpu": "2"}),
        queue("greedy", deserved={"deviceclass/gpu": "2"}),
    ]
    borrowed = gang(
        "big", 4, queue="greedy", min_available=1, on=[("n1", [f"gpu-{number}"]) for number in range(4)]
    )
    result = schedule(borrowed, gang("new", 2, queue="q"), queues=queues, cards=4, actions=RECLAIM)
    assert len(result.evicted()) == 2
    assert result.bound() == {}


def test_a_queue_does_not_reclaim_more_devices_than_it_deserves() -> None:
    queues = [
        queue("q", deserved={"deviceclass/gpu": "1"}),
        queue("greedy", deserved={"deviceclass/gpu": "3"}),
    ]
    borrowed = gang(
        "big", 4, queue="greedy", min_available=1, on=[("n1", [f"gpu-{number}"]) for number in range(4)]
    )
    jobs = [gang(f"new{number}", 1, queue="q") for number in range(2)]
    result = schedule(borrowed, *jobs, queues=queues, cards=4, actions=RECLAIM)
    assert len(result.evicted()) == 1


def test_guaranteed_devices_are_kept_for_their_queue() -> None:
    queues = [queue("q"), queue("safe", guarantee={"deviceclass/gpu": "3"})]
    result = schedule(*(gang(f"j{number}", 1, queue="q") for number in range(4)), queues=queues, cards=4)
    assert len(result.bound()) == 1


def test_the_accounts_can_be_switched_off() -> None:
    capacity = {"name": "capacity", "arguments": {"capacity.DynamicResourceAllocationEnable": False}}
    made = gang("a", 4, queue="q")
    result = run_schedule(
        nodes=[node("n1", cpu=64)],
        queues=[LIMITED],
        others=[gpu_class(), gpus("n1", 4), *made.claims],
        pods=made.pods,
        podgroups=[made.group],
        plugins=["gang", "predicates", capacity],
    )
    assert len(result.bound()) == 4
