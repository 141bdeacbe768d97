"""The pods of one job, counted as they change, so that reconciling does not depend on their number."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, NamedTuple

from volcano.base.clock import parse_timestamp
from volcano.controllers.job.types import POD_PHASES, TERMINATING
from volcano.kube.api.manifest import (
    TERMINAL_PHASES,
    Manifest,
    annotations_of,
    is_deleting,
    labels_of,
    uid_of,
)
from volcano.kube.api.names import (
    JOB_RETRY_COUNT,
    JOB_VERSION,
    OUT_OF_SYNC,
    PARTITION_ID,
    TASK_INDEX,
    TASK_SPEC,
)

EVICTED = "Evicted"
LONGEST_LINE = 200  # characters of a container's last line that are kept
BURST = 1000  # pods of a task created in one reconciliation; their events cause the next one


class PodInfo(NamedTuple):
    """The state of one pod that the controller depends on."""

    name: str
    uid: str
    task: str
    ordinal: int
    version: int
    retry: int
    state: str  # its phase, or Terminating once it is being deleted
    marked: bool  # the controller decided to delete it
    evicted: bool  # evicted by its kubelet
    exit_code: int
    restarts: int
    ready: bool
    partition: str
    stamp: float  # the wall time of its last change of state; 0 when unknown
    last_words: str = ""  # the last line that its failed container has written

    def failure(self) -> str:
        """`pod j-main-0 (exit code 3: no such file)`."""
        code = f"exit code {self.exit_code}" if self.exit_code else ""
        why = ": ".join(filter(None, (code, self.last_words)))
        return f"pod {self.name} ({why})" if why else f"pod {self.name}"

    def is_over(self) -> bool:
        return self.state in TERMINAL_PHASES


def pod_info_of(pod: Manifest) -> PodInfo:
    """The cached state of a pod."""
    annotations, labels = annotations_of(pod), labels_of(pod)
    name: str = pod["metadata"]["name"]
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    containers = status.get("containerStatuses") or ()
    state = TERMINATING if is_deleting(pod) else phase if phase in POD_PHASES else "Unknown"
    return PodInfo(
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
        last_words=_last_line(status, containers) if phase == "Failed" else "",
    )


def is_task_pod(info: PodInfo, job: str) -> bool:
    """Whether a pod of the job is one that a task has: other pods with the job as owner, such as a copy made by hand
    for debugging, are not counted."""
    return bool(info.task) and info.name == f"{job}-{info.task}-{info.ordinal}"


class PodCache:
    """A job's pods by name and by state."""

    def __init__(self) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.marked: dict[str, PodInfo] = {}  # to be deleted, deletion not yet requested
        self.lost: dict[str, PodInfo] = {}  # by uid: deleted by others, not yet handled
        self.succeeded: dict[str, PodInfo] = {}  # by uid: deleted by others after they had succeeded
        self._states: defaultdict[tuple[str, str], dict[str, PodInfo]] = defaultdict(dict)
        self._restarts: defaultdict[str, int] = defaultdict(int)
        self._ready: defaultdict[str, int] = defaultdict(int)
        self._ordinals: defaultdict[str, set[int]] = defaultdict(set)
        self._succeeded_ordinals: defaultdict[str, set[int]] = defaultdict(set)
        self._ordinal_sums: defaultdict[str, int] = defaultdict(int)

    def put(self, info: PodInfo) -> None:
        """Adds or updates a pod."""
        before = self.pods.get(info.name)
        if before is not None:
            if (before.task, before.state) != (info.task, info.state):
                self._states[before.task, before.state].pop(info.name, None)
            self._count(before, -1)
        self.pods[info.name] = info
        self._states[info.task, info.state][info.name] = info
        self._count(info, 1)
        if info.marked and info.state != TERMINATING:
            self.marked[info.name] = info
        else:
            self.marked.pop(info.name, None)

    def remove(self, name: str) -> PodInfo | None:
        """Removes a deleted pod."""
        info = self.pods.pop(name, None)
        if info is not None:
            self._states[info.task, info.state].pop(name, None)
            self._count(info, -1)
            self.marked.pop(name, None)
        return info

    def count(self, task: str, state: str) -> int:
        return len(self._states.get((task, state), ()))

    def within(self, task: str, *states: str) -> Iterator[PodInfo]:
        """The pods of a task in some states, in the order in which they reached them."""
        for state in states:
            yield from self._states.get((task, state), {}).values()

    def in_states(self, *states: str) -> Iterator[PodInfo]:
        """The pods of any task in some states."""
        for (_, state), pods in self._states.items():
            if state in states:
                yield from pods.values()

    def size(self, task: str) -> int:
        """The number of a task's pods, terminating ones included."""
        return sum(self.count(task, state) for state in (*POD_PHASES, TERMINATING))

    def is_complete(self, task: str, replicas: int) -> bool:
        """Whether a task has exactly the pods 0 to replicas - 1: no other set of that size has so small a sum."""
        least = replicas * (replicas - 1) // 2
        return len(self._ordinals[task]) == replicas and self._ordinal_sums[task] == least

    def missing(self, task: str, replicas: int, finished: Collection[int] = ()) -> list[int]:
        """The lowest indices from 0 to replicas - 1 that a task has no pod for and that have not finished, `BURST` at
        most."""
        present = self._ordinals[task]
        absent = (index for index in range(replicas) if index not in present and index not in finished)
        return list(islice(absent, BURST))

    def ordinals(self, task: str) -> Set[int]:
        """The indices of a task's pods."""
        return self._ordinals[task]

    def succeeded_ordinals(self, task: str) -> Set[int]:
        """The indices of a task's pods that have succeeded."""
        return self._succeeded_ordinals[task]

    def gone_succeeded(self, task: str, version: int) -> list[PodInfo]:
        """Pods of a task that have succeeded since the last restart of the job, and were deleted."""
        return [info for info in self.succeeded.values() if info.task == task and info.version >= version]

    def has_more_than(self, task: str, replicas: int) -> bool:
        """Whether a task has pods with indices beyond its replicas."""
        return max(self._ordinals[task], default=-1) >= replicas

    def restarts(self, task: str) -> int:
        """Container restarts in the task's pods that have not ended."""
        return self._restarts[task]

    def ready(self, task: str) -> int:
        """The number of the task's pods that have succeeded, or run with every container ready."""
        return self._ready[task]

    def has_failed(self, task: str, replicas: int, minimum: int) -> bool:
        """Whether too many pods of a task have failed for `minimum` of them to be ready."""
        return minimum > 0 and replicas - self.count(task, "Failed") < minimum

    def alive(self) -> int:
        """The number of pods that have not ended."""
        return sum(len(pods) for (_, state), pods in self._states.items() if state not in TERMINAL_PHASES)

    def is_empty(self) -> bool:
        return not self.pods and not self.lost

    def _count(self, info: PodInfo, sign: int) -> None:
        self._restarts[info.task] += sign * info.restarts
        self._ready[info.task] += sign * info.ready
        self._ordinal_sums[info.task] += sign * info.ordinal
        sets = [self._ordinals[info.task]]
        if info.state == "Succeeded":
            sets.append(self._succeeded_ordinals[info.task])
        for ordinals in sets:
            (ordinals.add if sign > 0 else ordinals.discard)(info.ordinal)


def _integer(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _exit_code(containers: Iterable[Mapping[str, Any]]) -> int:
    for container in containers:
        return int(((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0)
    return 0


def _last_line(status: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> str:
    """The end of the termination message of the first container that failed, or the message of the pod."""
    for container in (*(status.get("initContainerStatuses") or ()), *containers):
        terminated = (container.get("state") or {}).get("terminated") or {}
        lines = str(terminated.get("message") or "").split("\n")
        if terminated.get("exitCode") and (written := [line.strip() for line in lines if line.strip()]):
            return written[-1][:LONGEST_LINE]
    return str(status.get("message") or "")[:LONGEST_LINE]


def _restarts(status: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> int:
    return sum(
        c.get("restartCount") or 0 for c in (*(status.get("initContainerStatuses") or ()), *containers)
    )


def _stamp(pod: Manifest, state: str, containers: Iterable[Mapping[str, Any]]) -> float:
    """Timestamps have whole seconds: the end of the second is returned, so that timeouts never end early."""
    if state == "Pending":
        stamps = [pod["metadata"].get("creationTimestamp")]
    elif state in TERMINAL_PHASES:
        stamps = [((c.get("state") or {}).get("terminated") or {}).get("finishedAt") for c in containers]
    else:
        return 0.0
    known = [parse_timestamp(stamp) for stamp in stamps if stamp]
    return max(known) + 1.0 if known else 0.0
