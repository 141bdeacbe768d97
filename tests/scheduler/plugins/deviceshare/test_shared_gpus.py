"""GPUs shared by memory, or assigned by number."""

from typing import Any

from tests.builders import START, node
from tests.scenario import Result
from tests.scheduler.plugins.deviceshare.cards import Cards, plugin, pods
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices import gpushare
from volcano.model.decisions import Bind

BY_MEMORY = plugin(**{"deviceshare.GPUSharingEnable": True})
BY_NUMBER = plugin(**{"deviceshare.GPUNumberEnable": True})


def machine(**annotations: str) -> Manifest:
    amounts: dict[str, Any] = {gpushare.MEMORY: 32000, gpushare.NUMBER: 2}
    return node(
        "g",
        cpu=64,
        annotations={f"volcano.sh/{k.replace('_', '-')}": v for k, v in annotations.items()},
        **amounts,
    )


def limits(**amounts: int) -> dict[str, Any]:
    names = {f"volcano.sh/gpu-{name}": str(amount) for name, amount in amounts.items()}
    return {"spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"limits": names}}]}}


def indexes(result: Result) -> list[str]:
    return [d.annotations[gpushare.INDEX] for d in result.decisions if isinstance(d, Bind)]


def placed(world: Cards, *amounts: dict[str, Any]) -> list[str]:
    found = []
    for i, each in enumerate(amounts):
        world.add(pods(f"p{len(world.manifests)}-{i}", **each))
        found += indexes(world.cycle())
    return found


def test_the_first_card_with_enough_memory_is_used() -> None:
    world = Cards(nodes=[machine()], plugins=[BY_MEMORY])
    assert placed(world, *(limits(memory=amount) for amount in (10000, 8000, 6000))) == ["0", "1", "0"]
    result_of_none = placed(world, limits(memory=9000))
    assert result_of_none == []


def test_the_binding_has_index_and_time() -> None:
    world = Cards(nodes=[machine()], plugins=[BY_MEMORY], jobs=[pods("p", **limits(memory=1000))])
    (bind,) = [d for d in world.cycle().decisions if isinstance(d, Bind)]
    assert bind.annotations == {gpushare.INDEX: "0", gpushare.TIME: str(int(START * 1e9))}


def test_unhealthy_cards_are_left_out() -> None:
    world = Cards(nodes=[machine(gpu_unhealthy_ids="0,x")], plugins=[BY_MEMORY])
    assert placed(world, limits(memory=1000)) == ["1"]


def test_a_pod_uses_one_card_whatever_the_number_of_containers() -> None:
    spec = limits(memory=9000)
    spec["spec"]["containers"] *= 2
    world = Cards(nodes=[machine()], plugins=[BY_MEMORY], jobs=[pods("p", **spec)])
    result = world.cycle()
    assert indexes(result) == []
    assert (
        result.said("p-worker-0")
        == "0/1 nodes are available: 1 no card has 18000 MiB free: 2 too little memory."
    )


def test_cards_by_number_are_not_shared() -> None:
    world = Cards(nodes=[machine()], plugins=[BY_NUMBER])
    assert placed(world, limits(number=2)) == ["0,1"]
    world.add(pods("q", **limits(number=1)))
    result = world.cycle()
    assert indexes(result) == []
    world.delete(next(name for name in world.manifests if name.startswith("p0")))
    assert indexes(world.cycle()) == ["0"]


def test_a_card_in_use_is_named() -> None:
    amounts: dict[str, Any] = {gpushare.MEMORY: 32000, gpushare.NUMBER: 2}
    running = pods("p", on="g", annotations={gpushare.INDEX: "1"}, **limits(number=1))
    world = Cards(
        nodes=[node("g", **amounts)], plugins=[BY_NUMBER], jobs=[running, pods("q", **limits(number=2))]
    )
    assert world.cycle().said("q-worker-0") == (
        "0/1 nodes are available: 1 fewer than 2 cards are unused: 1 suitable, 1 in use."
    )


def test_a_pod_with_an_index_of_its_own_is_counted_there() -> None:
    own = pods("own", on="g", annotations={gpushare.INDEX: "0"}, **limits(memory=12000))
    world = Cards(nodes=[machine()], plugins=[BY_MEMORY], jobs=[own])
    assert placed(world, limits(memory=5000)) == ["1"]
    assert placed(world, limits(memory=4000)) == ["0"]
