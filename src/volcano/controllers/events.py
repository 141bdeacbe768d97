"""Events a controller leaves beside an object, for `kubectl describe`: one per reason, never spam."""

from volcano.clock import Instant
from volcano.kube.events import NORMAL, WARNING, event, name_after, reference_to
from volcano.kube.kinds import EVENT, Kind
from volcano.kube.manifest import Manifest, uid_of
from volcano.kube.operations import Create


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
    """An Event about an object, as a write that may fail without consequence.

    It is named after what it says and the `occasion`, by default this moment: saying it again makes no second one.
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


class EventRecorder:
    """Says each thing about an object once: a reconciler that looks again has nothing new to say."""

    def __init__(self, source: str, *, capacity: int = 10_000) -> None:
        self._source = source
        self._capacity = capacity
        self._said: dict[tuple[str, str, str], None] = {}

    def once(
        self, about: Manifest, kind: Kind, reason: str, message: str, now: Instant, *, warning: bool = False
    ) -> tuple[Create, ...]:
        """The Event to write, or nothing when the same was said before."""
        said = (uid_of(about), reason, message)
        if said in self._said:
            return ()
        if len(self._said) >= self._capacity:
            del self._said[next(iter(self._said))]
        self._said[said] = None
        return (record_event(about, kind, reason, message, now, source=self._source, warning=warning),)

    def forget(self, about: Manifest, reason: str, message: str) -> None:
        """What was to be said did not come about: it may be said another time."""
        self._said.pop((uid_of(about), reason, message), None)
