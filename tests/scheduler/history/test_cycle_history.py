"""Ring buffer of cycles: what was decided and why jobs wait, bounded, and kept over restarts."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, priority_class
from tests.scenario import Result, schedule
from volcano.base.clock import timestamp
from volcano.base.http.messages import Request
from volcano.scheduler.engine.placement.chosen_scores import MOST_CLASSES
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.endpoint import respond
from volcano.scheduler.history.queries import CycleList, Entries, Evictions, OneCycle, QueryError, answer
from volcano.scheduler.history.segments import CURRENT, PREVIOUS, Segments

CLASSES = [priority_class("low", 1), priority_class("high", 100)]


def cycle(now: float = START, **cluster: Any) -> Result:
    actions = ("enqueue", "allocate", "preempt", "backfill")
    return schedule(now=now, actions=actions, others=CLASSES, **cluster)


def record(history: CycleHistory, result: Result) -> None:
    history.record(result.outcome, result.snapshot, result.decisions, 0.01)


def waiting(number: int = 0, name: str = "big") -> Result:
    return cycle(START + number, nodes=[node("n1")], jobs=[job(name, cpu=9)])


def running(number: int = 0) -> Result:
    return cycle(START + number, nodes=[node("n1")], jobs=[job("small", 2, cpu=1)])


def entries(history: CycleHistory, query: dict[str, str]) -> Entries:
    found = answer(history, query)
    assert isinstance(found, Entries)
    return found


def listed(history: CycleHistory, query: dict[str, str]) -> list[int]:
    """Numbers of the cycles in a list."""
    found = answer(history, query)
    assert isinstance(found, CycleList)
    return [each.number for each in found.cycles]


def one(history: CycleHistory, query: dict[str, str]) -> int:
    """Number of the cycle that is answered."""
    found = answer(history, query)
    assert isinstance(found, OneCycle)
    assert found.cycle is not None
    return found.cycle.number


def test_a_cycle_has_its_placements_evictions_and_changed_diagnoses() -> None:
    history = CycleHistory()
    full = job("old", 4, on="n1", priority_class="low", min_available=1)
    record(history, cycle(nodes=[node("n1")], jobs=[full, job("urgent", priority_class="high")]))
    record(history, running(1))
    first, second = history.cycles()
    assert [(each.action, each.beneficiary, each.priority) for each in first.evicted] == [
        ("preempt", "default/urgent", 1)
    ]
    assert [(each.job, each.code) for each in first.diagnoses] == [("default/urgent", "Evicting")]
    assert second.placed[0].pods == {"small-worker-0": "n1", "small-worker-1": "n1"}
    assert second.ended == ["default/urgent"]


def test_a_diagnosis_that_stays_is_recorded_once_and_a_cycle_without_news_not_at_all() -> None:
    history = CycleHistory()
    for number in range(3):
        record(history, waiting(number))
    assert [each.number for each in history.cycles()] == [1]
    assert history.last == 3
    assert [each.code for each in history.diagnoses(3).values()] == ["NodeTooSmall"]


def test_the_bytes_are_bounded_and_diagnoses_of_dropped_cycles_are_still_known() -> None:
    history = CycleHistory(4000)
    record(history, waiting())
    for number in range(60):
        both = [job("big", cpu=9), job(f"other-{number}", 3, cpu=1)]
        record(history, cycle(START + number, nodes=[node("n1")], jobs=both))
    assert history.size <= 4000
    assert history.numbers()[0][0] > 1
    assert history.diagnoses(history.last)["default/big"].code == "NodeTooSmall"


def test_records_outlive_the_scheduler_and_numbers_go_on(tmp_path: Path) -> None:
    history = CycleHistory(100_000, Segments(tmp_path, 100_000))
    record(history, waiting())
    record(history, running(1))
    later = CycleHistory(100_000, Segments(tmp_path, 100_000))
    assert [each.number for each in later.cycles()] == [1, 2]
    record(later, waiting(2))
    assert later.last == 3
    assert [each.number for each in CycleHistory(100_000, Segments(tmp_path, 100_000)).cycles()] == [1, 2, 3]


def test_the_files_are_bounded_and_a_record_that_was_cut_off_is_ignored(tmp_path: Path) -> None:
    history = CycleHistory(3000, Segments(tmp_path, 3000))
    for number in range(40):
        record(history, waiting(number, f"job-{number}"))
    assert sum((tmp_path / name).stat().st_size for name in (CURRENT, PREVIOUS)) <= 3300
    path = tmp_path / CURRENT
    path.write_bytes(path.read_bytes()[:-3])
    again = CycleHistory(3000, Segments(tmp_path, 3000))
    assert again.last == 39
    record(again, waiting(50, "next"))
    assert CycleHistory(3000, Segments(tmp_path, 3000)).last == 40


def test_a_directory_that_cannot_be_written_does_not_stop_the_scheduler(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = CycleHistory(100_000, Segments(tmp_path / "file", 100_000))
    record(history, waiting())
    assert len(list(history.cycles())) == 1


def test_no_bytes_means_no_history() -> None:
    history = CycleHistory(0)
    record(history, waiting())
    assert not list(history.cycles())
    with pytest.raises(QueryError, match="--cycle-history"):
        answer(history, {})


def test_what_happened_to_a_job_is_told_in_order() -> None:
    history = CycleHistory()
    record(history, waiting(0, "small"))
    record(history, running(1))
    found = entries(history, {"job": "default/small"})
    assert [(each.what, each.code) for each in found.entries] == [
        ("waits", "NodeTooSmall"),
        ("placed", ""),
    ]
    assert found.diagnosis is None
    earlier = entries(history, {"job": "default/small", "number": "1"})
    assert earlier.diagnosis is not None
    assert earlier.diagnosis.code == "NodeTooSmall"


def test_evictions_are_listed_with_their_beneficiaries() -> None:
    history = CycleHistory()
    full = job("old", 4, on="n1", priority_class="low", min_available=1)
    record(history, running())
    record(history, cycle(nodes=[node("n1")], jobs=[full, job("urgent", priority_class="high")]))
    answered = answer(history, {"evictions": "true"})
    assert isinstance(answered, Evictions)
    (found,) = answered.evictions
    assert found.eviction is not None
    assert (found.number, found.eviction.action, found.eviction.beneficiary) == (
        2,
        "preempt",
        "default/urgent",
    )


def test_cycles_are_listed_page_by_page() -> None:
    history = CycleHistory()
    for number in range(4):
        record(history, waiting(number, f"job-{number}"))
    pages = [listed(history, {"limit": "2", "before": before}) for before in ("", "3", "1")]
    assert pages == [[4, 3], [2, 1], []]


def test_a_cycle_is_found_by_number_or_time() -> None:
    history = CycleHistory()
    record(history, waiting())
    record(history, running(100))
    assert one(history, {"number": "2"}) == 2
    assert one(history, {"at": timestamp(START + 50)}) == 1
    assert listed(history, {}) == [2, 1]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"number": "9"}, "cycle 9 is not in the history, which has 1 to 1"),
        ({"number": "x"}, "is not the number of a cycle"),
        ({"at": "noon"}, "is not a time such as"),
        ({"at": timestamp(START - 60)}, "begins after"),
        ({"limit": "0"}, "is not a number of at least 1"),
        ({"before": "x"}, "is not the number of a cycle"),
        ({"name": "x"}, "unknown parameter 'name'"),
    ],
)
def test_a_query_that_cannot_be_answered_says_why(query: dict[str, str], message: str) -> None:
    history = CycleHistory()
    record(history, waiting())
    response = respond(history, Request("GET", "/debug/cycles", {k: [v] for k, v in query.items()}))
    assert response.status == 400
    assert message in response.body.decode()


def scored(jobs: list[Any], **more: Any) -> Result:
    nodes = [node(f"n{i}", 4 + i) for i in range(8)]
    options: dict[str, Any] = {"nodes": nodes, "jobs": jobs, "record_scores": True} | more
    return schedule(**options)


def test_scores_are_recorded_once_for_identical_pods_with_the_chosen_node_first() -> None:
    history = CycleHistory()
    result = scored([job("a", 3, cpu=3), job("b", 2, cpu=3), job("c", cpu=2)])
    record(history, result)
    (cycle_record,) = history.cycles()
    assert [each.pod for each in cycle_record.scores] == ["default/a-worker-0", "default/c-worker-0"]
    first, second = cycle_record.scores
    assert first.jobs == {"default/a": [], "default/b": []}
    assert second.jobs == {"default/c": []}
    assert first.nodes[0].node == result.bound()["a-worker-0"]
    assert len(first.nodes) == 4
    assert first.feasible == 8
    assert first.nodes[0].score == max(each.score for each in first.nodes)
    for each in first.nodes:
        assert sum(each.plugins.values()) == pytest.approx(each.score, abs=0.01)


def test_pods_of_different_kinds_of_one_job_are_told_apart() -> None:
    history = CycleHistory()
    small, large = job("mixed", 2, cpu=1, min_available=2), job("mixed", 2, cpu=3)
    result = scored([JobManifests(small.group, (small.pods[0], large.pods[1]))])
    record(history, result)
    found = [entries(history, {"pod": f"default/mixed-worker-{i}"}).entries[0].scores for i in range(2)]
    assert [each and each.pod for each in found] == ["default/mixed-worker-0", "default/mixed-worker-1"]
    assert [each and each.jobs for each in found] == [{}, {}]


def test_scores_of_a_gang_that_was_undone_are_not_recorded() -> None:
    history = CycleHistory()
    record(history, scored([job("gang", 3, cpu=4)], nodes=[node("n1"), node("n2")]))
    assert not any(each.scores for each in history.cycles())


def test_a_record_that_is_too_large_is_kept_without_scores() -> None:
    jobs = [job(f"j{i}", cpu=0.1 + i / 100) for i in range(30)]
    history, small = CycleHistory(), CycleHistory(most_bytes=16 * 1024)
    for each in (history, small):
        record(each, scored(jobs))
    assert len(next(history.cycles()).scores) == 30
    assert next(small.cycles()).scores == []
    assert len(next(small.cycles()).placed) == 30


def test_the_scores_of_a_cycle_are_bounded() -> None:
    history = CycleHistory()
    record(history, scored([job(f"j{i}", cpu=0.1 + i / 1000) for i in range(80)]))
    assert len(next(history.cycles()).scores) == MOST_CLASSES
