"""Status changes are debounced and merged; urgent ones are returned at once."""

from volcano.model.decisions import Decision, Nominate, RecordEvent, SetPodCondition, SetPodGroup, SetQueue
from volcano.model.job import Condition
from volcano.scheduler.writeback.status_queue import LONGEST, POD_CREATION, QUIET, StatusQueue, condition_key

NO_PODS = "Not enough valid tasks for gang-scheduling, valid: 0, min: 4"


def group(**said: object) -> SetPodGroup:
    return SetPodGroup("ns/j", "ns", "j", **said)  # type: ignore[arg-type]


def waits(message: str) -> SetPodCondition:
    return SetPodCondition("u1", "ns", "p", "Unschedulable", message)


def sent(statuses: StatusQueue, at: float) -> list[Decision]:
    found = []
    while (decision := statuses.get(at)) is not None:
        found.append(decision)
    return found


def test_a_word_is_said_after_a_while_without_news() -> None:
    statuses = StatusQueue()
    assert statuses.put(waits("no room"), 0.0) is None
    assert sent(statuses, QUIET - 0.01) == []
    assert sent(statuses, QUIET) == [waits("no room")]
    assert len(statuses) == 0


def test_news_puts_a_word_off_but_not_for_ever() -> None:
    statuses = StatusQueue()
    moment, step = 0.0, QUIET * 0.8
    while moment < LONGEST:
        statuses.put(waits(f"at {moment}"), moment)
        assert sent(statuses, moment) == []
        moment += step
    assert sent(statuses, LONGEST) == [waits(f"at {moment - step}")]


def test_a_changed_phase_is_not_put_off() -> None:
    statuses = StatusQueue()
    statuses.put(group(phase="Running"), 0.0)
    statuses.put(group(counts=(3, 0, 0)), QUIET * 0.8)
    assert sent(statuses, QUIET) == [group(phase="Running", counts=(3, 0, 0))]


def test_what_was_held_back_is_not_lost_when_more_is_said() -> None:
    statuses = StatusQueue()
    statuses.put(group(counts=(1, 0, 0)), 0.0)
    statuses.put(group(phase="Running"), 0.1)
    assert sent(statuses, LONGEST) == [group(phase="Running", counts=(1, 0, 0))]


def test_a_gang_is_let_in_at_once_and_what_else_is_said_of_it_waits_for_its_pods() -> None:
    statuses, incomplete = StatusQueue(), (Condition("Unschedulable", "True", "NotEnoughResources", NO_PODS),)
    assert statuses.put(group(phase="Inqueue", conditions=incomplete), 0.0) == group(phase="Inqueue")
    statuses.put(RecordEvent("ns/j", "ns", "j", "Warning", "Unschedulable", NO_PODS), 0.0)
    assert sent(statuses, POD_CREATION - 0.01) == []
    assert len(sent(statuses, POD_CREATION)) == 2


def test_why_a_gang_that_was_just_let_in_finds_no_room_is_said_soon() -> None:
    statuses, full = (
        StatusQueue(),
        (Condition("Unschedulable", "True", "NotEnoughResources", "4/4 tasks: too few cpus"),),
    )
    statuses.put(group(phase="Inqueue"), 0.0)
    statuses.put(group(conditions=full), 0.2)
    assert sent(statuses, 0.2 + QUIET) == [group(conditions=full)]


def test_a_gang_that_runs_soon_after_it_was_let_in_never_was_unschedulable() -> None:
    statuses, incomplete = StatusQueue(), (Condition("Unschedulable", "True", "NotEnoughResources", NO_PODS),)
    statuses.put(group(phase="Inqueue", conditions=incomplete), 0.0)
    statuses.put(group(phase="Running", conditions=()), 1.0)
    assert sent(statuses, 1.0 + QUIET) == [group(phase="Running", conditions=())]


def test_what_controllers_wait_for_is_handed_back_at_once() -> None:
    nominated = Nominate("u1", "ns", "p", "n1")
    assert StatusQueue().put(nominated, 0.0) == nominated


def test_amounts_that_a_queue_no_longer_has_stay_to_be_removed_until_they_come_back() -> None:
    statuses = StatusQueue()
    statuses.put(SetQueue("q", {"cpu": "1"}, ("gpu", "memory")), 0.0)
    statuses.put(SetQueue("q", {"cpu": "2", "gpu": "1"}), 0.1)
    assert sent(statuses, LONGEST) == [SetQueue("q", {"cpu": "2", "gpu": "1"}, ("memory",))]


def test_a_gang_that_is_scheduled_meanwhile_is_not_said_to_be_unschedulable() -> None:
    statuses = StatusQueue()
    statuses.put(RecordEvent("ns/j", "ns", "j", "Warning", "Unschedulable", "1/2 tasks"), 0.0)
    ready = RecordEvent("ns/j", "ns", "j", "Normal", "Scheduled", "pod group is ready")
    statuses.put(ready, 0.1)
    assert sent(statuses, LONGEST) == [ready]


def test_a_word_taken_back_is_not_said() -> None:
    statuses = StatusQueue()
    statuses.put(waits("no room"), 0.0)
    statuses.discard(condition_key("ns", "p"))
    assert sent(statuses, LONGEST) == []
