"""fragmentation: pods go where free cards stay usable for the pods that are expected."""

from typing import Any

import pytest

from tests.builders import job, node
from tests.scenario import schedule, session
from tests.scheduler.plugins.deviceshare.cards import Cards, ask, card, gpu_node, pods, sharing
from volcano.model.decisions import Bind
from volcano.scheduler.engine.config import ConfigError, parse
from volcano.scheduler.plugins.fragmentation import Fragmentation

WHOLE_CARDS = [{"cpu": 8, "memory": "32Gi", "cards": 1, "share": 100}]


def plugin(**arguments: Any) -> dict[str, Any]:
    given = {f"fragmentation.{name}": value for name, value in arguments.items()}
    return {"name": "fragmentation", "arguments": given}


def nodes_of(result: Any) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def test_a_share_goes_to_a_card_that_is_in_use() -> None:
    used = gpu_node("used", (card("GPU-a"),))
    used["metadata"]["labels"]["card"] = "used"
    cards = Cards(
        nodes=[gpu_node("empty", (card("GPU-b"),)), used],
        jobs=[pods("first", **ask(1, 8000, 50), spec={"nodeSelector": {"card": "used"}})],
        plugins=[sharing("binpack", 0), plugin(demand=WHOLE_CARDS)],
    )
    assert nodes_of(cards.cycle()) == {"first-worker-0": "used"}
    cards.add(pods("second", **ask(1, 8000, 50)))
    assert nodes_of(cards.cycle()) == {"second-worker-0": "used"}


def test_pods_without_cards_avoid_the_cores_that_cards_need() -> None:
    result = schedule(
        nodes=[
            node("scarce", cpu=16, memory="64Gi", gpu=2),
            node("plenty", cpu=64, memory="256Gi", gpu=2),
            node("none", cpu=4, memory="16Gi"),
        ],
        jobs=[job("service", 1, cpu=8), job("small", 1, cpu=2)],
        plugins=["gang", plugin(demand=WHOLE_CARDS)],
    )
    placed = nodes_of(result)
    assert placed["service-worker-0"] == "plenty"
    assert placed["small-worker-0"] == "none"


def test_cards_of_a_scarce_model_are_left_to_the_pods_that_require_it() -> None:
    product = "nvidia.com/gpu.product"
    result = schedule(
        nodes=[
            node("t4", cpu=64, memory="256Gi", gpu=1, labels={product: "T4"}),
            node("a100", cpu=64, memory="256Gi", gpu=1, labels={product: "A100"}),
        ],
        jobs=[
            job("any", 1, cpu=1, gpu=1, priority=100),
            job("special", 1, cpu=1, gpu=1, spec={"nodeSelector": {product: "T4"}}),
        ],
        plugins=["priority", "gang", "predicates", plugin()],
    )
    assert nodes_of(result) == {"any-worker-0": "a100", "special-worker-0": "t4"}


def test_demand_is_learned_from_pods_of_earlier_cycles_each_counted_once() -> None:
    cards = Cards(nodes=[gpu_node()], jobs=[pods("p", 3, **ask(1, 8000, 50))], plugins=[sharing(), plugin()])
    cards.cycle()
    learned = cards.cycle().snapshot.derived["fragmentation"]
    assert cards.memory.get("fragmentation") is None  # it does not make cycles necessary
    assert sum(sum(each.values()) for each in learned.counted.values()) == 3
    (request,) = learned.demand.expectation.requests
    assert (request.cards, request.share) == (1, 50)
    assert learned.demand._observed == 3


def test_without_expected_pods_all_nodes_score_the_same() -> None:
    made = session(
        nodes=[node("a", cpu=4), node("b", cpu=8)], jobs=[job("p", 1, cpu=1)], plugins=["gang", plugin()]
    )
    found = next(each for each in made.policy.plugins if isinstance(each, Fragmentation))
    task = next(iter(made.snapshot.jobs["default/p"].tasks.values()))
    assert found.score_nodes(task, made.nodes).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["a"],
        [{"cpu": "many"}],
        [{"share": 0}],
        [{"share": 101}],
        [{"cards": 0}],
        [{"gpus": 1}],
        [{"count": 0}],
    ],
)
def test_a_wrong_demand_is_an_error_that_shows_a_right_one(wrong: Any) -> None:
    text = f"""
actions: allocate
tiers:
- plugins:
  - name: fragmentation
    arguments: {{fragmentation.demand: {wrong}}}
"""
    with pytest.raises(ConfigError, match=r"fragmentation\.demand.*list of expected pods such as"):
        parse(text)
