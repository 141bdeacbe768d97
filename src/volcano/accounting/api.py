"""Types of the API group accounting.volcano.sh/v1alpha1, and their JSON.

`GET /apis/accounting.volcano.sh/v1alpha1/[namespaces/<namespace>/]<resource>` with query parameters. Times are RFC 3339
in JSON and seconds since the epoch here; amounts are cores, bytes and numbers of devices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from volcano.base.clock import micro_timestamp, parse_timestamp
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

GROUP: Final = "accounting.volcano.sh"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
ROOT: Final = f"/apis/{API_VERSION}"
# Resources of the group: usage of a period, pod runs, jobs (also deleted ones), and decayed usage for fair shares.
USAGE, RUNS, JOBS, DECAYED_USAGE = "usage", "runs", "jobs", "decayedusage"
# What discovery lists: answers to queries, not objects.
KINDS: Final = tuple(
    Kind(GROUP, VERSION, kind, plural, namespaced, verbs=("list",))
    for plural, kind, namespaced in (
        (USAGE, "Usage", True),
        (RUNS, "RunList", True),
        (JOBS, "JobRecordList", True),
        (DECAYED_USAGE, "DecayedUsage", False),
    )
)
DIMENSIONS: Final = ("queue", "user", "namespace", "job", "gpu-type")  # what usage is summed by
PERIODS: Final = ("day", "week", "month")
GPU: Final = "gpu"  # name of the number of GPUs, shares of one included, among the resources of usage


class Outcome(StrEnum):
    """How a pod run ended."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    EVICTED = "Evicted"
    DELETED = "Deleted"
    NODE_LOST = "NodeLost"
    UNKNOWN = "Unknown"  # it ended while nothing was recorded, and its pod is gone


@dataclass(frozen=True, slots=True)
class Workload:
    """What the runs of a job's task have in common."""

    namespace: str
    queue: str
    user: str = ""
    job: str = ""  # name of the Job or of another owner; of the pod when it has none
    job_uid: str = ""
    task: str = ""
    gpu_type: str = ""
    gpus: float = 0.0  # GPUs of a pod; a share of one is less than 1
    requests: Mapping[str, float] = field(default_factory=dict)


class Run(msgspec.Struct, frozen=True, gc=False):  # made twice for every pod; a dataclass is slower
    """One run of a pod."""

    uid: str  # of the pod: a pod runs once
    pod: str
    node: str
    workload: Workload
    created: float
    started: float
    ended: float | None = None
    outcome: Outcome = Outcome.RUNNING
    reason: str = ""
    evictions: int = 0
    estimated: bool = False  # the end is the last time at which the pod was known to run

    @property
    def waiting(self) -> float:
        """Seconds from the creation of the pod to its start."""
        return max(self.started - self.created, 0.0)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job that finished or was deleted."""

    uid: str
    namespace: str
    name: str
    queue: str
    user: str
    created: float
    phase: str
    finished: float | None = None
    deleted: float | None = None
    message: str = ""
    min_available: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)  # replicas by task


@dataclass(frozen=True, slots=True)
class Progress:
    """Up to where all is recorded: a time at which the pods of all open runs were known, and the resource version of
    each resource whose changes up to it are recorded."""

    seen: float
    versions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written in one transaction. `progress` says up to where this and earlier batches are complete."""

    runs: Sequence[Run] = ()
    jobs: Sequence[JobRecord] = ()
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Usage of one group of runs within a period."""

    group: Mapping[str, str]  # value of each dimension that the usage is summed by
    resources: Mapping[str, float]  # resource-seconds by resource; GPUs of all kinds as `gpu`
    runs: int = 0
    evictions: int = 0
    waiting: float = 0.0  # seconds, of all runs together
    period: str = ""  # start of the day, week or month, where usage is divided by it


@dataclass(frozen=True, slots=True)
class DecayedEntry:
    """Decayed usage of one user in one queue."""

    queue: str
    user: str
    resources: Mapping[str, float]  # decayed resource-seconds


@dataclass(frozen=True, slots=True)
class DecayedUsage:
    """Usage up to a time, in which a second counts half as much for each half-life that it is past."""

    at: float
    items: tuple[DecayedEntry, ...]


def decayed_manifest(usage: DecayedUsage) -> Manifest:
    items = [{"queue": e.queue, "user": e.user, "resources": dict(e.resources)} for e in usage.items]
    return {
        "apiVersion": API_VERSION,
        "kind": "DecayedUsage",
        "at": micro_timestamp(usage.at),
        "items": items,
    }


def parse_decayed(manifest: Mapping[str, Any]) -> DecayedUsage:
    """Decodes an answer of `decayedusage`. Raises ValueError or KeyError when it is malformed."""
    items = (
        DecayedEntry(
            str(item["queue"]), str(item["user"]), {k: float(v) for k, v in item["resources"].items()}
        )
        for item in manifest["items"]
    )
    return DecayedUsage(parse_timestamp(manifest["at"]), tuple(items))


def run_manifest(run: Run) -> Manifest:
    work = run.workload
    return {
        "uid": run.uid,
        "namespace": work.namespace,
        "pod": run.pod,
        "job": work.job,
        "jobUID": work.job_uid,
        "task": work.task,
        "queue": work.queue,
        "user": work.user,
        "node": run.node,
        "gpuType": work.gpu_type,
        "gpus": work.gpus,
        "requests": dict(work.requests),
        "created": micro_timestamp(run.created),
        "started": micro_timestamp(run.started),
        "ended": _time(run.ended),
        "waitingSeconds": run.waiting,
        "outcome": str(run.outcome),
        "reason": run.reason,
        "evictions": run.evictions,
        "estimated": run.estimated,
    }


def parse_run(manifest: Mapping[str, Any]) -> Run:
    workload = Workload(
        manifest["namespace"],
        manifest["queue"],
        manifest["user"],
        manifest["job"],
        manifest["jobUID"],
        manifest["task"],
        manifest["gpuType"],
        float(manifest["gpus"]),
        manifest["requests"],
    )
    return Run(
        manifest["uid"],
        manifest["pod"],
        manifest["node"],
        workload,
        parse_timestamp(manifest["created"]),
        parse_timestamp(manifest["started"]),
        _parsed(manifest["ended"]),
        Outcome(manifest["outcome"]),
        manifest["reason"],
        int(manifest["evictions"]),
        bool(manifest["estimated"]),
    )


def job_manifest(job: JobRecord) -> Manifest:
    return {
        "uid": job.uid,
        "namespace": job.namespace,
        "name": job.name,
        "queue": job.queue,
        "user": job.user,
        "created": micro_timestamp(job.created),
        "finished": _time(job.finished),
        "deleted": _time(job.deleted),
        "phase": job.phase,
        "message": job.message,
        "minAvailable": job.min_available,
        "tasks": dict(job.tasks),
    }


def parse_job(manifest: Mapping[str, Any]) -> JobRecord:
    return JobRecord(
        manifest["uid"],
        manifest["namespace"],
        manifest["name"],
        manifest["queue"],
        manifest["user"],
        parse_timestamp(manifest["created"]),
        manifest["phase"],
        _parsed(manifest["finished"]),
        _parsed(manifest["deleted"]),
        manifest["message"],
        int(manifest["minAvailable"]),
        manifest["tasks"],
    )


def usage_manifest(row: UsageRow) -> Manifest:
    return {
        **({"period": row.period} if row.period else {}),
        "group": dict(row.group),
        "resources": dict(row.resources),
        "runs": row.runs,
        "evictions": row.evictions,
        "waitingSeconds": row.waiting,
    }


def parse_usage(manifest: Mapping[str, Any]) -> UsageRow:
    return UsageRow(
        manifest["group"],
        manifest["resources"],
        int(manifest["runs"]),
        int(manifest["evictions"]),
        float(manifest["waitingSeconds"]),
        manifest.get("period", ""),
    )


def _time(wall: float | None) -> str | None:
    return None if wall is None else micro_timestamp(wall)


def _parsed(text: str | None) -> float | None:
    return None if text is None else parse_timestamp(text)
