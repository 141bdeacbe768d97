"""A plugin or an action that fails is skipped; the cycle goes on."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import job, node
from tests.scenario import Result, schedule
from volcano.model.queue import Queue
from volcano.model.task import Task
from volcano.scheduler.engine.answers import RejectedNodes
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session

HERE = "tests.scheduler.engine.test_faults:"


class FailsInOpen(Plugin):
    """Affects only the order."""

    def open(self, arguments: Arguments) -> None:
        raise ValueError("no such table")

    def queue_order(self, queue: Queue) -> int:
        return 0


class FailsInInit(Plugin):
    def __init__(self, session: Session, name: str) -> None:
        raise ValueError("not made")


class FilterFailsInOpen(Plugin):
    """A filter whose result is unknown."""

    def open(self, arguments: Arguments) -> None:
        raise ValueError("no such table")

    def reject_nodes(self, task: Task, nodes: NodeTable) -> Sequence[RejectedNodes]:
        return ()


class FailsInOrder(Plugin):
    def queue_order(self, queue: Queue) -> int:
        raise KeyError(queue.name)


class FailsInOverused(Plugin):
    def overused(self, queue: Queue) -> bool:
        raise ZeroDivisionError("no weight")


class FailsInClose(Plugin):
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
    ("plugin", "message"),
    [
        ("FailsInOpen", "failed in open: ValueError: no such table"),
        ("FailsInInit", "failed in open: ValueError: not made"),
        ("FailsInOrder", "failed in queue_order: KeyError: 'default'"),
        ("FailsInClose", "failed in close: OSError: disk full"),
    ],
)
def test_plugins_that_only_order_are_skipped(plugin: str, message: str) -> None:
    result = cycle(plugin)
    assert result.bound() == {"j-worker-0": "n1", "j-worker-1": "n1"}
    assert result.outcome.errors == (f"plugin {HERE}{plugin} {message}",)
    assert result.outcome.faults == {}


@pytest.mark.parametrize(
    ("plugin", "hook"), [("FilterFailsInOpen", "open: ValueError"), ("FailsInOverused", "overused")]
)
def test_no_task_is_placed_without_a_plugin_that_sets_limits_and_jobs_have_a_condition(
    plugin: str, hook: str
) -> None:
    result = cycle(plugin)
    assert result.bound() == {}
    diagnosis = result.diagnosis("j")
    assert diagnosis is not None
    assert diagnosis.plugin == HERE + plugin
    assert f"plugin {HERE}{plugin} failed in {hook}" in diagnosis.message
    assert diagnosis.message in result.condition("j")


def test_two_plugins_may_fail() -> None:
    result = cycle("FailsInOpen", "FailsInOrder")
    assert len(result.bound()) == 2
    assert len(result.outcome.errors) == 2


def test_an_action_that_fails_is_followed_by_the_next() -> None:
    result = cycle(actions=("enqueue", HERE + "fails", "allocate"))
    assert len(result.bound()) == 2
    assert result.outcome.errors == (f"action {HERE}fails failed: RuntimeError: not today",)


def test_a_cycle_without_faults_reports_none() -> None:
    assert cycle().outcome.errors == ()
