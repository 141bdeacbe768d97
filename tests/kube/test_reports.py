"""What is merely reported waits its turn, and is worked out afresh when its turn comes."""

from collections.abc import Hashable, Iterable

from volcano.clock import Instant
from volcano.kube.client import Event
from volcano.kube.controller import REPORTS_AT_ONCE, Done, Plan, Reconciler, Work
from volcano.kube.kinds import CONFIG_MAP
from volcano.kube.manifest import Key
from volcano.kube.operations import Patch

NOW = Instant(0.0, 0.0)


class Reporter(Reconciler):
    """Reports the present text of each name that has one; says at once what is urgent."""

    name = "reporter"

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.urgent: set[str] = set()

    def keys(self, event: Event) -> Iterable[Hashable]:
        return ()

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        name = str(key)
        text = self.texts.get(name)
        if text is None:
            return Plan()
        patch = Patch(CONFIG_MAP, Key("ns", name), {"data": {"text": text}})
        return Plan([patch], report=name not in self.urgent)

    def say(self, name: str, text: str) -> None:
        self.texts[name] = text
        self.enqueue(name)

    def steps(self) -> list[Work]:
        works = self.step(NOW)
        while self.next_due() is not None:
            works += self.step(NOW)
        return works

    def done(self, work: Work) -> None:
        self.texts.pop(str(work.key), None)
        self.settle(Done(work, ({},)), NOW)


def texts(works: list[Work]) -> list[str]:
    return [work.operations[0].patch["data"]["text"] for work in works]  # type: ignore[union-attr]


def crowded() -> tuple[Reporter, list[Work]]:
    brain = Reporter()
    for number in range(REPORTS_AT_ONCE + 3):
        brain.say(f"n{number}", "first")
    return brain, brain.steps()


def test_only_some_reports_are_under_way_at_a_time() -> None:
    _, works = crowded()
    assert len(works) == REPORTS_AT_ONCE


def test_a_report_that_waited_says_what_is_true_by_then() -> None:
    brain, works = crowded()
    brain.texts[f"n{REPORTS_AT_ONCE}"] = "second"
    brain.done(works[0])
    assert texts(brain.steps()) == ["second"]


def test_a_report_that_is_no_longer_needed_keeps_nobody_waiting() -> None:
    brain, works = crowded()
    del brain.texts[f"n{REPORTS_AT_ONCE}"]
    brain.done(works[0])
    assert [work.key for work in brain.steps()] == [f"n{REPORTS_AT_ONCE + 1}"]


def test_work_does_not_wait_for_reports() -> None:
    brain, _ = crowded()
    brain.urgent.add("now")
    brain.say("now", "work")
    assert texts(brain.steps()) == ["work"]


def test_all_is_reported_in_the_end() -> None:
    brain, works = crowded()
    reported: list[Hashable] = []
    while works:
        work = works.pop(0)
        reported.append(work.key)
        brain.done(work)
        works += brain.steps()
    assert sorted(map(str, reported)) == [f"n{number}" for number in range(REPORTS_AT_ONCE + 3)]
