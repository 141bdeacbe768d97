"""Events: age and count."""

from volcano.kube.api.manifest import Manifest
from volcano.views.times import age


def event_age(event: Manifest, now: float) -> str:
    """Age and count of an event."""
    first = event.get("firstTimestamp") or event.get("eventTime")
    times = event.get("count") or 1
    if times > 1:
        return f"{age(event.get('lastTimestamp'), now)} (x{times} over {age(first, now)})"
    return age(first, now)
