"""Submission of a gang: its manifest, and its creation with the objects that its files need."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SCHEDULER_NAME
from volcano.kube.client.protocol import Client, Options
from volcano.services.submit.pod_files import NO_FILES, FileObjects, PodFiles, add_files

# Job plugins that connect the pods.
PLUGINS = ("svc", "env", "ssh", "pytorch", "mpi", "tensorflow")
FRAMEWORKS = ("pytorch", "mpi", "tensorflow")
# The first worker is the leader, except with mpi, which has a separate launcher without devices.
LED_BY_A_WORKER, LED_BY_A_LAUNCHER = ("pytorch",), ("mpi",)
# Default images by program.
IMAGES = (("python", "python:3"), ("", "busybox"))
GPU = "nvidia.com/gpu"
SSHD = ["/bin/sh", "-c", "mkdir -p /var/run/sshd && exec /usr/sbin/sshd -D"]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Submission:
    """What to run, and on what."""

    command: Sequence[str]
    name: str = ""
    workers: int = 1
    gpus: int = 0
    gpu_resource: str = GPU
    cpus: str = "1"
    memory: str = "1Gi"
    image: str = "busybox"
    queue: str = ""
    min_available: int | None = None
    priority_class: str = ""
    retries: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    plugins: Sequence[str] = ()
    keep: int | None = None
    files: PodFiles = NO_FILES


async def create_job(
    client: Client,
    files: PodFiles,
    namespace: str,
    make_job: Callable[[PodFiles], Manifest],
    on_note: Callable[[str], None],
) -> Manifest:
    """Creates the job and the objects that its files need; none of them stays if the job is rejected, and a note names
    those that could not be removed."""
    async with FileObjects(client, files, namespace, on_note) as objects:
        await objects.create()
        created = await client.create(JOB, make_job(files), options=Options(field_manager="vcctl"))
        await objects.set_owner(created)
    return created


def command_of(words: Sequence[str]) -> list[str]:
    """Command as given; a single word with spaces is run by a shell."""
    return ["/bin/sh", "-c", words[0]] if len(words) == 1 and len(words[0].split()) > 1 else list(words)


def image_for(words: Sequence[str]) -> str:
    """Default image for the program of a command line."""
    program = words[0].split()[0].rpartition("/")[2] if words[0].split() else ""
    return next(image for start, image in IMAGES if program.startswith(start))


def name_from(words: Sequence[str]) -> str:
    """Job name from the script or program: `python train.py` gives `train`."""
    scripts = [word for word in words if re.fullmatch(r"[^\s-]\S*\.(py|sh|R|jl|js|pl)", word)]
    stem = (
        (scripts or [words[0].split()[0] if words[0].split() else "job"])[0]
        .rpartition("/")[2]
        .partition(".")[0]
    )
    cleaned = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40]
    return cleaned.strip("-") or "job"


@dataclass(frozen=True, slots=True)
class Role:
    """One task of the job."""

    name: str
    replicas: int
    command: Sequence[str]
    devices: bool = True
    leads: bool = False


def roles(submission: Submission) -> list[Role]:
    """Tasks of the job: workers, and a leader if needed."""
    if any(plugin in LED_BY_A_LAUNCHER for plugin in submission.plugins):
        launcher = Role("master", 1, submission.command, devices=False, leads=True)
        return [launcher, Role("worker", submission.workers, SSHD)]
    if any(plugin in LED_BY_A_WORKER for plugin in submission.plugins):
        rest = [Role("worker", submission.workers - 1, submission.command)] if submission.workers > 1 else []
        return [Role("master", 1, submission.command, leads=True), *rest]
    return [Role("worker", submission.workers, submission.command)]


def job_of(submission: Submission, namespace: str) -> Manifest:
    """Builds the job."""
    tasks = roles(submission)
    pods = sum(role.replicas for role in tasks)
    metadata: Manifest = (
        {"name": submission.name}
        if submission.name
        else {"generateName": f"{name_from(submission.command)}-"}
    )
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    if submission.retries:
        policies.append({"event": "PodFailed", "action": "RestartJob"})
    spec: Manifest = {
        "minAvailable": pods if submission.min_available is None else submission.min_available,
        "schedulerName": SCHEDULER_NAME,
        **({"queue": submission.queue} if submission.queue else {}),
        **({"priorityClassName": submission.priority_class} if submission.priority_class else {}),
        **({"ttlSecondsAfterFinished": submission.keep} if submission.keep is not None else {}),
        **({"plugins": {name: [] for name in wiring(submission)}} if wiring(submission) else {}),
        **({"maxRetry": submission.retries} if submission.retries else {}),
        "policies": policies,
        "tasks": [_task(role, submission) for role in tasks],
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {**metadata, "namespace": namespace},
        "spec": spec,
    }


def wiring(submission: Submission) -> list[str]:
    """Requested plugins and the plugins they depend on (svc for names, ssh for keys)."""
    needed = list(submission.plugins)
    if any(plugin in FRAMEWORKS for plugin in needed) and "svc" not in needed:
        needed.append("svc")
    if "mpi" in needed and "ssh" not in needed:
        needed.append("ssh")
    return needed


def _task(role: Role, submission: Submission) -> Manifest:
    requests = {"cpu": submission.cpus, "memory": submission.memory}
    resources: Manifest = {"requests": requests}
    if submission.gpus and role.devices:
        devices = {submission.gpu_resource: str(submission.gpus)}
        resources = {"requests": {**requests, **devices}, "limits": devices}
    container: Manifest = {
        "name": role.name,
        "image": submission.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(role.command),
        "resources": resources,
    }
    if submission.env:
        container["env"] = [{"name": name, "value": value} for name, value in submission.env.items()]
    pod_spec: Manifest = {"restartPolicy": "Never", "containers": [container]}
    add_files(submission.files, pod_spec, submission.image)
    task: Manifest = {"name": role.name, "replicas": role.replicas, "template": {"spec": pod_spec}}
    if role.leads:
        # The job is complete when the leader has completed.
        task["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    return task
