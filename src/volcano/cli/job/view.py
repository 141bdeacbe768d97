"""`vcctl job view`: one job from labels to events."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volcano.cli import flags, objects
from volcano.cli.job.history import deleted_job, write_record
from volcano.cli.job.manage import MANDATORY
from volcano.cli.object_events import write_events
from volcano.cli.printing import output
from volcano.cli.session import Session
from volcano.kube.api.kinds import EVENT, JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query
from volcano.services.errors import NotFoundError
from volcano.services.objects import find
from volcano.views.times import moment_text

# Counters of the status, in display order.
COUNTERS = {
    "Succeeded": "succeeded",
    "Pending": "pending",
    "Running": "running",
    "Failed": "failed",
    "Terminating": "terminating",
    "Unknown": "unknown",
    "RetryCount": "retryCount",
    "Min Available": "minAvailable",
    "Version": "version",
}


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    flags.add_output(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Shows one job and its events."""
    key = objects.target(arguments, session, MANDATORY.format("view"))
    return await view(session, key, arguments.output)


async def view(session: Session, key: Key, format: str) -> int:
    """Shows one job and its events, or the job alone in a machine-readable format."""
    try:
        job = await find(session.client, JOB, key)
    except NotFoundError:
        recorded = await deleted_job(session, key)
        if not recorded or format not in ("", "wide", "json", "yaml"):
            raise
        return await write_record(session, recorded, format if format in ("json", "yaml") else "")
    if not output.is_table(format):
        session.write(output.render_one(format, JOB, job))
        return 0
    events = await session.client.list(EVENT, Query(namespace=key.namespace))
    mine = [event for event in events.items if event["metadata"]["name"].startswith(f"{key.name}.")]
    for line in job_lines(job):
        session.write(line)
    write_events(session, mine)
    return 0


def job_lines(job: Manifest) -> Iterator[str]:
    """Everything except events, indented by two spaces per level."""
    metadata = job["metadata"]
    yield from _aligned(0, {
        "Name": metadata["name"],
        "Namespace": metadata["namespace"],
        "Labels": _json(metadata.get("labels")),
        "Annotations": _json(metadata.get("annotations")),
        "API Version": job["apiVersion"],
        "Kind": job["kind"],
    })  # fmt: skip
    yield "Metadata:"
    yield from _aligned(1, {
        "Creation Timestamp": moment_text(metadata.get("creationTimestamp")),
        "Generate Name": metadata.get("generateName", ""),
        "Generation": metadata.get("generation", 0),
        "Resource Version": metadata.get("resourceVersion", ""),
        "Self Link": metadata.get("selfLink", ""),
        "UID": metadata.get("uid", ""),
    })  # fmt: skip
    yield "Spec:"
    yield from _spec(job.get("spec") or {})
    yield "Status:"
    yield from _status(job.get("status") or {})


def _spec(spec: Manifest) -> Iterator[str]:
    plugins = spec.get("plugins") or {}
    yield _line(1, "Min Available:     ", spec.get("minAvailable") or 0)
    yield _line(1, "Plugins:")
    yield _line(2, "Env:", _bracketed(plugins.get("env")))
    yield _line(2, "Ssh:", _bracketed(plugins.get("ssh")))
    yield _line(1, "Scheduler Name:    ", spec.get("schedulerName", ""))
    yield _line(1, "Tasks:")
    for task in spec.get("tasks") or ():
        yield from _task(task)


def _task(task: Manifest) -> Iterator[str]:
    template = task.get("template") or {}
    pod = template.get("spec") or {}
    yield _line(2, "Name:", task.get("name", ""))
    yield _line(2, "Replicas:", task.get("replicas") or 0)
    yield _line(2, "Template:")
    yield _line(3, "Metadata:")
    yield _line(4, "Annotations:", _json((template.get("metadata") or {}).get("annotations")))
    yield _line(4, "Creation Timestamp:", "<nil>")
    yield _line(3, "Spec:")
    yield _line(4, "Containers:")
    for container in pod.get("containers") or ():
        yield from _container(container)
    yield _line(4, "Image Pull Secrets:")
    for secret in pod.get("imagePullSecrets") or ():
        yield _line(5, "Name:     ", secret.get("name", ""))
    yield _line(4, "Restart Policy:   ", pod.get("restartPolicy", ""))


def _container(container: Manifest) -> Iterator[str]:
    resources = container.get("resources") or {}
    yield _line(5, "Command:")
    for word in container.get("command") or ():
        yield _line(6, word)
    yield _line(5, "Image:", container.get("image", ""))
    yield _line(5, "Name: ", container["name"])
    yield _line(5, "Ports:")
    for port in container.get("ports") or ():
        yield _line(6, "Container Port:", port.get("containerPort", 0))
        yield _line(6, "Name:          ", port.get("name", ""))
    yield _line(5, "Resources:")
    for title, field in (("Limits:", "limits"), ("Requests:", "requests")):
        amounts = resources.get(field) or {}
        yield _line(6, title)
        yield from _aligned(7, {name: amounts[name] for name in sorted(amounts)} or {"Cpu": 0, "Memory": 0})
    yield _line(6, "Working Dir:", container.get("workingDir", ""))


def _status(status: Manifest) -> Iterator[str]:
    for title, field in COUNTERS.items():
        if status.get(field):
            yield _line(1, f"{title}:".ljust(14), status[field])
    yield _line(1, "State:")
    yield _line(2, "Phase:", (status.get("state") or {}).get("phase", ""))
    if controlled := status.get("controlledResources"):
        yield _line(1, "Controlled Resources:")
        for name in sorted(controlled):
            yield _line(2, f"{name}: ", controlled[name])
    if conditions := status.get("conditions"):
        yield _line(1, "Conditions:")
        yield _line(2, "Status", "TransitionTime")
        for condition in conditions:
            when = moment_text(condition.get("lastTransitionTime"))
            yield _line(2, f"{condition.get('status', '')} ", f"{when} ")


def _aligned(level: int, values: Mapping[str, Any]) -> Iterator[str]:
    width = max(map(len, values)) + 1
    for name, value in values.items():
        yield _line(level, f"{name[:1].upper()}{name[1:]}:".ljust(width), value)


def _line(level: int, title: str, value: object = None) -> str:
    return "  " * level + (title if value is None else f"{title}\t{value}")


def _json(values: Mapping[str, str] | None) -> str:
    return (
        json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if values else "<none>"
    )


def _bracketed(arguments: Sequence[str] | None) -> str:
    return f"[{' '.join(arguments or ())}]"
