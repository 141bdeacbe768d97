"""A plugin or an action that fails on everybody costs what it would have said, never the cycle."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import job, node
from tests.scenario import Result, schedule
from volcano.model.queue import Queue
from volcano.model.task import Task
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin, RejectedNodes
from volcano.scheduler.engine.session import Session

HERE = "tests.scheduler.engine.test_faults:"


class OpensBadly(Plugin):
    """Only an opinion on order, and not even that."""

    def open(self, arguments: Arguments) -> None:
        raise ValueError("no such table")

    def queue_order(self, queue: Queue) -> int:
        return 0


class MadeBadly(Plugin):
    def __init__(self, session: Session) -> None:
        raise ValueError("not made")


class FilterOpensBadly(Plugin):
    """Nobody knows which nodes it would have ruled out."""

    def open(self, arguments: Arguments) -> None:
        raise ValueError("no such table")

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Sequence[RejectedNodes]:
        return ()


class OrdersBadly(Plugin):
    def queue_order(self, queue: Queue) -> int:
        raise KeyError(queue.name)


class CountsBadly(Plugin):
    def overused(self, queue: Queue) -> bool:
        raise ZeroDivisionError("no weight")


class ClosesBadly(Plugin):
    def close(self) -> None:
        raise OSError("disk full")


def fails(session: Session) -> None:
    """An action."""
    raise RuntimeError("not today")


def cycle(*plugins: str, **options: Any) -> Result:
    return schedule(
        nodes=[node("n1", cpu=2)],
        jobs=[job("j", 2)],
        plugins=["gang", "predicates", *(HERE + name for name in plugins)],
        **options,
    )


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("OpensBadly", "failed in open: ValueError: no such table"),
        ("MadeBadly", "failed in open: ValueError: not made"),
        ("OrdersBadly", "failed in queue_order: KeyError: 'default'"),
        ("ClosesBadly", "failed in close: OSError: disk full"),
    ],
)
def test_what_only_ranks_is_done_without(plugin: str, said: str) -> None:
    result = cycle(plugin)
    assert result.bound() == {"j-worker-0": "n1", "j-worker-1": "n1"}
    assert result.outcome.errors == (f"plugin {HERE}{plugin} {said}",)
    assert result.outcome.faults == {}


@pytest.mark.parametrize(
    ("plugin", "question"), [("FilterOpensBadly", "open: ValueError"), ("CountsBadly", "overused")]
)
def test_nothing_is_placed_without_somebody_who_sets_limits_and_jobs_are_told_who(
    plugin: str, question: str
) -> None:
    result = cycle(plugin)
    assert result.bound() == {}
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert diagnosis.plugin == HERE + plugin
    assert f"plugin {HERE}{plugin} failed in {question}" in diagnosis.message
    assert diagnosis.message in result.condition("j")


def test_two_plugins_may_fail() -> None:
    result = cycle("OpensBadly", "OrdersBadly")
    assert len(result.bound()) == 2
    assert len(result.outcome.errors) == 2


def test_an_action_that_fails_is_followed_by_the_next() -> None:
    result = cycle(actions=("enqueue", HERE + "fails", "allocate"))
    assert len(result.bound()) == 2
    assert result.outcome.errors == (f"action {HERE}fails failed: RuntimeError: not today",)


def test_a_cycle_without_faults_has_no_troubles() -> None:
    assert cycle().outcome.errors == ()
