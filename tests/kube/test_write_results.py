"""A controller knows the results of its own writes before any watch event."""

from collections.abc import Iterable

import pytest

from volcano.clock import Instant
from volcano.kube.client import Event, EventType
from volcano.kube.controller import Plan, Reconciler, WorkItem, WorkResult
from volcano.kube.kinds import POD_GROUP
from volcano.kube.manifest import Key, Manifest
from volcano.kube.operations import Delete

NOW, KEY = Instant(0.0, 0.0), Key("ns", "g")
DELETED: Manifest = {"kind": "Status", "status": "Success", "details": {"name": "g", "uid": "u1"}}


class Remover(Reconciler[Key]):
    name = "remover"

    def keys(self, event: Event) -> Iterable[Key]:
        return (KEY,)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        return Plan([Delete(POD_GROUP, KEY)] if self.indexer.get(POD_GROUP, KEY) else ())


def works_after(answer: Manifest, **metadata: object) -> list[WorkItem]:
    """The work items after this answer to the deletion of a PodGroup."""
    controller = Remover()
    group = {"metadata": {"namespace": "ns", "name": "g", "uid": "u1", "resourceVersion": "7", **metadata}}
    controller.on_event(Event(EventType.ADDED, POD_GROUP, group))
    (work,) = controller.step(NOW)
    controller.on_result(WorkResult(work, (answer,)), NOW)
    return controller.step(NOW)


def test_what_a_status_says_is_gone_is_not_deleted_again() -> None:
    assert works_after(DELETED) == []


@pytest.mark.parametrize(
    ("answer", "metadata"),
    [
        pytest.param({**DELETED, "details": {"uid": "u0"}}, {}, id="it was a namesake"),
        pytest.param(DELETED, {"finalizers": ["keep"]}, id="something holds it"),
        pytest.param({"kind": "Status", "status": "Failure"}, {}, id="it was refused"),
    ],
)
def test_what_may_still_be_there_is_looked_at_again(answer: Manifest, metadata: dict[str, object]) -> None:
    assert len(works_after(answer, **metadata)) == 1
