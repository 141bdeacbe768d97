"""`vcctl job run`, `suspend`, `resume` and `delete`."""

import argparse
from collections.abc import Sequence

from volcano.cli import flags, objects
from volcano.cli.errors import UsageError
from volcano.cli.quantities import parse_resources
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.jobs import delete_job, resume_job, suspend_job

RESOURCES = "cpu=1000m,memory=100Mi"
MANDATORY = "job name is mandatory to {} a particular job"
IMAGE, SCHEDULER = "busybox", "volcano"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    add_job(parser, image=IMAGE, scheduler=SCHEDULER)
    parser.add_argument("-f", "--filename", default="", metavar="FILE", help="YAML file with the job")


def add_job(parser: argparse.ArgumentParser, *, image: str, scheduler: str) -> None:
    """Adds the flags that describe a job of one task."""
    add = parser.add_argument
    add("-i", "--image", default=image, help=f"container image (default {image})")
    add("-m", "--min", type=int, default=1, help="number of pods that run together (default 1)")
    add("-r", "--replicas", type=int, default=1, help="number of pods (default 1)")
    add("-R", "--requests", default=RESOURCES, help=f"requests of each pod (default {RESOURCES})")
    add("-L", "--limits", default=RESOURCES, help=f"limits of each pod (default {RESOURCES})")
    add("-S", "--scheduler", default=scheduler, help=f"scheduler (default {scheduler})")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Creates a job from flags, or the jobs of a file."""
    if arguments.filename:
        jobs = _from_file(arguments, session)
    else:
        key = objects.target(arguments, session, "job name cannot be left blank")
        jobs = [new_job(key, arguments)]
    for job in jobs:
        created = await session.client.create(JOB, job)
        session.write(f"run job {created['metadata']['name']} successfully")
    return 0


def new_job(key: Key, arguments: argparse.Namespace, command: Sequence[str] = ()) -> Manifest:
    """Job of one task with one container, named after the job."""
    container = {
        "name": key.name,
        "image": arguments.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": parse_resources(arguments.requests, "--requests"),
            "limits": parse_resources(arguments.limits, "--limits"),
        },
    }
    if command:
        container["command"] = list(command)
    template = {
        "metadata": {"name": key.name, "labels": {"job.volcano.sh": key.name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": {
            "minAvailable": arguments.min,
            "schedulerName": arguments.scheduler,
            "tasks": [{"replicas": arguments.replicas, "template": template}],
        },
    }


def _from_file(arguments: argparse.Namespace, session: Session) -> list[Manifest]:
    """Jobs of a file; namespace from the flag, the manifest or the context, in this order."""
    path = arguments.filename
    if path != "-" and ".yaml" not in path and ".yml" not in path:
        raise UsageError(f"only support yaml file: {path!r} ends in neither .yaml nor .yml")
    jobs = objects.read_objects(path, JOB)
    name = arguments.position or arguments.name
    if name and len(jobs) > 1:
        raise UsageError(f"{path}: has {len(jobs)} jobs, which cannot all be named {name!r}")
    for job in jobs:
        metadata = job["metadata"]
        asked = arguments.namespace or arguments.short_n
        metadata["namespace"] = asked or metadata.get("namespace") or session.namespace
        metadata["name"] = name or metadata.get("name", "")
    return jobs


def suspend_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")


resume_arguments = delete_arguments = suspend_arguments


async def suspend(arguments: argparse.Namespace, session: Session) -> int:
    """Aborts a job: its pods are deleted, and it can be resumed."""
    await request_suspend(session, objects.target(arguments, session, MANDATORY.format("suspend")))
    return 0


async def resume(arguments: argparse.Namespace, session: Session) -> int:
    """Resumes a suspended job."""
    await request_resume(session, objects.target(arguments, session, MANDATORY.format("resume")))
    return 0


async def request_suspend(session: Session, key: Key) -> None:
    """Suspends a job and confirms it."""
    await suspend_job(session.client, session.clock, key)
    session.write(f"suspend job {key.name} successfully")


async def request_resume(session: Session, key: Key) -> None:
    """Resumes a job and confirms it."""
    await resume_job(session.client, session.clock, key)
    session.write(f"resume job {key.name} successfully")


async def delete(arguments: argparse.Namespace, session: Session) -> int:
    """Deletes a job and its pods."""
    key = objects.target(arguments, session, MANDATORY.format("delete"))
    await delete_job(session.client, session.clock, key)
    session.write(f"delete job {key.name} successfully")
    return 0
