"""Conversion of Events between `v1`, as stored, and `events.k8s.io/v1`, which has other field names."""

from volcano.kube.api.kinds import EVENT, EVENTS_EVENT
from volcano.kube.api.manifest import Manifest

# Field names of events.k8s.io/v1 and of core/v1.
_NAMES = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def to_core_event(event: Manifest) -> None:
    """Converts an events.k8s.io/v1 Event to core/v1, in place."""
    event["apiVersion"] = EVENT.api_version
    for new, core in _NAMES:
        if new in event:
            event[core] = event.pop(new)
    event.setdefault("involvedObject", {})


def from_core_event(event: Manifest) -> None:
    """Converts a core/v1 Event to events.k8s.io/v1, in place."""
    event["apiVersion"] = EVENTS_EVENT.api_version
    for new, core in _NAMES:
        if core in event:
            event[new] = event.pop(core)
