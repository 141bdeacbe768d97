"""Events that controllers record about objects, for `kubectl describe`."""

from volcano.base.clock import Instant
from volcano.kube.api.events import NORMAL, WARNING, event, name_after, reference_to
from volcano.kube.api.kinds import EVENT, Kind
from volcano.kube.api.manifest import Manifest, uid_of
from volcano.kube.client.operations import Create


def record_event(
    about: Manifest,
    kind: Kind,
    reason: str,
    message: str,
    now: Instant,
    *,
    source: str,
    warning: bool = False,
    occasion: str | None = None,
) -> Create:
    """Creates an Event about an object; a failure is ignored.

    Its name is derived from its text and the `occasion`, by default the current time: recording it again
    has no effect.
    """
    target = reference_to(about, kind)
    manifest = event(
        target,
        name_after(target, reason, message, str(now.wall) if occasion is None else occasion),
        severity=WARNING if warning else NORMAL,
        reason=reason,
        message=message,
        now=now,
        component=source,
    )
    return Create(EVENT, manifest, optional=True)


class OnceRecorder:
    """Records each event about an object once, however often the object is reconciled."""

    def __init__(self, source: str, *, capacity: int = 10_000) -> None:
        self._source = source
        self._capacity = capacity
        self._recorded: dict[tuple[str, str, str], None] = {}

    def once(
        self, about: Manifest, kind: Kind, reason: str, message: str, now: Instant, *, warning: bool = False
    ) -> tuple[Create, ...]:
        """The Event to create, or nothing when it was recorded before."""
        key = (uid_of(about), reason, message)
        if key in self._recorded:
            return ()
        if len(self._recorded) >= self._capacity:
            del self._recorded[next(iter(self._recorded))]
        self._recorded[key] = None
        return (record_event(about, kind, reason, message, now, source=self._source, warning=warning),)

    def forget(self, about: Manifest, reason: str, message: str) -> None:
        """Allows an event to be recorded again: what it reports did not happen."""
        self._recorded.pop((uid_of(about), reason, message), None)
