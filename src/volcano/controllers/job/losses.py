"""Pods that went without our doing: noticed, kept until a policy has answered for them, and then forgotten."""

from volcano.controllers.job.memory import Memory
from volcano.controllers.job.observe import Observed
from volcano.controllers.job.partitions import partition_of
from volcano.controllers.job.pods import pod_name
from volcano.controllers.job.policies import resolve
from volcano.controllers.job.roster import Member
from volcano.controllers.job.terms import LIVE, Action, Happening, Phase


def notice_losses(seen: Observed) -> None:
    """On the first look at a job since the controller started: which pods went while none was running?

    The status tells how many pods each task had when it was last written. Pods whose numbers are free now, up to
    that many, have been deleted since.
    """
    if seen.status.phase not in (Phase.PENDING, Phase.RUNNING):
        return
    for task in seen.job.tasks:
        counted = sum(seen.status.counts.tasks.get(task.name, {}).values())
        gone = min(counted, task.replicas) - seen.roster.size(task.name)
        for ordinal in seen.roster.missing(task.name, task.replicas)[: max(gone, 0)]:
            name = pod_name(seen.job, task, ordinal)
            seen.roster.lost[f"lost/{name}"] = Member(
                name=name,
                uid=f"lost/{name}",
                task=task.name,
                ordinal=ordinal,
                version=seen.status.version,
                retry=seen.status.retries,
                state="Unknown",
                marked=False,
                evicted=False,
                exit_code=0,
                restarts=0,
                ready=False,
                partition=partition_of(task, ordinal) or "",
                stamp=0.0,
            )


def settle_losses(seen: Observed, memory: Memory) -> None:
    """Drops lost pods that were answered for, that nobody asks about, or that are back."""
    status, roster = seen.status, seen.roster
    watching = status.phase in LIVE or status.phase is Phase.RESTARTING
    for uid, member in list(roster.lost.items()):
        task = seen.job.task(member.task)
        policy = resolve((*task.policies, *seen.job.policies), Happening.POD_EVICTED) if task else None
        back = roster.members.get(member.name)
        if (
            not watching
            or memory.was_acted_on(uid, status)
            or member.version < status.version
            or policy is None
            or (policy.timeout and back is not None and back.state == "Running")
            or (policy.action is Action.RESTART_POD and not policy.timeout)
        ):
            del roster.lost[uid]
            memory.acted.pop(uid, None)
