"""What the scheduler's log says of a cycle."""

import logging
from collections.abc import Iterator

import pytest

from volcano.model.decisions import Bind, Decision, Evict, RecordEvent
from volcano.scheduler.report.log_lines import MOST_LINES, log_cycle


class Heard(logging.Handler):
    """Keeps what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def heard() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("volcano.cycle"), Heard()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def bind(job: str, index: int, node: str) -> Decision:
    return Bind(f"{job}-{index}", "ns", f"{job}-{index}", job, node)


def test_a_gang_is_one_line_and_a_single_pod_says_where_it_went(heard: list[str]) -> None:
    log_cycle([bind("a", 0, "n0"), bind("a", 1, "n1"), bind("a", 2, "n1"), bind("b", 0, "n2")], {}, 7)
    assert heard == ["placed job=a pods=3 nodes=2 cycle=7", "placed pod=ns/b-0 node=n2 cycle=7"]


def test_who_has_to_go_and_who_waits_is_told_with_the_reason(heard: list[str]) -> None:
    gone = Evict("u", "ns", "low-0", "low", "n0", "preempt", on_behalf_of="high")
    waits = RecordEvent("big", "ns", "big", "Warning", "Unschedulable", "3/3 tasks in gang unschedulable")
    ready = RecordEvent("a", "ns", "a", "Normal", "Scheduled", "pod group is ready")
    log_cycle([gone, waits, ready], {}, 8)
    assert heard == [
        "evicting pod=ns/low-0 node=n0 reason=preempt for=high cycle=8",
        'waits job=ns/big reason="3/3 tasks in gang unschedulable" cycle=8',
    ]


def test_a_burst_is_told_in_numbers(heard: list[str]) -> None:
    log_cycle([bind(f"job{n}", 0, "n0") for n in range(MOST_LINES + 5)], {}, 9)
    assert len(heard) == MOST_LINES + 1
    assert heard[-1] == "and more placed=5 evicting=0 waits=0 cycle=9"


def test_a_cycle_in_which_nothing_happened_says_nothing(heard: list[str]) -> None:
    log_cycle([], {}, 10)
    assert heard == []
