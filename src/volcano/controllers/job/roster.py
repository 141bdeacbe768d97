"""The pods of one job, tallied as they change, so that a look costs no more for many pods than for few."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from volcano.clock import parse_timestamp
from volcano.controllers.job.terms import POD_PHASES, TERMINATING
from volcano.kube.manifest import Manifest, annotations_of, is_deleting, labels_of, uid_of
from volcano.kube.names import JOB_RETRY_COUNT, JOB_VERSION, OUT_OF_SYNC, PARTITION_ID, TASK_INDEX, TASK_SPEC

EVICTED = "Evicted"


class Member(NamedTuple):
    """What the controller needs to know of one pod."""

    name: str
    uid: str
    task: str
    ordinal: int
    version: int
    retry: int
    state: str  # its phase, or Terminating once it is being deleted
    marked: bool  # the controller decided to delete it
    evicted: bool  # it failed because its node needed room
    exit_code: int
    restarts: int
    ready: bool
    partition: str
    stamp: float  # when it got into its state, as far as it says itself; 0 when it does not

    def is_over(self) -> bool:
        return self.state in ("Succeeded", "Failed")


def member_of(pod: Manifest) -> Member:
    """A pod of a job as the roster keeps it."""
    annotations, labels = annotations_of(pod), labels_of(pod)
    name: str = pod["metadata"]["name"]
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    containers = status.get("containerStatuses") or ()
    state = TERMINATING if is_deleting(pod) else phase if phase in POD_PHASES else "Unknown"
    return Member(
        name=name,
        uid=uid_of(pod),
        task=annotations.get(TASK_SPEC) or labels.get(TASK_SPEC, ""),
        ordinal=_integer(annotations.get(TASK_INDEX) or name.rpartition("-")[2]),
        version=_integer(annotations.get(JOB_VERSION)),
        retry=_integer(annotations.get(JOB_RETRY_COUNT)),
        state=state,
        marked=annotations.get(OUT_OF_SYNC) == "true",
        evicted=phase == "Failed" and status.get("reason") == EVICTED,
        exit_code=_exit_code(containers) if phase == "Failed" else 0,
        restarts=_restarts(status, containers) if state in ("Pending", "Running") else 0,
        ready=state == "Succeeded" or (state == "Running" and all(c.get("ready") for c in containers)),
        partition=labels.get(PARTITION_ID, ""),
        stamp=_stamp(pod, state, containers),
    )


class Roster:
    """A job's pods by name and by state; the one place where they are counted."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.marked: dict[str, Member] = {}  # to be deleted, and not yet asked to go
        self.lost: dict[str, Member] = {}  # by uid: gone without the controller's doing, not yet answered for
        self._states: defaultdict[tuple[str, str], dict[str, Member]] = defaultdict(dict)
        self._restarts: defaultdict[str, int] = defaultdict(int)
        self._ready: defaultdict[str, int] = defaultdict(int)
        self._ordinals: defaultdict[str, set[int]] = defaultdict(set)
        self._ordinal_sums: defaultdict[str, int] = defaultdict(int)

    def put(self, member: Member) -> None:
        """Takes in a pod, or its newer state."""
        before = self.members.get(member.name)
        if before is not None:
            if (before.task, before.state) != (member.task, member.state):
                self._states[before.task, before.state].pop(member.name, None)
            self._count(before, -1)
        self.members[member.name] = member
        self._states[member.task, member.state][member.name] = member
        self._count(member, 1)
        if member.marked and member.state != TERMINATING:
            self.marked[member.name] = member
        else:
            self.marked.pop(member.name, None)

    def remove(self, name: str) -> Member | None:
        """Forgets a pod that is gone."""
        member = self.members.pop(name, None)
        if member is not None:
            self._states[member.task, member.state].pop(name, None)
            self._count(member, -1)
            self.marked.pop(name, None)
        return member

    def count(self, task: str, state: str) -> int:
        return len(self._states.get((task, state), ()))

    def within(self, task: str, *states: str) -> Iterator[Member]:
        """The pods of a task in some states, those that got there first first."""
        for state in states:
            yield from self._states.get((task, state), {}).values()

    def in_states(self, *states: str) -> Iterator[Member]:
        """The pods of any task in some states."""
        for (_, state), members in self._states.items():
            if state in states:
                yield from members.values()

    def tasks(self) -> Iterable[str]:
        """The names of tasks that have pods, whether the job still knows them or not."""
        return dict.fromkeys(task for (task, _), members in self._states.items() if members)

    def size(self, task: str) -> int:
        """How many pods a task has, those being deleted included."""
        return sum(self.count(task, state) for state in (*POD_PHASES, TERMINATING))

    def is_complete(self, task: str, replicas: int) -> bool:
        """Whether a task has exactly the pods 0 to replicas - 1: no other set of that size has so small a sum."""
        least = replicas * (replicas - 1) // 2
        return len(self._ordinals[task]) == replicas and self._ordinal_sums[task] == least

    def missing(self, task: str, replicas: int) -> list[int]:
        """Which of the pods 0 to replicas - 1 a task does not have."""
        return sorted(set(range(replicas)) - self._ordinals[task])

    def has_more_than(self, task: str, replicas: int) -> bool:
        """Whether a task has pods numbered beyond its replicas."""
        return max(self._ordinals[task], default=-1) >= replicas

    def restarts(self, task: str) -> int:
        """How often containers were restarted in the task's pods that have not ended."""
        return self._restarts[task]

    def ready(self, task: str) -> int:
        """How many of the task's pods have succeeded, or run with every container ready."""
        return self._ready[task]

    def alive(self) -> int:
        """How many pods are still to end or to go."""
        return sum(
            len(members)
            for (_, state), members in self._states.items()
            if state not in ("Succeeded", "Failed")
        )

    def is_empty(self) -> bool:
        return not self.members and not self.lost

    def _count(self, member: Member, sign: int) -> None:
        self._restarts[member.task] += sign * member.restarts
        self._ready[member.task] += sign * member.ready
        self._ordinal_sums[member.task] += sign * member.ordinal
        if sign > 0:
            self._ordinals[member.task].add(member.ordinal)
        else:
            self._ordinals[member.task].discard(member.ordinal)


def _integer(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _exit_code(containers: Iterable[Mapping[str, Any]]) -> int:
    for container in containers:
        return int(((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0)
    return 0


def _restarts(status: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> int:
    return sum(
        c.get("restartCount") or 0 for c in (*(status.get("initContainerStatuses") or ()), *containers)
    )


def _stamp(pod: Manifest, state: str, containers: Iterable[Mapping[str, Any]]) -> float:
    """Timestamps are cut to whole seconds: the moment is taken as the end of its second, never early."""
    if state == "Pending":
        stamps = [pod["metadata"].get("creationTimestamp")]
    elif state in ("Succeeded", "Failed"):
        stamps = [((c.get("state") or {}).get("terminated") or {}).get("finishedAt") for c in containers]
    else:
        return 0.0
    known = [parse_timestamp(stamp) for stamp in stamps if stamp]
    return max(known) + 1.0 if known else 0.0
