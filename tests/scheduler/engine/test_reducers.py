"""How the results of several plugins combine."""

from collections.abc import Sequence
from typing import Any

import orjson

from tests.builders import pod
from volcano.model.parse import Parser
from volcano.model.task import Task
from volcano.scheduler.engine import reducers
from volcano.scheduler.engine.answers import ABSTAIN, Abstain, Vote
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.reducers import Hooks

PARSER = Parser()
A, B, C = (PARSER.pod(orjson.dumps(pod(name))) for name in "abc")


def proposing(*tasks: Task) -> tuple[str, Any]:
    return "p", lambda context, candidates: [task for task in candidates if task in tasks]


def abstaining(context: object, candidates: Sequence[Task]) -> Abstain:
    return ABSTAIN


def victims(*tiers: Sequence[tuple[str, Any]]) -> list[Task]:
    return reducers.tiered_intersection(Hooks(tiers), None, [A, B, C])


def test_the_plugins_of_a_tier_have_to_agree() -> None:
    assert victims([proposing(A, B), proposing(B, C)]) == [B]


def test_plugins_that_abstain_are_not_counted() -> None:
    assert victims([("p", abstaining), proposing(A)]) == [A]


def test_when_a_tier_proposes_no_victim_the_next_decides() -> None:
    assert victims([proposing()], [proposing(C)]) == [C]


def test_without_plugins_there_are_no_victims() -> None:
    assert victims() == []


def test_an_empty_intersection_stays_empty_within_its_tier() -> None:
    assert victims([proposing(A), proposing(B), proposing(C)], [proposing(B)]) == [B]


def votes(*answers: Any) -> Vote | Rejection:
    return reducers.tiered_vote(Hooks([[(str(i), lambda a=a: a)] for i, a in enumerate(answers)]))


def test_one_rejection_decides_and_the_first_tier_with_a_permit_decides() -> None:
    assert votes(Vote.ABSTAIN, Vote.PERMIT, Vote.REJECT) is Vote.PERMIT
    rejected = votes(Vote.ABSTAIN, Rejection("no"), Vote.PERMIT)
    assert isinstance(rejected, Rejection)
    assert (rejected.message, rejected.plugin) == ("no", "1")
    assert votes(Vote.ABSTAIN) is Vote.PERMIT


def test_starving_is_decided_by_the_first_tier_with_plugins() -> None:
    assert not reducers.tiered_minimum(
        Hooks([[], [("p", lambda: True), ("q", lambda: False)], [("r", lambda: True)]])
    )
    assert reducers.tiered_minimum(Hooks([[], [("p", lambda: True)]]))
    assert not reducers.tiered_minimum(Hooks([]))


def test_starving_is_for_as_many_tasks_as_all_plugins_agree_on() -> None:
    assert reducers.tiered_minimum(Hooks([[("p", lambda: 5), ("q", lambda: 3)], [("r", lambda: 1)]])) == 3


def test_each_plugin_may_lower_the_count() -> None:
    hooks = Hooks([[("p", lambda q, t, n: min(n, 3)), ("q", lambda q, t, n: n - 1)]])
    assert reducers.limit(hooks, None, A, 9) == 2
    assert reducers.limit(Hooks([]), None, A, 9) == 9


def test_the_union_of_the_first_tier_that_proposes_victims() -> None:
    def proposed(*tasks: Task) -> tuple[str, Any]:
        return "p", lambda candidates: tasks

    assert reducers.tiered_union(
        Hooks([[proposed()], [proposed(A), proposed(C)], [proposed(B)]]), [A, B, C]
    ) == [
        A,
        C,
    ]
