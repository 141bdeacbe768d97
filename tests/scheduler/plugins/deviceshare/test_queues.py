"""Queues count number × memory of vGPUs, in limits and in status."""

from typing import Any

import pytest

from tests.builders import queue
from tests.scheduler.plugins.deviceshare.cards import (
    Cards,
    ask,
    card,
    cards_of,
    containers,
    gpu_node,
    pods,
    sharing,
)
from volcano.kube.devices import vgpu

NODE = gpu_node(cards=[card(f"GPU-{i}", 40000) for i in range(4)])


def world(plugin: str, capability: dict[str, str], *jobs: Any) -> Cards:
    return Cards(
        nodes=[NODE], plugins=[sharing(), plugin], queues=[queue("default", capability=capability)], jobs=jobs
    )


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_a_limit_of_memory_counts_all_cards_of_a_pod(plugin: str) -> None:
    cluster = world(plugin, {vgpu.MEMORY: "8000"}, pods("p", 2, **ask(2, 4000)))
    result = cluster.cycle()
    assert len(cards_of(result)) == 1
    assert "queue default has reached its capability" in result.said("p-worker-1")
    assert cluster.cycle().allocated("default")[vgpu.MEMORY] == "8k"


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_a_limit_of_cores_counts_all_cards_of_a_pod(plugin: str) -> None:
    assert len(cards_of(world(plugin, {vgpu.CORES: "100"}, pods("p", 2, **ask(2, 100, 50))).cycle())) == 1


def test_memory_without_number_counts_one_card() -> None:
    cluster = world("capacity", {vgpu.NUMBER: "1"}, pods("p", 2, **ask(memory=4000)))
    assert len(cards_of(cluster.cycle())) == 1
    assert cluster.cycle().allocated("default") == {
        "cpu": "10m", "pods": "1", vgpu.NUMBER: "1", vgpu.MEMORY: "4k",
    }  # fmt: skip


def test_containers_add_up() -> None:
    spec = containers(ask(2, 1000), ask(1, 500))
    cluster = world("capacity", {vgpu.MEMORY: "3000"}, pods("p", 2, spec=spec))
    assert len(cards_of(cluster.cycle())) == 1
    assert cluster.cycle().allocated("default")[vgpu.MEMORY] == "2500"


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_a_whole_card_counts_with_its_memory(plugin: str) -> None:
    cluster = world(plugin, {vgpu.MEMORY: "50000"}, pods("p", **ask(1)), pods("q", **ask(1, percent=25)))
    cluster.cycle()
    assert cluster.decide().allocated("default")[vgpu.MEMORY] == "50k"
    cluster.add(pods("r", **ask(1, 100)))
    assert cards_of(cluster.decide()) == {}


def test_percentages_are_limited_before_cards_are_assigned() -> None:
    cluster = world("capacity", {vgpu.MEMORY: "50000"}, pods("p", 3, **ask(1, percent=50)))
    result = cluster.decide()
    assert len(cards_of(result)) == 2
    assert result.said("p-worker-2") == (
        "queue default has reached its capability: volcano.sh/vgpu-memory 50k in all, the pod requests 20k"
    )
