"""Shared cards: what a node registers, hands out and answers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.kube.api.manifest import Manifest
from volcano.kube.devices import ascend, vgpu
from volcano.kube.devices.vgpu import DeviceShare
from volcano.nodes.kubelet.gpus import sharing
from volcano.nodes.kubelet.gpus.inventory import Gpu

CARDS = (Gpu("GPU-a", 0, "NVIDIA A100: 40,GB", 16000, ""), Gpu("GPU-b", 1, "NVIDIA A100", 16000, ""))
SHARE = {vgpu.NUMBER: "1", vgpu.MEMORY: "4000"}


def pod(*limits: dict[str, str], **annotations: str) -> Manifest:
    containers = [{"name": f"c{number}", "resources": {"limits": each}} for number, each in enumerate(limits)]
    metadata: dict[str, Any] = {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations}
    return {"metadata": metadata, "spec": {"nodeName": "n", "containers": containers}}


def assigned(text: str, *limits: dict[str, str], **more: str) -> Manifest:
    found = pod(*limits)
    found["metadata"]["annotations"] = {
        vgpu.ASSIGNED: text,
        vgpu.NODE: "n",
        vgpu.BIND_PHASE: vgpu.ALLOCATING,
    } | more
    return found


def test_a_register_can_be_read_back_and_counts_what_is_allocatable() -> None:
    cards = sharing.registered(CARDS, 10, {"GPU-b"})
    assert vgpu.parse_register(vgpu.format_register(cards)) == cards
    assert [(card.uuid, card.split, card.memory, card.healthy) for card in cards] == [
        ("GPU-a", 10, 16000, True),
        ("GPU-b", 10, 16000, False),
    ]
    assert cards[1].type == "NVIDIA-NVIDIA A100"
    assert sharing.shared_resources(cards) == {vgpu.NUMBER: "20", vgpu.MEMORY: "32000", vgpu.CORES: "200"}


def test_shares_are_found_by_the_container_s_place_among_those_that_ask() -> None:
    both = assigned(
        "GPU-a,NVIDIA,4000,0:;GPU-b,NVIDIA,1000,50:GPU-a,NVIDIA,1000,50:", SHARE, {"cpu": "1"}, SHARE
    )
    assert sharing.shares_of(both, "c0") == (DeviceShare("GPU-a", "NVIDIA", 4000, 0),)
    assert sharing.shares_of(both, "c1") == ()
    assert [share.uuid for share in sharing.shares_of(both, "c2")] == ["GPU-b", "GPU-a"]


@pytest.mark.parametrize(
    ("asking", "problem"),
    [
        pytest.param(pod({"cpu": "1"}), "", id="asks for none"),
        pytest.param(assigned("GPU-a,NVIDIA,4000,0:", SHARE), "", id="valid"),
        pytest.param(
            pod(SHARE), "only a scheduler with the plugin deviceshare assigns them", id="no assignment"
        ),
        pytest.param(assigned("GPU-a,NVIDIA", SHARE), "should be uuid,type,memory,cores", id="malformed"),
        pytest.param(
            assigned("GPU-a,NVIDIA,4000,0:", SHARE, SHARE), "has 1 entries; it should have one", id="too few"
        ),
        pytest.param(
            assigned("GPU-z,NVIDIA,1,0:", SHARE), "card GPU-z, which node n does not have", id="unknown card"
        ),
        pytest.param(
            assigned("GPU-a,NVIDIA,1,0:", SHARE, **{vgpu.NODE: "m"}),
            "of node m, not of n",
            id="another node's",
        ),
        pytest.param(assigned(";", SHARE, SHARE), "container c0 asks for a share and has none", id="empty"),
    ],
)
def test_a_node_says_why_it_cannot_hand_out_shares(asking: Manifest, problem: str) -> None:
    found = sharing.assignment_problem(asking, "n", {"GPU-a", "GPU-b"})
    assert problem in found
    assert bool(found) == bool(problem)


def test_the_answer_completes_the_protocol() -> None:
    text = "GPU-a,NVIDIA,4000,0:;GPU-b,NVIDIA,4000,0:"
    waiting = assigned(text, SHARE, SHARE, **{vgpu.TO_ALLOCATE: text})
    assert sharing.is_waiting(waiting)
    done = sharing.answer(waiting, failed=False)
    assert done == {vgpu.BIND_PHASE: "success", vgpu.TIME: "18446744073709551615", vgpu.TO_ALLOCATE: ";"}
    failed = sharing.answer(waiting, failed=True)
    assert failed[vgpu.BIND_PHASE] == "failed"
    assert vgpu.TO_ALLOCATE not in failed
    waiting["metadata"]["annotations"] |= done
    assert not sharing.is_waiting(waiting)


def test_npus_are_answered_under_their_own_names() -> None:
    waiting = pod({"huawei.com/Ascend310P": "1"})
    waiting["metadata"]["annotations"] = {
        ascend.BIND_PHASE: "allocating",
        "hami.io/Ascend310P-devices-to-allocate": "u,Ascend310P,6144,2:;",
        "hami.io/Ascend310P-devices-allocated": "u,Ascend310P,6144,2:;",
    }
    assert sharing.answer(waiting, failed=False) == {
        ascend.BIND_PHASE: "success",
        ascend.TIME: vgpu.HANDED_OUT,
        "hami.io/Ascend310P-devices-to-allocate": ";",
    }


def test_locks_of_a_node_are_known() -> None:
    locked = {"metadata": {"name": "n", "annotations": {vgpu.LOCK: "2026-01-01T00:00:00Z", "x": "y"}}}
    assert sharing.held_locks(locked) == [vgpu.LOCK]


def test_programs_are_told_their_share() -> None:
    shares = (DeviceShare("GPU-a", "NVIDIA", 4000, 25), DeviceShare("GPU-b", "NVIDIA", 8000, 25))
    variables = sharing.share_environment(shares, {"GPU-a": 16000, "GPU-b": 16000})
    assert variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4000m"
    assert variables["CUDA_DEVICE_MEMORY_LIMIT_1"] == "8000m"
    assert variables["CUDA_DEVICE_SM_LIMIT"] == "25"
    assert variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4000M,1=8000M"
    assert variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert float(variables["XLA_PYTHON_CLIENT_MEM_FRACTION"]) <= 0.25


shares = st.builds(
    DeviceShare,
    st.sampled_from(("GPU-a", "GPU-b")),
    st.just("NVIDIA"),
    st.integers(0, 16000),
    st.integers(0, 100),
)


@given(st.lists(st.lists(shares, min_size=1, max_size=3), min_size=1, max_size=4))
def test_every_container_gets_exactly_what_was_assigned_to_it(containers: list[list[DeviceShare]]) -> None:
    found = assigned(vgpu.format_assignment(containers), *[SHARE for _ in containers])
    assert [list(sharing.shares_of(found, f"c{n}")) for n in range(len(containers))] == containers
    assert sharing.assignment_problem(found, "n", {"GPU-a", "GPU-b"}) == ""
