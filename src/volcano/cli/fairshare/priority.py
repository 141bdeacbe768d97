"""`vcctl priority`: waiting jobs with the weighted factors of their priority, as `sprio` of Slurm."""

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from volcano.cli import flags
from volcano.cli.fairshare.shares import NO_USER
from volcano.cli.fairshare.state import FairShareState, read_state
from volcano.cli.printing.output import render
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.scheduler.plugins.fairshare import Factors


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job with pods to place, and the weighted factors of its priority."""

    namespace: str
    name: str
    queue: str
    user: str
    factors: Factors


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_namespace(parser)
    flags.add_everywhere(parser)
    parser.add_argument("-q", "--queue", default="", help="only jobs of this queue")
    parser.add_argument("-u", "--of-user", default="", metavar="USER", help="only jobs of this user")
    flags.add_data_output(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    state = await read_state(session)
    namespace = (
        "" if arguments.all_namespaces else arguments.namespace or arguments.short_n or session.namespace
    )
    rows = [
        job
        for job in waiting(state)
        if (not namespace or job.namespace == namespace)
        and (not arguments.queue or job.queue == arguments.queue)
        and (not arguments.of_user or job.user == arguments.of_user)
    ]
    if arguments.output:
        session.write(render(arguments.output, as_data(state, rows)))
        return 0
    if not rows:
        session.write("no job waits")
        return 0
    session.table(COLUMNS, rows)
    session.write("")
    session.write(f"Usage is from {state.usage_source}. Queues are in the order of their fair shares.")
    return 0


def waiting(state: FairShareState) -> list[WaitingJob]:
    """Waiting jobs, in the order of queues and then of priorities."""
    snapshot, standing = state.snapshot, state.standing
    found = [snapshot.jobs[uid] for uid in snapshot.active if uid in snapshot.jobs]
    found.sort(
        key=lambda job: (
            standing.tree.path(job.queue),
            job.queue,
            -standing.priority(job),
            job.created,
            job.uid,
        )
    )
    return [
        WaitingJob(
            job.namespace,
            state.job_names.get(job.uid, job.name),
            job.queue,
            job.user,
            standing.factors(job).weighted(state.settings),
        )
        for job in found
    ]


COLUMNS = [
    Column("Job", lambda job: job.name),
    Column("Namespace", lambda job: job.namespace, spare=3),
    Column("Queue", lambda job: job.queue),
    Column("User", lambda job: job.user or NO_USER),
    Column("Total", lambda job: f"{job.factors.total:.1f}"),
    Column("Priority", lambda job: f"{job.factors.priority:.1f}", spare=2),
    Column("Age", lambda job: f"{job.factors.age:.1f}", spare=1),
    Column("Size", lambda job: f"{job.factors.size:.1f}", spare=2),
    Column("Fairshare", lambda job: f"{job.factors.fairshare:.1f}", spare=1),
]


def as_data(state: FairShareState, rows: list[WaitingJob]) -> dict[str, Any]:
    return {
        "configured": state.configured,
        "usageSource": state.usage_source,
        "weights": asdict(state.settings.weights),
        "items": [
            {
                "namespace": job.namespace,
                "name": job.name,
                "queue": job.queue,
                "user": job.user,
                "total": job.factors.total,
                **asdict(job.factors),
            }
            for job in rows
        ],
    }
