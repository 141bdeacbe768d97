"""What placements take from the cards that expected pods could use."""

import numpy as np
import pytest

from volcano.scheduler.plugins.fragmentation.demand import Demand, Request
from volcano.scheduler.plugins.fragmentation.expected_use import (
    ExpectedUse,
    FreeResources,
    after_placing,
    tie_break,
)

WHOLE_CARD = Request(10, 10, 1, 100)


def observed(*requests: Request) -> Demand:
    demand = Demand()
    for request in requests:
        demand.observe(request)
    return demand


def nodes(*rows: tuple[float, float, list[int]], model: tuple[int, ...] = ()) -> FreeResources:
    cpu, memory, cards = zip(*rows, strict=True)
    models = np.array(model or (0,) * len(rows), dtype=np.intp)
    return FreeResources(np.array(cpu), np.array(memory), np.array(cards, dtype=np.int64), models)


def losses(
    demand: Demand, request: Request, free: FreeResources, models: tuple[str, ...] = ("",)
) -> list[float]:
    use = ExpectedUse(demand.expectation, models, card_weight=0.0)
    return [round(each, 6) for each in use.losses(request, free, use.value(free)).tolist()]


def test_a_pod_goes_to_the_card_that_other_pods_cannot_use_anyway() -> None:
    half = Request(1, 1, 1, 50)
    used_card, new_card = losses(observed(WHOLE_CARD), half, nodes((100, 100, [50]), (100, 100, [100])))
    assert used_card == 0.0
    assert new_card == 1.0


def test_cores_that_free_cards_need_are_not_given_away() -> None:
    without_cards = Request(10, 1, 0, 0)
    scarce, plenty = losses(observed(WHOLE_CARD), without_cards, nodes((10, 100, [100]), (100, 100, [100])))
    assert scarce == 1.0
    assert plenty == 0.0


def test_use_is_limited_by_the_pods_that_cpu_and_memory_suffice_for() -> None:
    use = ExpectedUse(observed(WHOLE_CARD).expectation, ("",), card_weight=0.0)
    free = nodes((25, 100, [100, 100, 100]), (100, 5, [100, 100, 100]), (100, 100, [100, 100, 100]))
    assert use.value(free).tolist() == pytest.approx([2.5, 0.0, 3.0])


def test_pods_with_several_cards_need_that_many_with_room() -> None:
    four = Request(1, 1, 4, 100)
    use = ExpectedUse(observed(four).expectation, ("",), card_weight=0.0)
    assert use.value(nodes((90, 90, [100] * 3 + [50]), (90, 90, [100] * 4))).tolist() == [0.0, 4.0]


def test_only_pods_that_allow_the_model_are_expected_on_it() -> None:
    a100_only = Request(1, 1, 1, 100, frozenset({"A100"}))
    use = ExpectedUse(observed(a100_only).expectation, ("A100", "T4"), card_weight=0.0)
    assert use.value(nodes((9, 9, [100]), (9, 9, [100]), model=(0, 1))).tolist() == [1.0, 0.0]


def test_a_model_is_scarce_by_the_pods_that_require_it() -> None:
    demand = observed(Request(1, 1, 1, 100, frozenset({"T4"})), WHOLE_CARD)
    prices = demand.scarcity({"T4": 10.0, "A100": 90.0})
    assert prices["A100"] == 0.0
    assert prices["T4"] == pytest.approx(0.5 / 0.1)


def test_placing_uses_the_fullest_cards_with_room_each_once() -> None:
    cards = np.array([[100, 40, 60], [100, 100, 60]])
    assert after_placing(cards, Request(1, 1, 1, 50)).tolist() == [[100, 40, 10], [100, 100, 10]]
    assert after_placing(cards, Request(1, 1, 2, 60)).tolist() == [[40, 40, 0], [40, 100, 0]]


def test_among_equals_the_node_with_fewer_free_cards_is_preferred() -> None:
    fuller, emptier = tie_break(nodes((10, 10, [100, 0]), (10, 10, [100, 100]))).tolist()
    assert fuller < emptier


def test_expectations_are_renewed_when_the_observed_pods_have_grown_by_half() -> None:
    demand = observed(WHOLE_CARD)
    first = demand.expectation
    assert first.requests == (WHOLE_CARD,)
    demand.observe(Request(1, 1, 1, 50))
    assert len(demand.expectation.requests) == 2
    renewed = demand.expectation
    demand.observe(Request(2, 2, 1, 50))
    assert demand.expectation is not first
    for _ in range(3):
        demand.observe(WHOLE_CARD)
    assert demand.expectation is not renewed


def test_a_given_expectation_is_kept() -> None:
    demand = Demand({WHOLE_CARD: 1.0})
    demand.observe(Request(1, 1, 1, 50))
    assert demand.expectation.requests == (WHOLE_CARD,)
