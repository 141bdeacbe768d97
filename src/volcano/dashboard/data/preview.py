"""A preview of jobs before they are created, as `vcctl plan` computes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from volcano.analysis.plan.plan import PlannedJob
from volcano.cli.plan_screen import placements, pod_names, pods_text, shares
from volcano.model.decisions import Evict


@dataclass(frozen=True, slots=True)
class Preview:
    """Plans of the jobs of a text, and what they do not take into account."""

    jobs: tuple[PlannedJob, ...]
    notes: tuple[str, ...] = ()
    allow_preempt: bool = False


def placement_rows(job: PlannedJob) -> list[dict[str, str | int]]:
    """Rows of the table of nodes: each pod that is placed is in one of them."""
    return [
        {
            "id": f"{each.node}/{each.task}",
            "node": each.node,
            "task": each.task or "-",
            "pods": len(each.pods),
            "names": pod_names(each.pods),
        }
        for each in placements(job)
    ]


def victim_rows(job: PlannedJob, victims: Sequence[Evict]) -> list[dict[str, str]]:
    return [
        {
            "id": f"{each.namespace}/{each.name}",
            "pod": f"{each.namespace}/{each.name}",
            "job": job.job_names.get(each.job, each.job),
            "node": each.node,
            "action": each.reason,
        }
        for each in victims
    ]


def share_rows(job: PlannedJob) -> list[dict[str, str]]:
    return [
        {
            "id": each.resource,
            "resource": each.resource,
            "before": each.before,
            "after": each.after,
            "deserved": each.deserved,
            "limit": each.limit,
        }
        for each in shares(job)
    ]


def preempting_sentence(job: PlannedJob) -> str:
    """That evictions would start a job which does not start without them; "" if they would not."""
    if job.starts or job.victims_if_allowed is None:
        return ""
    return f"It would start if the scheduler evicted {pods_text(len(job.victims_if_allowed))}."
