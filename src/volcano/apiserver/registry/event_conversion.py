"""Events in their two forms: `v1`, as they are stored, and `events.k8s.io/v1`, which calls the fields otherwise."""

from volcano.kube.kinds import EVENT, EVENTS_EVENT
from volcano.kube.manifest import Manifest

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
    """Makes an events.k8s.io/v1 Event a core one, in place."""
    event["apiVersion"] = EVENT.api_version
    for new, core in _NAMES:
        if new in event:
            event[core] = event.pop(new)
    event.setdefault("involvedObject", {})


def from_core_event(event: Manifest) -> None:
    """Makes a core Event one of events.k8s.io/v1, in place."""
    event["apiVersion"] = EVENTS_EVENT.api_version
    for new, core in _NAMES:
        if core in event:
            event[new] = event.pop(core)
