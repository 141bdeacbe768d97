"""`vcctl job describe`: a job with its gang, pods, policies, conditions and events on one screen, or as data."""

import argparse
import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from volcano.cli import flags
from volcano.cli.errors import UsageError
from volcano.cli.job.summary import summarise
from volcano.cli.objects import target
from volcano.cli.printing.colours import style_of
from volcano.cli.printing.output import render
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError, Forbidden
from volcano.kube.api.kinds import EVENT, JOB, POD, QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.protocol import Query
from volcano.services.job_watch import group_of
from volcano.services.objects import find
from volcano.views.amounts import amounts, short_name, shown
from volcano.views.jobs import queue_of
from volcano.views.times import age

INDENT = "  "
NOTHING = "–"
SHOWN_EVENTS = 20
UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # of the job, in the name of its PodGroup
NO_GROUP = "none: there is one from a job's start to its end"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    parser.add_argument("-o", "--output", default="", metavar="FORMAT", help="json or yaml: the same as data")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    if arguments.output not in ("", "json", "yaml"):
        raise UsageError(f"-o: {arguments.output!r} is none of json, yaml")
    key = target(arguments, session, "job name is mandatory to describe a particular job")
    job = await find(session.client, JOB, key)
    summary = summarise(
        job,
        await group_of(session.client, job),
        await _listed(session, POD, Query(key.namespace, labels=f"{JOB_NAME}={key.name}")),
        await _listed(session, EVENT, Query(key.namespace)),
        await _queue(session, queue_of(job)),
    )
    if arguments.output:
        session.write(render(arguments.output, summary))
    else:
        Screen(session).show(summary)
    return 0


async def _listed(session: Session, kind: Kind, query: Query) -> list[Manifest]:
    """Lists objects; empty without permission, because a job can be described without reading its events."""
    try:
        return (await session.client.list(kind, query)).items
    except Forbidden as error:
        session.warn(error.message)
        return []


async def _queue(session: Session, name: str) -> Manifest | None:
    try:
        return await session.client.get(QUEUE, Key("", name))
    except ApiError:
        return None


class Screen:
    """Summary as text: a heading and a table for each part that is not empty."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._now = session.clock.now().wall

    def show(self, summary: Manifest) -> None:
        """Prints the summary."""
        self._head(summary)
        self._gang(summary["gang"])
        self._tasks(summary["tasks"])
        self._table("Policies", summary["policies"], POLICY_COLUMNS)
        self._table("Conditions", summary["conditions"], _condition_columns(self._now))
        recent = summary["events"][-SHOWN_EVENTS:]
        left_out = len(summary["events"]) - len(recent)
        self._table("Events", recent, _event_columns(self._now), f"{left_out} older" if left_out else "")
        if not summary["events"]:
            self._session.write("Events: none")

    def _head(self, summary: Manifest) -> None:
        session, spec = self._session, summary["spec"]
        paint = session.paint
        phase = paint(summary["phase"], "bold", *filter(None, [style_of(summary["phase"])]))
        lasted = f" after {summary['runningDuration']}" if summary["runningDuration"] else ""
        session.write(f"Job {paint(summary['name'], 'bold')}  {phase}{lasted}")
        if summary["message"]:
            session.write(f"{INDENT}{summary['message']}")
        queue = spec["queue"]
        about = ", ".join(
            filter(None, (queue["state"], f"weight {queue['weight']}" if queue["weight"] else ""))
        )
        facts = {
            "Namespace": summary["namespace"],
            "Queue": f"{queue['name']} ({about})",
            "Scheduler": spec["schedulerName"],
            "Created": f"{summary['created']} ({age(summary['created'], self._now)} ago)",
            "Retries": f"{summary['retries']['count']} of {summary['retries']['max']}",
            "Plugins": ", ".join(_plugin(name, words) for name, words in spec["plugins"].items()) or "none",
            "Min success": spec.get("minSuccess"),
            "Priority class": spec.get("priorityClassName"),
            "Network": _network(spec.get("networkTopology")),
            "Kept after end": f"{spec['ttlSecondsAfterFinished']}s"
            if "ttlSecondsAfterFinished" in spec
            else None,
        }
        self._facts(facts)

    def _gang(self, gang: Manifest) -> None:
        enough = gang["ready"] >= gang["minimum"]
        stand = f"{gang['ready']} ready, {gang['minimum']} needed together"
        self._heading(f"Gang: {self._session.paint(stand, 'green' if enough else 'yellow')}")
        needs = amounts(gang["minResources"])
        facts = {
            "PodGroup": gang["phase"] if gang["podGroup"] else NO_GROUP,
            "Needs": ", ".join(f"{short_name(name)} {shown(name, amount)}" for name, amount in needs.items()),
            "HyperNode": gang["hyperNode"],
            "Waits for": gang["waitsFor"],
        }
        self._facts(facts, {"Waits for": "yellow"})
        for condition in gang["conditions"]:
            if condition.get("status") == "True" and not (
                gang["waitsFor"] and condition["message"] == gang["waitsFor"]
            ):
                since = age(condition["since"], self._now)
                said = " – ".join(filter(None, (condition["reason"], condition["message"])))
                self._session.write(f"{INDENT}{condition['type']} since {since}: {said}")

    def _tasks(self, tasks: Sequence[Manifest]) -> None:
        for task in tasks:
            needs = amounts(task["requests"])
            requested = ", ".join(
                f"{short_name(name)} {shown(name, amount)}" for name, amount in needs.items()
            )
            name, count = self._session.paint(task["name"], "bold"), task["replicas"]
            self._heading(
                f"Task {name}: {count} pod{'s' if count != 1 else ''}, at least {task['minAvailable']}"
            )
            facts = {
                "Image": ", ".join(task["images"]),
                "Command": task["command"],
                "Each requests": requested or "nothing",
                "Starts after": ", ".join((task.get("dependsOn") or {}).get("name") or ()),
            }
            self._facts(facts)
            self._rows(task["pods"], _pod_columns(self._now))

    # layout of parts

    def _heading(self, text: str) -> None:
        self._session.write()
        self._session.write(text)

    def _facts(self, facts: Mapping[str, Any], styles: Mapping[str, str] | None = None) -> None:
        width = max(len(name) for name in facts) + 2
        room = max(self._session.width - len(INDENT) - width, 20)
        for name, value in facts.items():
            if value not in (None, ""):
                style = (styles or {}).get(name)
                lines = [
                    self._session.paint(line, *([style] if style else [])) for line in wrap(str(value), room)
                ]
                continued = "\n" + " " * (len(INDENT) + width)
                self._session.write(f"{INDENT}{name + ':':<{width}}{continued.join(lines)}")

    def _table(self, title: str, rows: Sequence[Manifest], columns: Sequence[Column], note: str = "") -> None:
        if rows:
            self._heading(self._session.paint(title, "bold") + (f" ({note})" if note else ""))
            self._rows(rows, columns)

    def _rows(self, rows: Sequence[Manifest], columns: Sequence[Column]) -> None:
        if not rows:
            return
        used = [column for column in columns if any(column.value(row) for row in rows)]
        self._session.table(used, rows, wrapped=True, indent=INDENT)


def _network(topology: Mapping[str, Any] | None) -> str:
    """`hard, highest tier rack`"""
    if not topology:
        return ""
    tier = topology.get("highestTierName") or topology.get("highestTierAllowed")
    return str(topology.get("mode") or "hard") + (f", highest tier {tier}" if tier is not None else "")


def _plugin(name: str, words: Sequence[str]) -> str:
    return f"{name} ({' '.join(words)})" if words else name


def _pod_columns(now: float) -> list[Column]:
    return [
        Column("POD", lambda pod: pod["name"]),
        Column("STATUS", lambda pod: pod["status"], coloured=True),
        Column("NODE", lambda pod: pod["node"] or NOTHING),
        Column("RESTARTS", lambda pod: str(pod["restarts"]), spare=2),
        Column("EXIT", lambda pod: str(pod.get("exitCode", ""))),
        Column("IP", lambda pod: pod["ip"], spare=1),
        Column("AGE", lambda pod: age(pod["created"], now)),
    ]


POLICY_COLUMNS = (
    Column("OF", lambda policy: f"task {policy['task']}" if policy["task"] else "job"),
    Column(
        "ON",
        lambda p: ", ".join([*p["events"], *([f"exit code {p['exitCode']}"] if "exitCode" in p else [])]),
    ),
    Column("DO", lambda policy: policy["action"]),
    Column("AFTER", lambda policy: policy.get("timeout", "")),
)


def _condition_columns(now: float) -> list[Column]:
    return [
        Column("PHASE", lambda condition: condition["phase"], coloured=True),
        Column("SINCE", lambda condition: condition["since"]),
        Column("AGE", lambda condition: age(condition["since"], now)),
    ]


def _event_columns(now: float) -> list[Column]:
    def last(event: Manifest) -> str:
        times = f" (x{event['count']})" if event["count"] > 1 else ""
        return age(event["last"], now) + times

    return [
        Column("AGE", last),
        Column("TYPE", lambda event: event["type"]),
        Column("REASON", lambda event: event["reason"]),
        Column("OBJECT", lambda event: UID.sub("", event["object"])),
        Column("MESSAGE", lambda event: event["message"], sentence=True),
    ]
