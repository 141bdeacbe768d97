"""Jobs of the past: `vcctl job list --history`, `vcctl job show`, and `vcctl job view` of deleted jobs."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from volcano.accounting.api import GPU, JOBS, RUNS
from volcano.base.clock import micro_timestamp, parse_timestamp
from volcano.base.yaml_dumper import dump
from volcano.cli import flags, objects
from volcano.cli.accounting import add_period, moment
from volcano.cli.errors import UsageError
from volcano.cli.job.manage import MANDATORY
from volcano.cli.listing import NOTHING
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.accounting import ask, ask_all, hours, number_text
from volcano.services.errors import NotFoundError, ServiceError
from volcano.views.times import age, span

MOST_JOBS: Final = 1000
MOST_RUNS: Final = 5000
DAYS: Final = 30


def add_history(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `vcctl job list`."""
    parser.add_argument("--history", action="store_true", help="list also deleted jobs, with what they used")
    parser.add_argument(
        "--for-user", default="", metavar="USER", help="with --history: only jobs of this user"
    )
    add_period(parser, default=f"with --history: {DAYS}d")


def check_history(arguments: argparse.Namespace) -> None:
    """Raises UsageError for flags that do not go together."""
    if not arguments.history:
        for flag, value in (
            ("--from", arguments.start),
            ("--to", arguments.end),
            ("--for-user", arguments.for_user),
        ):
            if value:
                raise UsageError(f"{flag} is for the history of jobs; add --history")
        return
    for flag, value in (
        ("--watch", arguments.watch),
        ("--label-selector", arguments.label_selector),
        ("--sort-by", arguments.sort_by),
        ("--scheduler", arguments.scheduler),
    ):
        if value:
            raise UsageError(f"{flag} cannot be used with --history")
    if arguments.output not in ("", "wide", "json", "yaml", "name"):
        raise UsageError("-o with --history: choose json, yaml, wide or name")


async def show_history(arguments: argparse.Namespace, session: Session) -> int:
    """Lists jobs that existed in a period, the newest first."""
    now = session.clock.now().wall
    start = moment(arguments.start or f"{DAYS}d", now, "--from")
    end = moment(arguments.end, now, "--to", ends_day=True) if arguments.end else now
    namespace = objects.namespace(arguments, session)
    found = await ask_all(
        session.client,
        JOBS,
        namespace,
        MOST_JOBS,
        queue=arguments.queue,
        user=arguments.for_user,
        **{"from": micro_timestamp(start), "to": micro_timestamp(end)},
    )
    found = [job for job in found if arguments.selector in job["name"]]
    if arguments.output in ("json", "yaml", "name"):
        session.write(_rendered(found, arguments.output), end="")
        return 0
    if not found:
        session.write(NOTHING)
        return 0
    columns, wide = _columns(now, everywhere=not namespace), arguments.output == "wide"
    session.table(columns, found, wide=wide, headers=not arguments.no_headers, padded=True)
    if len(found) >= MOST_JOBS:
        session.warn(
            f"only the newest {MOST_JOBS} jobs are shown; choose a shorter time with --from and --to"
        )
    return 0


def _columns(now: float, *, everywhere: bool) -> Sequence[Column]:
    return [
        *([Column("Namespace", lambda job: job["namespace"])] if everywhere else []),
        Column("Name", lambda job: job["name"]),
        Column("Queue", lambda job: job["queue"], spare=3),
        Column("User", lambda job: job["user"] or "<none>", spare=4),
        Column("Phase", lambda job: job["phase"], coloured=True),
        Column("Created", lambda job: job["created"][:16].replace("T", " "), spare=2),
        Column("Ran", lambda job: _ran(job, now)),
        Column("Pods", lambda job: str(job["usage"]["runs"]), spare=6),
        Column("Evicted", lambda job: str(job["usage"]["evictions"]), spare=7),
        Column("GPU hours", lambda job: number_text(hours(job["usage"]["resources"], GPU)), spare=1),
        Column("CPU hours", lambda job: number_text(hours(job["usage"]["resources"], "cpu")), spare=5),
        Column("Deleted", lambda job: _deleted(job, now), spare=8),
        Column("UID", lambda job: job["uid"], wide=True),
        Column("Message", lambda job: job["message"], sentence=True),
    ]


def _deleted(job: Manifest, now: float) -> str:
    return f"{age(job['deleted'], now)} ago" if job["deleted"] else ""


def _ran(job: Manifest, now: float) -> str:
    """Time from the start of the first pod to the end of the last one."""
    used = job["usage"]
    if not used["started"]:
        return ""
    end = parse_timestamp(used["ended"]) if used["ended"] else now
    return span(max(end - parse_timestamp(used["started"]), 0.0))


def _rendered(items: list[Any], output: str) -> str:
    if output == "name":
        return "".join(f"job.batch.volcano.sh/{item['name']}\n" for item in items)
    return _document({"kind": "JobRecordList", "items": items}, output)


def _document(value: Manifest, output: str) -> str:
    return (
        dump(value) if output == "yaml" else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"
    )


# -- one job ---------------------------------------------------------------------------------------


def show_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    parser.add_argument("--uid", default="", help="of several jobs of this name, the one with this uid")
    parser.add_argument("-o", "--output", default="", metavar="FORMAT", help="json or yaml")


async def show(arguments: argparse.Namespace, session: Session) -> int:
    """Shows what a job used, also after it was deleted."""
    if arguments.output not in ("", "json", "yaml"):
        raise UsageError(f"-o: {arguments.output!r} is none of json, yaml")
    key = objects.target(arguments, session, MANDATORY.format("show"))
    found = await records(session, key)
    if arguments.uid:
        found = [job for job in found if job["uid"] == arguments.uid]
    if not found:
        raise NotFoundError(f"no job {key.name!r} was recorded in namespace {key.namespace!r}")
    return await write_record(session, found, arguments.output)


async def records(session: Session, key: Key) -> list[Manifest]:
    """All recorded jobs of a name, the newest first."""
    answer = await ask(session.client, JOBS, key.namespace, job=key.name)
    items: list[Manifest] = answer["items"]
    return items


async def deleted_job(session: Session, key: Key) -> list[Manifest]:
    """Records of a job that does not exist; none where accounting is not available."""
    try:
        return await records(session, key)
    except ServiceError:
        return []


async def write_record(session: Session, found: Sequence[Manifest], output: str = "") -> int:
    """Prints the newest of some jobs of one name, with its runs."""
    job = found[0]
    runs = await ask_all(session.client, RUNS, job["namespace"], MOST_RUNS, jobUID=job["uid"])
    if output:
        session.write(_document({**job, "runs": runs}, output), end="")
        return 0
    now = session.clock.now().wall
    for title, value in _facts(job, now):
        session.write(f"{title + ':':<16}{value}")
    if runs:
        session.write()
        _write_runs(session, sorted(runs, key=lambda run: (run["started"], run["pod"])), now)
    if len(found) > 1:
        others = ", ".join(
            f"{other['uid']} ({other['created'][:16].replace('T', ' ')})" for other in found[1:6]
        )
        session.warn(f"{len(found) - 1} older jobs of this name: {others}; show one with --uid")
    return 0


def _facts(job: Manifest, now: float) -> Iterator[tuple[str, str]]:
    used = job["usage"]
    yield "Name", job["name"]
    yield "Namespace", job["namespace"]
    yield "UID", job["uid"]
    yield "Queue", job["queue"]
    yield "User", job["user"] or "<none>"
    yield "Phase", job["phase"] + (f" (deleted {_deleted(job, now)})" if job["deleted"] else "")
    if job["message"]:
        yield "Message", job["message"]
    yield "Tasks", ", ".join(f"{name} ({count})" for name, count in job["tasks"].items()) or "<none>"
    yield "Min available", str(job["minAvailable"])
    yield "Created", job["created"][:19].replace("T", " ")
    if used["started"]:
        waited = parse_timestamp(used["started"]) - parse_timestamp(job["created"])
        yield "Started", f"{used['started'][:19].replace('T', ' ')} (waited {span(max(waited, 0.0))})"
    if used["ended"]:
        yield "Ended", f"{used['ended'][:19].replace('T', ' ')} (ran {_ran(job, now)})"
    yield "Pod runs", f"{used['runs']} ({used['running']} running, {used['evictions']} evicted)"
    yield (
        "Used",
        ", ".join(_amount(name, used["resources"]) for name in _shown(used["resources"])) or "nothing",
    )


def _shown(resources: dict[str, float]) -> list[str]:
    """Names of resources, those of every job first; whole GPUs are among all GPUs."""
    first = [name for name in (GPU, "cpu", "memory") if name in resources]
    return first + sorted(name for name in resources if name not in first and not name.endswith("/gpu"))


def _amount(name: str, resources: dict[str, float]) -> str:
    unit = {"cpu": "CPU hours", "memory": "GiB hours", GPU: "GPU hours"}.get(name, f"hours of {name}")
    return f"{number_text(hours(resources, name))} {unit}"


def _write_runs(session: Session, runs: Sequence[Manifest], now: float) -> None:
    columns = [
        Column("Pod", lambda run: run["pod"]),
        Column("Node", lambda run: run["node"], spare=3),
        Column("Started", lambda run: run["started"][:19].replace("T", " "), spare=2),
        Column("Ran", lambda run: _run_time(run, now)),
        Column("Waited", lambda run: span(run["waitingSeconds"]), spare=4),
        Column("GPUs", _gpus, spare=1),
        Column("Outcome", lambda run: run["outcome"] + (" (estimated)" if run["estimated"] else "")),
        Column("Reason", lambda run: run["reason"], sentence=True),
    ]
    session.table(columns, runs, padded=True)


def _run_time(run: Manifest, now: float) -> str:
    end = parse_timestamp(run["ended"]) if run["ended"] else now
    return span(max(end - parse_timestamp(run["started"]), 0.0))


def _gpus(run: Manifest) -> str:
    return f"{run['gpus']:g} {run['gpuType']}".strip() if run["gpus"] else ""
