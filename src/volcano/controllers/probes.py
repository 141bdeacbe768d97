"""Probes of a JobFlow: whether tasks of the jobs that a step depends on are ready."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from volcano.base.http.dialer import Dial
from volcano.controllers.http import request
from volcano.kube.api.kinds import JOB_FLOW, POD
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.names import JOB_NAME, TASK_SPEC
from volcano.kube.client.operations import Call
from volcano.kube.client.protocol import Client, Query

# Seconds between two probes of a step, and for one request.
PERIOD, TIMEOUT = 5.0, 2.0
MOST_PODS = 3  # of a task, one of which has to answer
_HEADER = re.compile(r"[!-9;-~]+")
_VALUE = re.compile(r"[ -~]*")


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """An HTTP request to a pod of a task or, without a path, a connection to it."""

    job: Key
    task: str
    port: int
    path: str | None = None
    header: tuple[str, str] | None = None

    def __str__(self) -> str:
        sort = "tcpSocket" if self.path is None else "httpGet"
        return f"{sort} {self.port}{self.path or ''} of task {self.task} in job {self.job.name}"


@dataclass(frozen=True, slots=True)
class Probe(Call):
    """Sends the requests of a step; the answer names the first that no pod answers."""

    step: str


def missing_phase(probe: Mapping[str, Any], jobs: Iterable[Manifest]) -> str:
    """The first task that has not reached a phase of `taskStatusList`; empty if all have."""
    for entry in probe.get("taskStatusList") or ():
        for job, task in _tasks(entry, jobs):
            counts = ((job.get("status") or {}).get("taskStatusCount") or {}).get(task["name"]) or {}
            phase = entry.get("phase") or "Running"
            needed = task.get("minAvailable") or task.get("replicas") or 0
            if int((counts.get("phase") or {}).get(phase) or 0) < needed:
                return f"task {task['name']} of job {key_of(job).name} has fewer than {needed} pods in phase {phase}"
    return ""


def requests_of(probe: Mapping[str, Any], jobs: Iterable[Manifest]) -> list[TaskRequest]:
    """The requests of `httpGetList` and `tcpSocketList`."""
    jobs = list(jobs)
    requests: list[TaskRequest] = []
    for entry in probe.get("httpGetList") or ():
        header = entry.get("httpHeader") or {}
        pair = (header["name"], header.get("value") or "") if header.get("name") else None
        for job, task in _tasks(entry, jobs):
            port, path = entry.get("port") or 80, entry.get("path") or "/"
            requests.append(TaskRequest(key_of(job), task["name"], port, path, pair))
    for entry in probe.get("tcpSocketList") or ():
        requests += [
            TaskRequest(key_of(job), task["name"], entry["port"]) for job, task in _tasks(entry, jobs)
        ]
    return requests


def probe_of(flow: Manifest, step: str, requests: Iterable[TaskRequest], dial: Dial) -> Probe:
    """The operation that sends requests."""
    return Probe(JOB_FLOW, key_of(flow), partial(_send_all, tuple(requests), dial), step)


def _tasks(entry: Mapping[str, Any], jobs: Iterable[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """The tasks that an entry is about, all of them if it names none."""
    for job in jobs:
        for index, task in enumerate((job.get("spec") or {}).get("tasks") or ()):
            name = task.get("name") or f"default{index}"
            if entry.get("taskName") in (None, "", name):
                yield job, {**task, "name": name}


async def _send_all(requests: Iterable[TaskRequest], dial: Dial, client: Client) -> Manifest:
    for wanted in requests:
        labels = f"{JOB_NAME}={wanted.job.name},{TASK_SPEC}={wanted.task}"
        pods = await client.list(POD, Query(namespace=wanted.job.namespace, labels=labels))
        addresses = [address for pod in pods.items if (address := (pod.get("status") or {}).get("podIP"))]
        answers = [await _is_answered(wanted, address, dial) for address in addresses[:MOST_PODS]]
        if not any(answers):
            return {"failed": str(wanted)}
    return {"failed": ""}


async def _is_answered(wanted: TaskRequest, address: str, dial: Dial) -> bool:
    try:
        async with asyncio.timeout(TIMEOUT):
            if wanted.path is None:
                (await dial(address, wanted.port)).close()
                return True
            host = f"[{address}]" if ":" in address else address
            path = quote("/" + wanted.path.removeprefix("/"), safe="/?&=%:@!$'()*+,;~")
            url = f"http://{host}:{wanted.port}{path}"
            headers = {"User-Agent": "volcano", "Accept": "*/*", **_checked(wanted.header)}
            return 200 <= await request("GET", url, headers, dial) < 400
    except (OSError, ValueError):  # a timeout is an OSError
        return False


def _checked(header: tuple[str, str] | None) -> dict[str, str]:
    """The header; raises ValueError if it would be more than one."""
    if header is None:
        return {}
    name, value = header
    if not _HEADER.fullmatch(name) or not _VALUE.fullmatch(value):
        raise ValueError(f"{name!r}: {value!r} is no header")
    return {name: value}
