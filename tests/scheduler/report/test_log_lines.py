"""Log lines of a cycle."""

import logging
from collections.abc import Iterator

import pytest

from volcano.model.decisions import Bind, Decision, Evict, RecordEvent
from volcano.scheduler.report.log_lines import MOST_LINES, log_cycle


class Recorder(logging.Handler):
    """Keeps the messages it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def logged() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("volcano.cycle"), Recorder()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def bind(job: str, index: int, node: str) -> Decision:
    return Bind(f"{job}-{index}", "ns", f"{job}-{index}", job, node)


def test_a_gang_is_one_line_and_a_single_pod_says_where_it_went(logged: list[str]) -> None:
    log_cycle([bind("a", 0, "n0"), bind("a", 1, "n1"), bind("a", 2, "n1"), bind("b", 0, "n2")], {}, 7)
    assert logged == ["job placed job=a pods=3 nodes=2 cycle=7", "pod placed pod=ns/b-0 node=n2 cycle=7"]


def test_evictions_and_unschedulable_jobs_are_logged_with_the_reason(logged: list[str]) -> None:
    victim = Evict("u", "ns", "low-0", "low", "n0", "preempt", on_behalf_of="high")
    waits = RecordEvent("big", "ns", "big", "Warning", "Unschedulable", "3/3 tasks in gang unschedulable")
    ready = RecordEvent("a", "ns", "a", "Normal", "Scheduled", "pod group is ready")
    log_cycle([victim, waits, ready], {}, 8)
    assert logged == [
        "pod evicted pod=ns/low-0 node=n0 reason=preempt for=high cycle=8",
        'job unschedulable job=ns/big reason="3/3 tasks in gang unschedulable" cycle=8',
    ]


def test_of_a_burst_the_rest_is_counted(logged: list[str]) -> None:
    log_cycle([bind(f"job{n}", 0, "n0") for n in range(MOST_LINES + 5)], {}, 9)
    assert len(logged) == MOST_LINES + 1
    assert logged[-1] == "log lines omitted placed=5 evicted=0 unschedulable=0 cycle=9"


def test_a_cycle_in_which_nothing_happened_says_nothing(logged: list[str]) -> None:
    log_cycle([], {}, 10)
    assert logged == []
