"""How answers combine (K2 and the table of reducers)."""

from collections.abc import Sequence
from typing import Any

import orjson

from tests.builders import pod
from volcano.model.parse import Parser
from volcano.model.task import Task
from volcano.scheduler.engine import reducers
from volcano.scheduler.engine.plugin import ABSTAIN, Abstain, Rejection, Vote

PARSER = Parser()
A, B, C = (PARSER.pod(orjson.dumps(pod(name))) for name in "abc")


def naming(*tasks: Task) -> tuple[str, Any]:
    return "p", lambda hunt, candidates: [task for task in candidates if task in tasks]


def abstaining(hunt: object, candidates: Sequence[Task]) -> Abstain:
    return ABSTAIN


def victims(*tiers: Sequence[tuple[str, Any]]) -> list[Task]:
    return reducers.tiered_intersection(tiers, None, [A, B, C])


def test_k2_a_tier_has_to_agree() -> None:
    assert victims([naming(A, B), naming(B, C)]) == [B]


def test_k2_who_abstains_is_not_counted() -> None:
    assert victims([("p", abstaining), naming(A)]) == [A]


def test_k2_when_a_tier_names_nobody_the_next_decides() -> None:
    assert victims([naming()], [naming(C)]) == [C]


def test_k2_nobody_asked_nobody_named() -> None:
    assert victims() == []


def test_an_empty_intersection_stays_empty_within_its_tier() -> None:
    assert victims([naming(A), naming(B), naming(C)], [naming(B)]) == [B]


def votes(*answers: Any) -> Rejection | None:
    return reducers.tiered_vote([[(str(i), lambda a=a: a)] for i, a in enumerate(answers)])


def test_one_veto_refuses_and_the_first_tier_with_a_permit_decides() -> None:
    assert votes(Vote.ABSTAIN, Vote.PERMIT, Vote.REJECT) is None
    refused = votes(Vote.ABSTAIN, Rejection("no"), Vote.PERMIT)
    assert refused is not None
    assert (refused.message, refused.plugin) == ("no", "1")
    assert votes(Vote.ABSTAIN) is None


def test_starving_takes_the_first_tier_with_an_opinion() -> None:
    assert not reducers.tiered_everyone(
        [[], [("p", lambda: True), ("q", lambda: False)], [("r", lambda: True)]]
    )
    assert reducers.tiered_everyone([[], [("p", lambda: True)]])
    assert not reducers.tiered_everyone([])


def test_starving_is_for_as_many_tasks_as_everybody_agrees_on() -> None:
    assert reducers.tiered_everyone([[("p", lambda: 5), ("q", lambda: 3)], [("r", lambda: 1)]]) == 3


def test_each_may_lower_how_many_are_allowed() -> None:
    asked = [lambda q, t, n: min(n, 3), lambda q, t, n: n - 1]
    assert reducers.least(asked, None, A, 9) == 2
    assert reducers.least([], None, A, 9) == 9


def test_the_union_of_the_first_tier_that_names_anybody() -> None:
    def named(*tasks: Task) -> tuple[str, Any]:
        return "p", lambda candidates: tasks

    assert reducers.tiered_union([[named()], [named(A), named(C)], [named(B)]], [A, B, C]) == [A, C]
