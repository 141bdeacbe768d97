"""Commands: requests to suspend, resume or restart a job, each executed once and then deleted."""

from collections.abc import Iterable, Iterator

from volcano.base.clock import Instant, parse_timestamp
from volcano.controllers.job.types import Action, Phase
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest, is_deleting, version_of

# The event of a command may arrive before that of its job: the command is kept for so many seconds.
JOB_WAIT_TIMEOUT = 30.0

# Actions that would have no effect on a restarting job are delayed until it has restarted.
_WAIT_FOR_RESTART = frozenset({Action.ABORT, Action.TERMINATE, Action.COMPLETE})


def target_of(command: Manifest) -> Key | None:
    """The job a command targets; None when it targets another kind."""
    target = command.get("target") or {}
    if (
        target.get("kind") != JOB.kind
        or target.get("apiVersion") != JOB.api_version
        or not target.get("name")
    ):
        return None
    return Key(command["metadata"].get("namespace", ""), target["name"])


def in_order(commands: Iterable[Manifest]) -> list[Manifest]:
    """Commands in the order of their creation: times have whole seconds, versions do not."""
    return sorted((command for command in commands if not is_deleting(command)), key=version_of)


def is_for_another(command: Manifest, uid: str) -> bool:
    """Whether a command targets a deleted job of the same name."""
    meant = (command.get("target") or {}).get("uid")
    return bool(meant) and meant != uid


def must_wait(action: Action, phase: Phase) -> bool:
    """Whether an action would have no effect now."""
    return phase is Phase.RESTARTING and action in _WAIT_FOR_RESTART


def wait_left(commands: Iterable[Manifest], now: Instant) -> Iterator[tuple[Manifest, float]]:
    """Commands whose job is unknown, each with the seconds left to wait for it."""
    for command in commands:
        stamp = command["metadata"].get("creationTimestamp")
        given = parse_timestamp(stamp) if stamp else now.wall - JOB_WAIT_TIMEOUT
        yield command, given + JOB_WAIT_TIMEOUT - now.wall
