"""`vcctl reservation create` and `delete`: NodeReservations of administrators."""

import argparse
from datetime import UTC, datetime
from typing import Any

from volcano.base.clock import timestamp
from volcano.cli import flags, objects
from volcano.cli.errors import UsageError, value_of
from volcano.cli.session import Session
from volcano.kube.api import selectors
from volcano.kube.api.kinds import NODE_RESERVATION
from volcano.kube.api.manifest import Manifest
from volcano.model.annotations import walltime
from volcano.services.objects import delete_object

NAME = "reservation name must be specified"
NOTE = "it takes effect where the scheduler has the plugin reservation"


def create_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "reservation")
    add = parser.add_argument
    add(
        "--start",
        default="now",
        metavar="TIME",
        help="when it begins: now (default), +2h, or 2026-03-01T08:00",
    )
    add("--end", default="", metavar="TIME", help="when it ends")
    add("--duration", default="", metavar="TIME", help="how long it lasts, instead of --end: 4h, 1-12:00:00")
    add("-q", "--queue", default="", help="queue whose jobs may use the nodes; none for maintenance")
    add("--nodes", default="", metavar="NAMES", help="names of nodes, separated by commas")
    add("-l", "--selector", default="", metavar="LABELS", help="labels of nodes, such as pool=gpu")
    add(
        "--count", type=int, default=None, metavar="N", help="only N of the selected nodes, the first by name"
    )
    add(
        "--lead",
        default="",
        metavar="TIME",
        help="keep pods without a walltime out from so long before the start on",
    )
    add("--reason", default="", help="what it is for")


async def create(arguments: argparse.Namespace, session: Session) -> int:
    """Reserves nodes."""
    key = objects.named(arguments, NAME)
    manifest: Manifest = {
        "apiVersion": NODE_RESERVATION.api_version,
        "kind": NODE_RESERVATION.kind,
        "metadata": {"name": key.name},
        "spec": spec_of(arguments, session.clock.now().wall),
    }
    await session.client.create(NODE_RESERVATION, manifest)
    session.write(f"create reservation {key.name} successfully; {NOTE}")
    return 0


def spec_of(arguments: argparse.Namespace, now: float) -> dict[str, Any]:
    """The spec of a NodeReservation from flags; raises UsageError."""
    start = parse_moment(arguments.start, "--start", now)
    if bool(arguments.end) == bool(arguments.duration):
        raise UsageError("give either --end or --duration")
    end = (
        parse_moment(arguments.end, "--end", now)
        if arguments.end
        else start + parse_span(arguments.duration, "--duration")
    )
    if end <= start:
        raise UsageError(f"--end: {timestamp(end)} is not after the start, {timestamp(start)}")
    spec: dict[str, Any] = {
        "startTime": timestamp(start),
        "endTime": timestamp(end),
        "nodes": _nodes(arguments),
    }
    if arguments.queue:
        spec["queue"] = arguments.queue
    if arguments.lead:
        spec["leadTime"] = f"{parse_span(arguments.lead, '--lead'):.0f}s"
    if arguments.reason:
        spec["reason"] = arguments.reason
    return spec


def _nodes(arguments: argparse.Namespace) -> dict[str, Any]:
    names = [name.strip() for name in arguments.nodes.split(",") if name.strip()]
    if arguments.count is not None and arguments.count < 1:
        raise UsageError(f"--count: must be at least 1 (got {arguments.count})")
    if not names and not arguments.selector and arguments.count is None:
        raise UsageError("give the nodes: --nodes, --selector or --count")
    if names and arguments.count is not None and not arguments.selector:
        raise UsageError("--count: counts nodes of --selector; leave it out with --nodes alone")
    found: dict[str, Any] = {"names": names} if names else {}
    if arguments.selector:
        with value_of("--selector"):
            selectors.parse_labels(arguments.selector)
        pairs = [part.partition("=") for part in arguments.selector.split(",")]
        if any(not equals or key.endswith("!") or value.startswith("=") for key, equals, value in pairs):
            raise UsageError("--selector: give labels as key=value, separated by commas")
        found["selector"] = {"matchLabels": {key.strip(): value.strip() for key, _, value in pairs}}
    if arguments.count is not None:
        found["count"] = arguments.count
    return found


def parse_span(text: str, flag: str) -> float:
    """Seconds of a duration; raises UsageError."""
    with value_of(flag):
        return walltime.parse(text)


def parse_moment(text: str, flag: str, now: float) -> float:
    """Seconds since the epoch of `now`, `+2h` or a time, which is of the local time zone unless it says so."""
    if text == "now":
        return now
    if text.startswith("+"):
        return now + parse_span(text[1:], flag)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M")
        raise UsageError(f"{flag}: {text!r} must be now, +2h, or a time such as {example}") from None
    return moment.timestamp()


def delete_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "reservation")


async def delete(arguments: argparse.Namespace, session: Session) -> int:
    """Deletes a reservation of nodes."""
    key = objects.named(arguments, NAME)
    await delete_object(session.client, NODE_RESERVATION, key)
    session.write(f"delete reservation {key.name} successfully")
    return 0
