"""Low-priority plans are postponed while many are in flight, and reconciled again later."""

from collections.abc import Hashable, Iterable

from volcano.clock import Instant
from volcano.kube.client import Event
from volcano.kube.controller import MAX_LOW_PRIORITY, Plan, Reconciler, WorkItem, WorkResult
from volcano.kube.kinds import CONFIG_MAP
from volcano.kube.manifest import Key
from volcano.kube.operations import Patch

NOW = Instant(0.0, 0.0)


class Reporter(Reconciler[str]):
    """Writes the present text of each name that has one, with low priority unless urgent."""

    name = "reporter"

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.urgent: set[str] = set()

    def keys(self, event: Event) -> Iterable[str]:
        return ()

    def reconcile(self, key: str, now: Instant) -> Plan:
        name = str(key)
        text = self.texts.get(name)
        if text is None:
            return Plan()
        patch = Patch(CONFIG_MAP, Key("ns", name), {"data": {"text": text}})
        return Plan([patch], low_priority=name not in self.urgent)

    def say(self, name: str, text: str) -> None:
        self.texts[name] = text
        self.enqueue(name)

    def steps(self) -> list[WorkItem]:
        works = self.step(NOW)
        while self.next_due() is not None:
            works += self.step(NOW)
        return works

    def done(self, work: WorkItem) -> None:
        self.texts.pop(str(work.key), None)
        self.on_result(WorkResult(work, ({},)), NOW)


def texts(works: list[WorkItem]) -> list[str]:
    return [work.operations[0].patch["data"]["text"] for work in works]  # type: ignore[union-attr]


def crowded() -> tuple[Reporter, list[WorkItem]]:
    controller = Reporter()
    for number in range(MAX_LOW_PRIORITY + 3):
        controller.say(f"n{number}", "first")
    return controller, controller.steps()


def test_only_some_reports_are_under_way_at_a_time() -> None:
    _, works = crowded()
    assert len(works) == MAX_LOW_PRIORITY


def test_a_report_that_waited_says_what_is_true_by_then() -> None:
    controller, works = crowded()
    controller.texts[f"n{MAX_LOW_PRIORITY}"] = "second"
    controller.done(works[0])
    assert texts(controller.steps()) == ["second"]


def test_a_postponed_key_without_work_does_not_delay_others() -> None:
    controller, works = crowded()
    del controller.texts[f"n{MAX_LOW_PRIORITY}"]
    controller.done(works[0])
    assert [work.key for work in controller.steps()] == [f"n{MAX_LOW_PRIORITY + 1}"]


def test_work_does_not_wait_for_reports() -> None:
    controller, _ = crowded()
    controller.urgent.add("now")
    controller.say("now", "work")
    assert texts(controller.steps()) == ["work"]


def test_all_is_reported_in_the_end() -> None:
    controller, works = crowded()
    reported: list[Hashable] = []
    while works:
        work = works.pop(0)
        reported.append(work.key)
        controller.done(work)
        works += controller.steps()
    assert sorted(map(str, reported)) == [f"n{number}" for number in range(MAX_LOW_PRIORITY + 3)]
