"""`volcano status` and `volcano list`: a running cluster with its health, jobs and usage, and all clusters."""

import argparse
import asyncio
import json
import ssl
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from volcano.cli.errors import UsageError
from volcano.cli.printing.colours import paint
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.cli.top.feed import listed
from volcano.cli.volcano.dashboard.child import dashboard_url
from volcano.cli.volcano.settings import name_of
from volcano.embedded import contexts, state
from volcano.kube.api.duration import human_duration
from volcano.kube.api.errors import ApiError
from volcano.kube.api.fields import wall_time
from volcano.kube.client.kubeconfig import Overrides
from volcano.services.connection import Connection
from volcano.services.errors import Unreachable
from volcano.views.amounts import resource_names, short_name, shown
from volcano.views.board import Board, board
from volcano.views.columns import printable

HEALTH_TIMEOUT = 5.0  # seconds
UNHEALTHY = 1  # exit code
ENDED = "Ended unexpectedly"  # status of a cluster whose process ended without being stopped
ORDER = ("Running", "Pending", "Inqueue", "Completed", "Failed", "Aborted", "Terminated")
MARKS = {"[+]": "ok", "[-]": "failed", "[!]": "warning"}


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Result of /readyz: checks by name, and messages of those that failed or warn."""

    passed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        return not self.failed


def find(arguments: argparse.Namespace) -> state.Running:
    """The running cluster that the flags select. Raises Unreachable if there is none, UsageError
    if there are several."""
    name: str = arguments.cluster_name
    if arguments.data_dir:
        running, where = state.find(arguments.data_dir.absolute()), f"runs from {arguments.data_dir}"
    elif name:
        running = next((each for each in contexts.running_clusters() if each.name == name), None)
        where = f"named {name!r} runs"
    else:
        running, where = contexts.find_any(), "runs"
    if running is not None:
        return running
    names = [each.name for each in contexts.running_clusters()]
    if names and not name and not arguments.data_dir:
        raise UsageError(f"several clusters run: choose one with --name: {', '.join(names)}")
    hint = f"running: {', '.join(names)}" if names else "`volcano up` starts one"
    ends = _unexpected_ends(arguments)
    raise Unreachable(f"no cluster {where}; {ends[0] if ends else hint}")


def _unexpected_ends(arguments: argparse.Namespace) -> list[state.UnexpectedEnd]:
    """The ends of the clusters that the flags select."""
    if arguments.data_dir:
        end = state.unexpected_end(arguments.data_dir.absolute())
        return [] if end is None else [end]
    name: str = arguments.cluster_name
    return [end for end in contexts.unexpected_ends() if name in ("", end.running.name)]


def status(arguments: argparse.Namespace) -> int:
    """Shows a running cluster; exits with 1 if it is not healthy."""
    running = find(arguments)
    health = read_health(running)
    seen, problem = None, ""
    try:
        seen = asyncio.run(_read_board(running))
    except (ApiError, OSError) as error:
        problem = str(error)
        health = HealthReport(health.passed, {**health.failed, "api": problem}, health.warnings)
    session = Session()
    if arguments.output == "json":
        session.write(json.dumps(as_data(running, health, seen), indent=2))
    else:
        print_status(session, running, health, seen, time.time())
    return 0 if health.healthy else UNHEALTHY


def read_health(running: state.Running) -> HealthReport:
    """Asks the API server for its health checks."""
    try:
        trust = ssl.create_default_context(cafile=str(Path(running.directory) / "ca.crt"))
        url = f"{running.url}/readyz?verbose"
        with urllib.request.urlopen(url, timeout=HEALTH_TIMEOUT, context=trust) as answer:
            return parse_health(answer.read().decode())
    except urllib.error.HTTPError as error:
        return parse_health(error.read().decode())
    except OSError as error:
        reason = getattr(error, "reason", error)
        return HealthReport(failed={"api": f"no answer from {running.url}: {reason}"})


def parse_health(text: str) -> HealthReport:
    """Reads the lines of /readyz?verbose."""
    passed: list[str] = []
    messages: dict[str, dict[str, str]] = {"failed": {}, "warning": {}}
    for line in text.splitlines():
        result = MARKS.get(line[:3])
        name, _, rest = line[3:].partition(" ")
        if result == "ok":
            passed.append(name)
        elif result is not None:
            messages[result][name] = rest.partition(": ")[2]
    return HealthReport(tuple(passed), messages["failed"], messages["warning"])


async def _read_board(running: state.Running) -> Board:
    session = Session(Connection(kubeconfig=running.kubeconfig, overrides=Overrides(context=running.context)))
    try:
        picture, _ = await listed(session, "")
        return board(picture)
    finally:
        await session.client.close()


def as_data(running: state.Running, health: HealthReport, seen: Board | None) -> dict[str, Any]:
    """Everything that `status` shows, for -o json."""
    data: dict[str, Any] = {
        **asdict(running),
        "dashboard": dashboard_url(running),
        "healthy": health.healthy,
        "checks": {
            "passed": list(health.passed),
            "failed": dict(health.failed),
            "warnings": dict(health.warnings),
        },
    }
    if seen is not None:
        data["readyNodes"] = seen.nodes
        data["jobs"] = dict(Counter(job.phase for job in seen.jobs))
        data["resources"] = {
            name: {"used": seen.used.get(name, 0.0), "total": seen.total.get(name, 0.0)}
            for name in resource_names(seen.total)
        }
    return data


def print_status(
    session: Session, running: state.Running, health: HealthReport, seen: Board | None, now: float
) -> None:
    """Prints one line per property; long values are not cut."""
    started = wall_time(running.started)
    age = f", up {human_duration(now - started)}" if started else ""
    word, colour = ("healthy", "green") if health.healthy else ("unhealthy", "red")
    rows: list[tuple[str, str]] = [
        ("Cluster", running.name),
        ("Health", paint(word, colour) if session.colour else word),
        ("Process", f"{running.pid}{age}, version {running.version}"),
        ("API server", running.url),
        *((("Dashboard", dashboard),) if (dashboard := dashboard_url(running)) else ()),
        ("Kubeconfig", running.kubeconfig),
        ("Context", running.context),
        ("Data", running.directory if running.durable else "in memory, lost when it stops"),
        ("Nodes", _nodes(running, seen)),
        *((("Jobs", _jobs(seen)), *_usage(seen)) if seen is not None else ()),
        ("Checks", f"{len(health.passed)} passed, {len(health.failed)} failed"),
    ]
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        session.write(f"{name + ':':<{width}} {value}")
    for kind, messages in (("failed", health.failed), ("warning", health.warnings)):
        for name, text in messages.items():
            line = printable(f"{kind}: {name}: {text}")
            session.write(fill(line, session.width, initial_indent="  ", subsequent_indent="    "))


def _nodes(running: state.Running, seen: Board | None) -> str:
    ready = f", {seen.nodes} ready" if seen is not None else ""
    return nodes_in_words(running) + ready


def nodes_in_words(running: state.Running) -> str:
    """`1 on this host (netns), 4 simulated`."""
    local = f"{running.local_nodes} on this host ({running.runtime})" if running.local_nodes else ""
    simulated = f"{running.nodes} simulated" if running.nodes or not local else ""
    return ", ".join(filter(None, (local, simulated)))


def _jobs(seen: Board) -> str:
    counts = Counter(job.phase for job in seen.jobs)
    phases = [*(phase for phase in ORDER if phase in counts), *sorted(set(counts) - set(ORDER))]
    total = f"{len(seen.jobs)} job{'' if len(seen.jobs) == 1 else 's'}"
    listed = ", ".join(f"{counts[phase]} {phase}" for phase in phases)
    return f"{total}: {listed}" if listed else "none"


def _usage(seen: Board) -> list[tuple[str, str]]:
    """Used and total amount of each resource."""
    rows = []
    for name in resource_names(seen.total):
        used, total = seen.used.get(name, 0.0), seen.total.get(name, 0.0)
        share = f" ({used / total:.0%})" if total else ""
        label = short.upper() if len(short := short_name(name)) <= 3 else short.capitalize()
        rows.append((label, f"{shown(name, used)} of {shown(name, total)}{share}"))
    return rows


def list_clusters(arguments: argparse.Namespace) -> int:
    """Lists the clusters of this user, running or stopped."""
    session = Session()
    rows = [_row(running) for running in contexts.running_clusters()] + [
        _stopped_row(place) for place in contexts.stopped_clusters()
    ]
    if arguments.output == "json":
        data = {"clusters": rows, "kubeconfig": str(contexts.shared_kubeconfig())}
        session.write(json.dumps(data, indent=2))
    else:
        print_list(session, rows, time.time())
    return 0


def _row(running: state.Running) -> dict[str, Any]:
    return {**asdict(running), "status": "Running" if read_health(running).healthy else "Unhealthy"}


def _stopped_row(directory: Path) -> dict[str, Any]:
    name = directory.name if directory.parent == state.clusters_directory() else name_of(directory)
    end = state.unexpected_end(directory)
    row = {"name": name, "status": "Stopped" if end is None else ENDED, "directory": str(directory)}
    return row if end is None else {**row, "message": str(end)}


def print_list(session: Session, rows: list[dict[str, Any]], now: float) -> None:
    """Prints a table of clusters and the kubeconfig that has a context for each running one."""
    if not rows:
        session.write("no clusters; `volcano up` starts one, `volcano up --name NAME` another one")
        return

    def age(row: dict[str, Any]) -> str:
        started = wall_time(row.get("started", ""))
        return human_duration(now - started) if started else ""

    columns = [
        Column("NAME", lambda row: row["name"]),
        Column("STATUS", lambda row: row["status"], coloured=True),
        Column(
            "NODES", lambda row: str(row["nodes"] + row["local_nodes"]) if "nodes" in row else "", spare=3
        ),
        Column("AGE", age, spare=2),
        Column("CONTEXT", lambda row: row.get("context", ""), spare=1),
        Column("API SERVER", lambda row: row.get("url", ""), spare=4),
        Column("DATA", lambda row: row["directory"] if row.get("durable", True) else "in memory", spare=5),
    ]
    session.table(columns, rows)
    for row in rows:
        if row["status"] == ENDED:
            session.write(row["message"])
    if any(row["status"] not in ("Stopped", ENDED) for row in rows):
        session.write()
        session.write("All running clusters are contexts of one kubeconfig:")
        session.write(f"  export KUBECONFIG={contexts.shared_kubeconfig()}")
