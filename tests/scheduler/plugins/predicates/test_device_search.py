"""The search for devices is bounded in steps and in time."""

import pytest

from tests.builders import node, pod
from tests.dra import DRIVER, Gang, claim, claiming, gang, gpu_class, gpus, request, slice_of
from tests.scenario import schedule as run_schedule
from tests.scenario import session as run_session
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.dra.slices import device
from volcano.scheduler.plugins.predicates import Predicates
from volcano.scheduler.plugins.predicates.devices.allocator import Allocator, SearchLimitExceeded


def hard(count: int) -> tuple[Gang, Manifest]:
    """A claim for devices that are all different in an attribute of which there are too few values."""
    devices = [device(f"gpu-{number}", {"numa": number % 7}) for number in range(24)]
    constraint = {"distinctAttribute": f"{DRIVER}/numa"}
    made = gang("train", 1, request(count=count), devices={"constraints": [constraint]})
    return made, slice_of("n1", devices)


def test_a_search_that_takes_too_many_steps_rejects_the_node() -> None:
    made, slices = hard(8)
    result = run_schedule(
        nodes=[node("n1", cpu=64)],
        others=[gpu_class(), slices, *made.claims],
        pods=made.pods,
        podgroups=[made.group],
    )
    assert result.bound() == {}
    assert "for request gpu (8 needed; in the cluster 24 match, 0 in use)" in result.said("train-0")


def test_a_search_ends_after_its_time() -> None:
    made, slices = hard(8)
    opened = run_session(
        plugins=["predicates"],
        nodes=[node("n1", cpu=64)],
        others=[gpu_class(), slices, *made.claims],
        pods=made.pods,
        podgroups=[made.group],
    )
    plugin = opened.policy.plugins[0]
    assert isinstance(plugin, Predicates)
    (task,) = next(iter(opened.snapshot.jobs.values())).tasks.values()
    specs = plugin.devices._unallocated(task)
    state, moments = plugin.devices.state, iter((False, True))
    search = Allocator(state.index, state.usages(pipelined=False), 0, expired=lambda: next(moments))
    with pytest.raises(SearchLimitExceeded):
        search.allocate(specs)
    assert next(moments, None) is None


def test_a_reservation_of_a_pod_that_has_ended_is_forgotten() -> None:
    """No cycle looked at devices between the binding of the pod and its end."""
    entry = {
        "claim": ["default", "shared"],
        "uid": "uid-default-shared",
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]}
        },
        "pods": {"uid-default-old": "n1"},
    }
    for phase, bound in (("Running", 0), ("Succeeded", 1)):
        old = pod("old", node="n1", phase=phase, **claiming("shared"))
        made = gang("new", 1)
        result = run_schedule(
            nodes=[node("n1", cpu=64)],
            others=[gpu_class(), gpus("n1", 1), claim("shared"), *made.claims],
            pods=[old, *made.pods],
            podgroups=[made.group],
            memory={"predicates": {"devices": {"default/shared": entry}}},
        )
        assert len(result.bound()) == bound
