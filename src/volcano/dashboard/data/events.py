"""Events of a job and what belongs to it."""

from collections.abc import Iterable
from dataclasses import dataclass

from volcano.kube.api.fields import at, number, wall_time
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.views.events import event_age


@dataclass(frozen=True, slots=True)
class EventItem:
    """One event."""

    key: Key
    type: str
    reason: str
    about: str  # kind and name of the object
    message: str
    source: str
    last: float  # wall time
    age: str
    count: int


def event_items(events: Iterable[Manifest], names: Iterable[str], now: float) -> list[EventItem]:
    """Events about objects with these names, the latest first."""
    wanted = set(names)
    found = [
        _item(event, now) for event in events if at(event, "involvedObject", "name", default="") in wanted
    ]
    return sorted(found, key=lambda item: (-item.last, item.key))


def _item(event: Manifest, now: float) -> EventItem:
    moment = (
        event.get("lastTimestamp") or event.get("eventTime") or at(event, "metadata", "creationTimestamp")
    )
    kind, name = (str(at(event, "involvedObject", part, default="")) for part in ("kind", "name"))
    return EventItem(
        key=key_of(event),
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        about=f"{kind} {name}",
        message=str(event.get("message") or "").strip(),
        source=str(at(event, "source", "component", default="") or event.get("reportingComponent") or ""),
        last=wall_time(moment) or 0.0,
        age=event_age(event, now),
        count=max(number(event, "count"), 1),
    )
