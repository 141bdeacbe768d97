"""Node locks: one pod at a time, until the device plugin handed out its devices."""

from tests.builders import START
from tests.scheduler.plugins.deviceshare.cards import Cards, ask, card, cards_of, gpu_node, pods, sharing
from volcano.base.clock import Instant, timestamp
from volcano.kube.client.operations import Create, Patch
from volcano.kube.devices import vgpu
from volcano.model.decisions import Bind
from volcano.scheduler.writeback.operations import OperationBuilder

NODES = [gpu_node("g1", [card("a")]), gpu_node("g2", [card("b")])]
LOCKED = gpu_node("g1", [card("a")], annotations={vgpu.LOCK: timestamp(START)})


def world(replicas: int, nodes: object = NODES) -> Cards:
    return Cards(
        nodes=nodes, plugins=[sharing(NodeLockEnable=True)], jobs=[pods("p", replicas, **ask(1, 100))]
    )


def test_other_nodes_are_tried_and_then_the_pod_waits() -> None:
    cluster = world(3)
    first = cluster.cycle()
    assert sorted(cards_of(first).values()) == ["a", "b"]
    assert first.said("p-worker-2") == (
        "0/2 nodes are available: "
        "2 node(s) were locked while a device plugin hands out the devices of another pod."
    )
    assert cards_of(cluster.cycle()) == {}


def test_the_lock_is_written_before_the_binding() -> None:
    (bind,) = [d for d in world(1).cycle().decisions if isinstance(d, Bind)]
    lock, binding = OperationBuilder("volcano").operations(bind, Instant(START, 0.0))
    assert isinstance(lock, Patch)
    assert isinstance(binding, Create)
    assert lock.kind.kind == "Node"
    assert lock.key.name == bind.node
    assert lock.patch == {"metadata": {"annotations": {"hamivgpu": timestamp(START)}}}
    assert binding.manifest["metadata"]["annotations"] == bind.annotations


def test_the_device_plugin_unlocks_the_node() -> None:
    cluster = world(2, [LOCKED])
    cluster.cycle()
    cluster.apply(LOCKED)
    assert cards_of(cluster.cycle()) == {}
    cluster.apply(gpu_node("g1", [card("a")]))
    cluster.change("p-worker-0", **{vgpu.BIND_PHASE: vgpu.SUCCESS})
    assert cards_of(cluster.cycle()) == {"p-worker-1": "a"}


def test_a_lock_does_not_count_after_five_minutes() -> None:
    cluster = world(2, [LOCKED])
    cluster.cycle()
    cluster.now = START + 299
    assert cards_of(cluster.cycle()) == {}
    cluster.now = START + 301
    assert cards_of(cluster.cycle()) == {"p-worker-1": "a"}


def test_the_lock_of_a_pod_that_is_gone_does_not_count() -> None:
    cluster = world(2, [LOCKED])
    cluster.cycle()
    cluster.delete("p-worker-0")
    assert cards_of(cluster.cycle()) == {"p-worker-1": "a"}


def test_a_binding_that_is_not_confirmed_locks_the_node() -> None:
    cluster = world(2, [gpu_node("g1", [card("a")])])
    assert len(cards_of(cluster.decide())) == 1
    assert cards_of(cluster.decide()) == {}
