"""What needs attention in a cluster: jobs that wait for long or fail, nodes and devices with problems, queues far from
their share."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, urlencode

from volcano.analysis.explain.sentences import meaning
from volcano.dashboard.data.devices import unhealthy_devices
from volcano.dashboard.objects import Objects
from volcano.dashboard.samples import ended_at, ended_phase
from volcano.kube.api.fields import at, items, number, wall_time
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest, condition_of, controller_of, key_of, labels_of
from volcano.kube.api.names import JOB_NAME
from volcano.scheduler.engine.diagnosis.codes import Code, DiagnosisClass
from volcano.views.amounts import short_name
from volcano.views.jobs import WAITING, JobRow
from volcano.views.queues import QueueShare

LONG_WAIT = 600.0  # seconds after which a job that waits for capacity or by policy needs attention
SHORT_WAIT = 30.0  # seconds after which one that cannot start without a change does
QUEUE_WAIT = 60.0  # seconds for which a job of a queue has to wait before the queue is far from its share
RECENT = 3600.0  # seconds for which a job that failed is shown
FAR_BELOW = 0.5  # of the deserved amount
FAR_ABOVE = 1.5
MOST_SUBJECTS = 5
# Reasons of containers that do not start by waiting.
FAILING = (
    "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "ErrImageNeverPull",
)  # fmt: skip
NEEDS_CHANGE = (DiagnosisClass.NEVER, DiagnosisClass.CONFIG)
HELD_BACK = (DiagnosisClass.POLICY, DiagnosisClass.CAPACITY)


class Severity(StrEnum):
    """How grave an item is."""

    ERROR = "Error"
    WARNING = "Warning"
    NOTE = "Note"


class Topic(StrEnum):
    """What an item is about."""

    WAITING = "Waiting jobs"
    FAILING = "Failing jobs"
    NODES = "Nodes and devices"
    QUEUES = "Queues"


@dataclass(frozen=True, slots=True)
class Subject:
    """A job, node or queue that an item is about."""

    name: str
    address: str
    since: float = 0.0  # wall time; 0: not known
    text: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One line: a problem and those that have it, the oldest first."""

    topic: Topic
    severity: Severity
    title: str
    text: str = ""
    subjects: tuple[Subject, ...] = ()  # at most MOST_SUBJECTS
    count: int = 0  # of all subjects
    address: str = ""  # of a page that shows all


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits, and why."""

    key: Key
    queue: str
    code: str
    message: str
    since: float


def attention(objects: Objects) -> tuple[Item, ...]:
    """All items, the gravest first."""
    waiting = list(_waiting(objects))
    found = [
        *_long_waits(waiting, objects.now),
        *_failing(objects),
        *_nodes(objects),
        *_queues(objects.board.queues, waiting, objects.now),
    ]
    return tuple(sorted(found, key=lambda item: [*Severity].index(item.severity)))


def job_address(key: Key) -> str:
    return f"/jobs/{quote(key.namespace)}/{quote(key.name)}"


# waiting jobs


def _waiting(objects: Objects) -> Iterator[Waiting]:
    """Jobs whose PodGroup has the condition Unschedulable."""
    rows: Mapping[tuple[Key, bool], JobRow] = {(row.key, row.grouped_only): row for row in objects.board.jobs}
    for group in objects.of(POD_GROUP):
        blocked = condition_of(group, "Unschedulable")
        if blocked is None or blocked.get("status") != "True":
            continue
        owner, key = controller_of(group), key_of(group)
        of_job = (
            owner is not None and owner.get("kind") == JOB.kind and owner.get("apiVersion") == JOB.api_version
        )
        row = rows.get((Key(key.namespace, str(owner["name"])), False) if of_job and owner else (key, True))
        if row is not None and row.phase in WAITING:
            since = wall_time(blocked.get("lastTransitionTime")) or row.created
            yield Waiting(
                row.key, row.queue, str(blocked.get("reason") or ""), str(blocked.get("message") or ""), since
            )


def _long_waits(waiting: Iterable[Waiting], now: float) -> Iterator[Item]:
    """One item for each code, as many jobs often wait for the same reason."""
    by_code: dict[str, list[Waiting]] = defaultdict(list)
    for each in waiting:
        if now - each.since >= (SHORT_WAIT if _class_of(each.code) in NEEDS_CHANGE else LONG_WAIT):
            by_code[each.code].append(each)
    for code, jobs in sorted(by_code.items(), key=lambda found: -len(found[1])):
        severity = Severity.ERROR if _class_of(code) in NEEDS_CHANGE else Severity.WARNING
        many = "1 job waits" if len(jobs) == 1 else f"{len(jobs)} jobs wait"
        subjects = [Subject(str(each.key), job_address(each.key), each.since, each.message) for each in jobs]
        address = f"/jobs?{urlencode({'reason': code})}"
        yield _item(
            Topic.WAITING, severity, f"{many}: {code or 'no reason'}", _meaning(code), subjects, address
        )


def _class_of(code: str) -> DiagnosisClass | None:
    return Code(code).diagnosis_class if code in Code._value2member_map_ else None


def _meaning(code: str) -> str:
    return meaning(Code(code)) if code in Code._value2member_map_ else ""


# failing jobs


def _failing(objects: Objects) -> Iterator[Item]:
    failed, restarted = [], []
    for job in objects.of(JOB):
        key = key_of(job)
        message = str(at(job, "status", "state", "message", default="") or "")
        if ended_phase(job) == "Failed":
            if objects.now - (moment := ended_at(job)) < RECENT:
                failed.append(Subject(str(key), job_address(key), moment, message))
        elif not ended_phase(job) and (retries := number(job, "status", "retryCount")):
            since = ended_at(job)
            times = "once" if retries == 1 else f"{retries} times"
            restarted.append(Subject(str(key), job_address(key), since, f"restarted {times}"))
    if failed:
        title = _many(len(failed), "job failed", "jobs failed") + " in the last hour"
        yield _item(Topic.FAILING, Severity.ERROR, title, "", failed, "/jobs?phase=Failed")
    yield from _failing_pods(objects)
    if restarted:
        title = _many(len(restarted), "job was restarted", "jobs were restarted")
        yield _item(Topic.FAILING, Severity.WARNING, title, "", restarted, "/jobs")


def _failing_pods(objects: Objects) -> Iterator[Item]:
    by_reason: dict[str, dict[str, Subject]] = defaultdict(dict)
    counts: dict[str, int] = defaultdict(int)
    for pod in objects.of(POD):
        reason = _failing_reason(pod)
        if reason:
            key = key_of(pod)
            job = labels_of(pod).get(JOB_NAME)
            name = f"{key.namespace}/{job or key.name}"
            address = job_address(Key(key.namespace, job)) if job else ""
            by_reason[reason].setdefault(name, Subject(name, address, _created(pod), f"pod {key.name}"))
            counts[reason] += 1
    for reason, subjects in by_reason.items():
        title = f"{_many(counts[reason], 'pod does', 'pods do')} not start: {reason}"
        yield _item(Topic.FAILING, Severity.ERROR, title, "", list(subjects.values()), "/jobs")


def _failing_reason(pod: Manifest) -> str:
    status = pod.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(part) or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason") in FAILING:
                return str(waiting["reason"])
    return ""


def _created(pod: Manifest) -> float:
    return wall_time(at(pod, "metadata", "creationTimestamp")) or 0.0


# nodes


def _nodes(objects: Objects) -> Iterator[Item]:
    problems: dict[str, list[Subject]] = defaultdict(list)
    cordoned, devices, broken = [], [], 0
    for node in objects.of(NODE):
        name = key_of(node).name
        address = f"/nodes/{quote(name)}"
        for condition in items(node, "status", "conditions"):
            kind, status = str(condition.get("type")), condition.get("status")
            if (status != "True") if kind == "Ready" else (status == "True"):
                since = wall_time(condition.get("lastTransitionTime")) or 0.0
                problems[kind].append(Subject(name, address, since, str(condition.get("message") or "")))
        if at(node, "spec", "unschedulable"):
            cordoned.append(Subject(name, address))
        if found := unhealthy_devices(node):
            parts = ", ".join(f"{count} {short_name(kind)}" for kind, count in sorted(found.items()))
            devices.append(Subject(name, address, text=parts))
            broken += sum(found.values())
    for kind, subjects in sorted(problems.items(), key=lambda each: each[0] != "Ready"):
        title = _many(len(subjects), "node", "nodes")
        if kind == "Ready":
            title = f"{title} {'is' if len(subjects) == 1 else 'are'} not ready"
        else:
            title = f"{title} {'has' if len(subjects) == 1 else 'have'} the condition {kind}"
        severity = Severity.ERROR if kind == "Ready" else Severity.WARNING
        yield _item(Topic.NODES, severity, title, "", subjects, "/nodes")
    if devices:
        title = f"{_many(broken, 'device is', 'devices are')} unhealthy"
        yield _item(Topic.NODES, Severity.ERROR, title, "", devices, "/nodes")
    if cordoned:
        title = f"{_many(len(cordoned), 'node is', 'nodes are')} cordoned"
        yield _item(Topic.NODES, Severity.NOTE, title, "", cordoned, "/nodes")


# queues


def _queues(shares: Sequence[QueueShare], waiting: Iterable[Waiting], now: float) -> Iterator[Item]:
    """Queues that hold far less than they deserve while their jobs wait, and those that hold more meanwhile."""
    held_back: dict[str, list[float]] = defaultdict(list)
    for each in waiting:
        if _class_of(each.code) in HELD_BACK and now - each.since >= QUEUE_WAIT:
            held_back[each.queue].append(each.since)
    parents = {share.parent for share in shares}
    leaves = [share for share in shares if share.name not in parents]
    below, above = [], []
    for share in leaves:
        part, jobs = part_of_deserved(share), held_back.get(share.name, [])
        address = f"/queues/{quote(share.name)}"
        if part is None:
            continue
        if jobs and part < FAR_BELOW:
            text = f"holds {part:.0%} of what it deserves; {_many(len(jobs), 'job waits', 'jobs wait')}"
            below.append(Subject(share.name, address, min(jobs), text))
        elif part > FAR_ABOVE:
            above.append(Subject(share.name, address, text=f"holds {part:.0%} of what it deserves"))
    if below:
        title = f"{_many(len(below), 'queue holds', 'queues hold')} less than half of what they deserve"
        title = title.replace("they deserve", "it deserves") if len(below) == 1 else title
        yield _item(Topic.QUEUES, Severity.WARNING, title, "Their jobs wait.", below, "/queues")
    if below and above:
        title = f"{_many(len(above), 'queue holds', 'queues hold')} much more than deserved meanwhile"
        yield _item(Topic.QUEUES, Severity.NOTE, title, "", above, "/queues")


def part_of_deserved(share: QueueShare) -> float | None:
    """Largest part of a deserved amount that a queue holds; None for a queue that deserves nothing."""
    parts = [share.allocated.get(name, 0.0) / due for name, due in share.deserved.items() if due > 0]
    return max(parts) if parts else None


def _item(
    topic: Topic, severity: Severity, title: str, text: str, subjects: Sequence[Subject], address: str
) -> Item:
    oldest = sorted(subjects, key=lambda each: (each.since or float("inf"), each.name))[:MOST_SUBJECTS]
    return Item(topic, severity, title, text, tuple(oldest), len(subjects), address)


def _many(count: int, one: str, more: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {more}"
