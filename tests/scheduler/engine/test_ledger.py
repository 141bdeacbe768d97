"""The ledger: statements that nest, stand, are held or fall; reservations; plans made again."""

from collections.abc import Mapping
from typing import Any

from tests.builders import job, node
from tests.scenario import session
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.ledger_view import Eviction, Placement
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session


def opened(**options: Any) -> Session:
    options.setdefault("nodes", [node("n1", cpu=4), node("n2", cpu=4)])
    options.setdefault("jobs", [job("j", 4), job("r", 1, on="n1", phase="Running")])
    return session(**options)


def members(opened_session: Session, name: str = "j") -> list[Task]:
    found = opened_session.snapshot.jobs[f"default/{name}"].tasks.values()
    return sorted(found, key=lambda task: task.index)


def test_what_is_not_committed_never_happened() -> None:
    s = opened()
    task = members(s)[0]
    with s.ledger.statement():
        s.ledger.allocate(task, 0)
        assert s.ledger.status(task) is Status.ALLOCATED
        assert s.ledger.used[0][0] == 2000
    assert s.ledger.status(task) is Status.PENDING
    assert s.ledger.used[0][0] == 1000
    assert s.ledger.committed == []


def test_an_inner_statement_stands_or_falls_with_the_outer_one() -> None:
    s = opened()
    first, second, third, _ = members(s)
    with s.ledger.statement() as outer:
        with s.ledger.statement() as inner:
            s.ledger.allocate(first, 0)
            inner.commit()
        with s.ledger.statement():
            s.ledger.allocate(second, 0)
        outer.commit()
    assert [change.tasks for change in s.ledger.committed if isinstance(change, Placement)] == [(first,)]
    with s.ledger.statement(), s.ledger.statement() as inner:
        s.ledger.allocate(third, 1)
        inner.commit()
    assert s.ledger.status(third) is Status.PENDING


def test_what_is_kept_holds_its_place_and_is_not_written() -> None:
    s = opened()
    task = members(s)[0]
    with s.ledger.statement() as statement:
        s.ledger.pipeline(task, 0)
        statement.keep()
    assert s.ledger.status(task) is Status.PIPELINED
    assert s.ledger.waiting(s.snapshot.jobs["default/j"]) == 1
    assert s.ledger.committed == []


def test_an_exception_undoes_the_statement() -> None:
    s = opened()
    task = members(s)[0]
    try:
        with s.ledger.statement() as statement:
            s.ledger.allocate(task, 0)
            statement.commit()
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert s.ledger.status(task) is Status.PENDING


def test_an_evicted_task_releases_what_it_holds() -> None:
    s = opened()
    (victim,) = members(s, "r")
    with s.ledger.statement() as statement:
        s.ledger.evict(victim, "preempt", "default/j")
        statement.commit()
    assert s.nodes.idle[0][0] == 3000
    assert s.nodes.future_idle[0][0] == 4000
    assert s.ledger.committed == [Eviction(victim, 0, "preempt", "default/j")]


def test_a_run_is_one_change() -> None:
    s = opened()
    tasks = members(s)
    with s.ledger.statement() as statement:
        s.ledger.allocate_run(tasks, [0, 1, 0, 1])
        assert len(statement.changes) == 1
        assert s.ledger.used[:, 0].tolist() == [3000, 2000]
        assert s.ledger.ready(s.snapshot.jobs["default/j"]) == 4
    assert s.ledger.used[:, 0].tolist() == [1000, 0]


class Devices(Plugin):
    """One device on each node, named in an annotation."""

    def open(self, arguments: object) -> None:
        self.taken: dict[int, str] = {}

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        if row in self.taken:
            return Rejection("no device left")
        self.taken[row] = task.uid
        return {"device": f"gpu-{row}"}

    def release(self, task: Task, row: int) -> None:
        del self.taken[row]


def test_a_reservation_is_undone_with_its_placement_and_a_refusal_changes_nothing() -> None:
    s = opened(plugins=[f"{__name__}:Devices"])
    first, second, *_ = members(s)
    (devices,) = s.policy.plugins
    assert isinstance(devices, Devices)
    with s.ledger.statement():
        assert s.ledger.allocate(first, 0) is None
        assert s.ledger.annotations == {first.uid: {"device": "gpu-0"}}
        rejection = s.ledger.allocate(second, 0)
        assert rejection is not None
        assert rejection.plugin.endswith("Devices")
        assert s.ledger.used[0][0] == 2000
    assert devices.taken == {}
    assert s.ledger.annotations == {}


def test_totals_are_restored_exactly() -> None:
    s = opened()
    totals = s.ledger.totals({"q": s.resources.vector({"cpu": 0.1})})
    before = totals["q"]
    with s.ledger.statement():
        totals.add("q", s.resources.vector({"cpu": 0.2}))
        totals.subtract("new", s.resources.vector({"cpu": 1.0}))
    assert totals["q"] is before
    assert "new" not in totals
