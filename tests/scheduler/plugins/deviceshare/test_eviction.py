"""Cards of evicted pods are used by those they were evicted for."""

from typing import Any

from tests.builders import priority_class, queue
from tests.scenario import Result
from tests.scheduler.plugins.deviceshare.cards import Cards, ask, card, cards_of, gpu_node, pods, sharing
from volcano.kube.client.protocol import EventType
from volcano.kube.devices import vgpu

CLASSES = (priority_class("low", 10), priority_class("high", 1000))


def running(name: str, *cards: str, memory: int = 16000, **options: Any) -> Any:
    """Pods on node g, one on each card."""
    made = pods(name, len(cards), on="g", priority_class="low", **options, **ask(1, memory))
    for pod, uuid in zip(made.pods, cards, strict=True):
        pod["metadata"]["annotations"][vgpu.ASSIGNED] = f"{uuid},NVIDIA,{memory},0:"
    return made


def terminate(world: Cards, result: Result) -> None:
    """The evicted pods are gone."""
    for name in sorted(result.evicted()):
        world.apply(world.manifests[name], EventType.DELETED)


def test_preemption_evicts_one_pod_and_its_card_is_reused() -> None:
    world = Cards(
        nodes=[gpu_node()],
        others=CLASSES,
        jobs=[
            running("low1", "GPU-a"),
            running("low2", "GPU-b"),
            pods("high", priority_class="high", age=-1, **ask(1, 8000)),
        ],
    )
    first = world.decide()
    assert len(first.evicted()) == 1
    assert first.nominated() == {"high-worker-0": "g"}
    freed = {"low1-worker-0": "GPU-a", "low2-worker-0": "GPU-b"}[next(iter(first.evicted()))]
    # The card is not free before the pod is gone.
    assert cards_of(world.decide()) == {}
    terminate(world, first)
    assert cards_of(world.decide()) == {"high-worker-0": freed}


def test_pods_are_evicted_until_one_card_has_room() -> None:
    # Two pods of 8000 on each card: evicting any two frees enough memory, but only two of one card make room.
    jobs = [
        running(f"low{i}", uuid, memory=8000) for i, uuid in enumerate(("GPU-a", "GPU-b", "GPU-a", "GPU-b"))
    ]
    world = Cards(
        nodes=[gpu_node()],
        others=CLASSES,
        jobs=[*jobs, pods("high", priority_class="high", age=-1, **ask(1, 12000))],
    )
    first = world.decide()
    evicted = {name.removesuffix("-worker-0") for name in first.evicted()}
    assert evicted in ({"low0", "low2"}, {"low1", "low3"})
    terminate(world, first)
    assert cards_of(world.decide()) == {"high-worker-0": "GPU-a" if "low0" in evicted else "GPU-b"}


def test_reclaim_frees_cards_for_another_queue() -> None:
    world = Cards(
        nodes=[gpu_node()],
        plugins=[sharing(), {"name": "proportion"}],
        queues=[queue("a"), queue("b")],
        jobs=[
            running("a1", "GPU-a", queue="a"),
            running("a2", "GPU-b", queue="a"),
            pods("b", queue="b", age=-1, **ask(1, 16000)),
        ],
        others=CLASSES,
    )
    first = world.decide()
    assert len(first.evicted()) == 1
    terminate(world, first)
    assert len(cards_of(world.decide())) == 1


def test_nothing_is_evicted_for_a_pod_that_no_card_could_hold() -> None:
    world = Cards(
        nodes=[gpu_node()],
        others=CLASSES,
        jobs=[running("low", "GPU-a", "GPU-b"), pods("high", priority_class="high", **ask(1, 20000))],
    )
    assert world.decide().evicted() == set()


def test_a_gang_for_which_evictions_are_not_enough_evicts_nothing() -> None:
    kept = pods("kept", on="g", priority_class="high", **ask(1, 16000))
    kept.pods[0]["metadata"]["annotations"][vgpu.ASSIGNED] = "GPU-b,NVIDIA,16000,0:"
    gang = pods("gang", 2, min_available=2, priority_class="high", age=-1, **ask(1, 12000))
    world = Cards(nodes=[gpu_node()], others=CLASSES, jobs=[running("low", "GPU-a"), kept, gang])
    result = world.decide()
    assert result.evicted() == set()
    assert result.bound() == {}


def test_preemption_by_gangs_uses_the_cards_of_its_victims() -> None:
    gang = pods("gang", 2, min_available=2, priority_class="high", age=-1, **ask(1, 12000))
    world = Cards(
        nodes=[gpu_node()],
        others=CLASSES,
        actions=("enqueue", "allocate", "gangpreempt"),
        jobs=[running("low1", "GPU-a"), running("low2", "GPU-b"), gang],
    )
    first = world.decide()
    assert len(first.evicted()) == 2
    terminate(world, first)
    assert sorted(cards_of(world.decide()).values()) == ["GPU-a", "GPU-b"]


def test_an_exclusive_rule_does_not_protect_from_preemption() -> None:
    labels = {"workloadType": "training"}
    world = Cards(
        nodes=[gpu_node(cards=[card("GPU-a")])],
        others=CLASSES,
        plugins=[sharing(GPUExclusiveRules=[labels])],
        jobs=[
            running("low", "GPU-a", memory=1000, labels=labels),
            pods("high", priority_class="high", labels=labels, age=-1, **ask(1, 1000)),
        ],
    )
    first = world.decide()
    assert first.evicted() == {"low-worker-0"}
    terminate(world, first)
    assert cards_of(world.decide()) == {"high-worker-0": "GPU-a"}


def test_a_pod_that_is_being_deleted_keeps_its_card_until_it_is_gone() -> None:
    leaving = running("low", "GPU-a")
    leaving.pods[0]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    world = Cards(
        nodes=[gpu_node(cards=[card("GPU-a")])], others=CLASSES, jobs=[leaving, pods("p", **ask(1, 8000))]
    )
    assert world.decide().bound() == {}
    world.delete("low-worker-0")
    assert cards_of(world.decide()) == {"p-worker-0": "GPU-a"}


def test_a_rule_prefers_open_cards_to_those_of_pods_that_are_being_deleted() -> None:
    labels = {"workloadType": "training"}
    leaving = running("low", "GPU-a", memory=8000, labels=labels)
    leaving.pods[0]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    world = Cards(
        nodes=[gpu_node(cards=[card("GPU-a")]), gpu_node("other", [card("GPU-o")])],
        others=CLASSES,
        plugins=[sharing(GPUExclusiveRules=[labels])],
        jobs=[leaving, pods("p", labels=labels, **ask(1, 1000))],
    )
    assert cards_of(world.decide()) == {"p-worker-0": "GPU-o"}
