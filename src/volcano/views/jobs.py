"""Jobs and PodGroups: the row of one, its queue, and the reason for which it waits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.kube.api.fields import at, items, number, wall_time
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest, condition_of, controller_of, key_of
from volcano.kube.api.names import DEFAULT_QUEUE
from volcano.views.amounts import Amounts, largest_part
from volcano.views.pods import OF_GROUP, OF_JOB, Home

WAITING = ("Pending", "Inqueue", "Restarting")  # phases of jobs and PodGroups
READY = ("Running", "Succeeded")  # phases of pods


def why_waiting(group: Manifest) -> str:
    """Message of a PodGroup's Unschedulable condition; empty if it is not waiting."""
    blocked = condition_of(group, "Unschedulable")
    if blocked is None or blocked.get("status") != "True":
        return ""
    return str(blocked.get("message") or blocked.get("reason") or "")


def waiting_reasons(groups: Iterable[Manifest]) -> dict[str, str]:
    """Reason of every PodGroup that waits, by the uid of its job."""
    owned = ((controller_of(group), why_waiting(group)) for group in groups)
    return {str(owner.get("uid")): reason for owner, reason in owned if owner is not None and reason}


def queue_of(manifest: Manifest) -> str:
    """Queue of a job or PodGroup."""
    return str(at(manifest, "spec", "queue", default="") or DEFAULT_QUEUE)


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job, or a PodGroup that no Volcano job owns."""

    key: Key
    queue: str
    phase: str
    minimum: int
    ready: int
    wanted: int
    created: float
    holds: Amounts
    waits_for: str = ""
    grouped_only: bool = False

    @property
    def home(self) -> Home:
        """Owner of its pods."""
        return (OF_GROUP if self.grouped_only else OF_JOB, self.key)

    def dominant(self, total: Amounts) -> float:
        """Dominant share of the job."""
        return largest_part(self.holds, total)


def job_rows(
    jobs: Iterable[Manifest], groups: Iterable[Manifest], held: Mapping[Home, Amounts]
) -> Iterator[JobRow]:
    """Volcano jobs, with what their pods hold."""
    owned = {owner["uid"]: group for group in groups if (owner := controller_of(group)) is not None}
    for job in jobs:
        key = key_of(job)
        group = owned.get(job["metadata"].get("uid", ""))
        phase = str(at(job, "status", "state", "phase", default="Pending"))
        yield JobRow(
            key=key,
            queue=queue_of(job),
            phase=phase,
            minimum=number(job, "spec", "minAvailable"),
            ready=number(job, "status", "running") + number(job, "status", "succeeded"),
            wanted=sum(number(task, "replicas") for task in items(job, "spec", "tasks")),
            created=wall_time(at(job, "metadata", "creationTimestamp")) or 0.0,
            holds=held.get((OF_JOB, key), {}),
            waits_for=why_waiting(group) if group is not None and phase in WAITING else "",
        )


def group_rows(
    groups: Iterable[Manifest], members: Mapping[Home, Sequence[Manifest]], held: Mapping[Home, Amounts]
) -> Iterator[JobRow]:
    """PodGroups of Deployments, plain pods and other operators' jobs, which share the queues."""
    for group in groups:
        owner = controller_of(group)
        if owner is not None and owner.get("apiVersion") == JOB.api_version and owner.get("kind") == JOB.kind:
            continue
        home = (OF_GROUP, key_of(group))
        yield JobRow(
            key=key_of(group),
            queue=queue_of(group),
            phase=str(at(group, "status", "phase", default="Pending")),
            minimum=number(group, "spec", "minMember"),
            ready=_ready(group, members.get(home, ())),
            wanted=len(members.get(home, ())),
            created=wall_time(at(group, "metadata", "creationTimestamp")) or 0.0,
            holds=held.get(home, {}),
            waits_for=why_waiting(group) if at(group, "status", "phase") in (None, *WAITING) else "",
            grouped_only=True,
        )


def _ready(group: Manifest, pods: Sequence[Manifest]) -> int:
    """Pods of a PodGroup that run or have succeeded. Not every scheduler writes their number to its status."""
    written = number(group, "status", "running") + number(group, "status", "succeeded")
    return max(written, sum(at(pod, "status", "phase") in READY for pod in pods))
