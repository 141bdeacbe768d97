"""`vcctl podgroup`: PodGroups by their own name or their job's."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress

from volcano.cli import flags, objects
from volcano.cli.errors import near
from volcano.cli.listing import Listing, show, show_one
from volcano.cli.object_events import write_events
from volcano.cli.pod import pod_columns
from volcano.cli.printing.output import is_table, render_one
from volcano.cli.printing.tables import Column, Place
from volcano.cli.quantities import resources_text
from volcano.cli.session import Session
from volcano.kube.api.errors import NotFound
from volcano.kube.api.fields import at, is_true, name_of, number
from volcano.kube.api.kinds import EVENT, JOB, POD, POD_GROUP
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    condition_of,
    controller_of,
    key_of,
    owners_of,
)
from volcano.kube.api.names import GROUP_NAME
from volcano.kube.client.protocol import Query
from volcano.services.errors import NotFoundError
from volcano.views.jobs import why_waiting
from volcano.views.times import age

MANDATORY = "podgroup or job name is mandatory to {} a particular podgroup"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--queue", default="", help="only podgroups of this queue")
    flags.add_list(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Lists PodGroups."""
    keep = arguments.queue
    columns = _columns(session.clock.now().wall)
    listing = Listing(
        POD_GROUP, lambda objects: columns, lambda group: keep in ("", at(group, "spec", "queue"))
    )
    return await show(listing, arguments, session)


def get_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "podgroup or job")
    flags.add_output(parser)


async def get(arguments: argparse.Namespace, session: Session) -> int:
    """Shows one PodGroup."""
    group = await find(session, objects.target(arguments, session, MANDATORY.format("get")))
    columns = _columns(session.clock.now().wall)
    return await show_one(Listing(POD_GROUP, lambda objects: columns), group, arguments, session)


def describe_arguments(parser: argparse.ArgumentParser) -> None:
    get_arguments(parser)


async def describe(arguments: argparse.Namespace, session: Session) -> int:
    """Shows one PodGroup with its requirements, members, pods and events."""
    key = objects.target(arguments, session, MANDATORY.format("describe"))
    group = await find(session, key)
    if not is_table(arguments.output):
        session.write(render_one(arguments.output, POD_GROUP, group))
        return 0
    for line in _lines(group):
        session.write(line)
    await _describe_pods(session, group)
    here = Query(
        namespace=key.namespace, fields=f"involvedObject.kind=PodGroup,involvedObject.name={name_of(group)}"
    )
    write_events(session, (await session.client.list(EVENT, here)).items)
    return 0


async def find(session: Session, key: Key) -> Manifest:
    """PodGroup of this name, or of the job (or other owner) of this name."""
    try:
        return await session.client.get(POD_GROUP, key)
    except NotFound as error:
        if not error.name:
            raise
    groups = (await session.client.list(POD_GROUP, Query(namespace=key.namespace))).items
    for group in groups:
        if key.name in _owners(group):
            return dict(group)
    if phase := await _phase_of_job(session, key):
        raise NotFoundError(f"job {key.name!r} has no podgroup: the job is {phase}")
    known = [name for group in groups for name in (name_of(group), *_owners(group))]
    raise NotFoundError(
        f"there is no podgroup {key.name!r}, nor one of a job of that name, in namespace {key.namespace!r}"
        + near(key.name, known)
    )


async def _phase_of_job(session: Session, key: Key) -> str:
    """Phase of the job of this name, which may have deleted its PodGroup; empty without a job."""
    with suppress(NotFound):
        job = await session.client.get(JOB, key)
        return str(at(job, "status", "state", "phase") or "new")
    return ""


def _columns(now: float) -> Sequence[Column]:
    return (
        Column("Name", name_of, only_in=Place.FILE),
        Column("Name", _short_name, only_in=Place.TERMINAL),
        Column("Phase", lambda group: str(at(group, "status", "phase", default="")), coloured=True),
        Column("Min", lambda group: str(number(group, "spec", "minMember"))),
        Column("Running", lambda group: str(number(group, "status", "running"))),
        Column("Succeeded", lambda group: str(number(group, "status", "succeeded")), spare=8),
        Column("Failed", lambda group: str(number(group, "status", "failed")), spare=7),
        Column("Queue", lambda group: str(at(group, "spec", "queue", default=""))),
        Column("Age", lambda group: age(group["metadata"].get("creationTimestamp"), now), spare=6),
        Column("Owner", lambda group: ",".join(_owners(group)) or "<none>", wide=True),
        Column(
            "MinResources",
            lambda group: resources_text(at(group, "spec", "minResources")),
            wide=True,
            spare=9,
        ),
        Column("Reason", lambda group: _reason(group), wide=True, only_in=Place.FILE),
        Column("Reason", why_waiting, sentence=True, only_in=Place.TERMINAL),
    )


def _lines(group: Manifest) -> Iterator[str]:
    spec, status = group.get("spec") or {}, group.get("status") or {}
    tasks = spec.get("minTaskMember") or {}
    owners = ", ".join(f"{owner['kind']}/{owner['name']}" for owner in owners_of(group))
    topology = spec.get("networkTopology") or {}
    facts = {
        "Name": name_of(group),
        "Namespace": key_of(group).namespace,
        "Owner": owners or "<none>",
        "Queue": spec.get("queue", ""),
        "Priority Class": spec.get("priorityClassName") or "<none>",
        "Min Member": spec.get("minMember") or 0,
        "Min Task Member": ", ".join(f"{task}={least}" for task, least in sorted(tasks.items())) or "<none>",
        "Min Resources": resources_text(spec.get("minResources")),
        "Network Topology": ", ".join(f"{key}={value}" for key, value in topology.items()) or "<none>",
        "Phase": status.get("phase", ""),
        "Pods": ", ".join(f"{status.get(word) or 0} {word}" for word in ("running", "succeeded", "failed")),
    }
    for title, value in facts.items():
        yield f"{title + ':':<18}{value}"
    conditions = status.get("conditions") or ()
    yield "Conditions:" if conditions else "Conditions:       <none>"
    for condition in conditions:
        yield (
            f"  {condition.get('type', '')}={condition.get('status', '')}  {condition.get('reason', '')}  "
            f"{condition.get('message', '')}  ({condition.get('lastTransitionTime', '')})"
        )


async def _describe_pods(session: Session, group: Manifest) -> None:
    pods = (await session.client.list(POD, Query(namespace=key_of(group).namespace))).items
    mine = sorted((pod for pod in pods if annotations_of(pod).get(GROUP_NAME) == name_of(group)), key=key_of)
    session.write("Members:" if mine else "Members:          <none>")
    if mine:
        columns = [c for c in pod_columns(session.clock.now().wall) if c.header not in ("Queue", "IP")]
        session.table(columns, mine, indent="  ", wide=True, padded=True)


def _reason(group: Manifest) -> str:
    """Reason for which the PodGroup does not run."""
    return (
        str((condition_of(group, "Unschedulable") or {}).get("reason") or "")
        if is_true(group, "Unschedulable")
        else ""
    )


def _owners(group: Manifest) -> list[str]:
    return [owner["name"] for owner in owners_of(group)]


def _short_name(group: Manifest) -> str:
    """Name without the uid of the owner that the controllers append; commands accept the owner's name."""
    owner = controller_of(group)
    return str(name_of(group).removesuffix(f"-{owner.get('uid')}") if owner is not None else name_of(group))
