"""`vcctl pod list`: pods of jobs and queues."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from volcano.apiserver.endpoints.tables.pods import print_pod
from volcano.cli import flags
from volcano.cli.errors import CommandError
from volcano.cli.listing import Listing, show
from volcano.cli.printing.tables import Column, roomy
from volcano.cli.session import Session
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, annotations_of, labels_of
from volcano.kube.api.names import JOB_NAME, POD_QUEUE_NAME, QUEUE_NAME, TASK_SPEC

# Positions of kubectl's cells.
NAME, READY, STATUS, RESTARTS, AGE, ADDRESS, NODE = range(7)


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--queue", default="", help="only pods of this queue")
    parser.add_argument("-j", "--job", default="", help="only pods of this job")
    flags.add_list(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Lists pods."""
    return await show(listing(session, arguments.job, arguments.queue), arguments, session)


def listing(session: Session, job: str, queue: str) -> Listing:
    """Pods of a job, of a queue, or of any job."""
    columns = pod_columns(session.clock.now().wall)
    if job:
        labels, keep = f"{JOB_NAME}={job}", _matching(job, queue)
    elif queue:
        labels, keep = "", lambda pod: queue_of(pod) == queue
    else:
        labels, keep = JOB_NAME, lambda pod: True
    return Listing(POD, lambda objects: columns, keep, labels=labels, namespace_width=roomy)


def _matching(job: str, queue: str) -> Callable[[Manifest], bool]:
    def keep(pod: Manifest) -> bool:
        if queue and labels_of(pod).get(QUEUE_NAME) != queue:
            raise CommandError(f"the input vcjob {job} does not match the queue {queue}")
        return True

    return keep


def queue_of(pod: Manifest) -> str:
    """Queue of a pod, from its job's label or its own annotation."""
    return labels_of(pod).get(QUEUE_NAME) or annotations_of(pod).get(POD_QUEUE_NAME, "")


def pod_columns(now: float) -> Sequence[Column]:
    """Columns of pods, with kubectl's status texts."""

    known: dict[tuple[str, str], list[Any]] = {}  # cells are computed once per pod, for all columns

    def cells(pod: Manifest) -> list[Any]:
        state = (pod["metadata"].get("uid", ""), pod["metadata"].get("resourceVersion", ""))
        if state not in known:
            known[state] = print_pod(pod, now)
        return known[state]

    def cell(place: int) -> Callable[[Any], str]:
        return lambda pod: str(cells(pod)[place])

    return (
        Column("Name", cell(NAME), roomy),
        Column("Ready", cell(READY), roomy),
        Column("Status", cell(STATUS), roomy, coloured=True),
        Column("Restart", cell(RESTARTS), roomy, spare=6),
        Column("Age", cell(AGE), roomy),
        Column("Task", lambda pod: labels_of(pod).get(TASK_SPEC, ""), roomy, wide=True, spare=8),
        Column("Queue", queue_of, roomy, wide=True, spare=7),
        Column("IP", cell(ADDRESS), roomy, wide=True, spare=9),
        Column("Node", cell(NODE), roomy, wide=True),
    )
