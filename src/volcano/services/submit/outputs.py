"""Copies the files that pods wrote to $VOLCANO_OUTPUT."""

import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from volcano.base.clock import Clock
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import TERMINAL_PHASES, Key, Manifest, key_of, owner_reference
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.exec import ExecFailed, execute
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Options, Query
from volcano.services.errors import ServiceError
from volcano.services.objects import find
from volcano.services.submit.pod_files import OUTPUT_PATH, OUTPUT_VARIABLE, OUTPUT_VOLUME

ARCHIVE = ("tar", "-cf", "-", "-C", OUTPUT_PATH, ".")
READER = "reader"
READER_SECONDS = 900  # after which the reader ends by itself
WAIT_POLLS, WAIT_POLL = 600, 0.2
IN_MEMORY = 16 << 20


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that were copied."""

    sizes: Sequence[int]
    notes: Sequence[str] = ()  # pods whose files were not copied


async def copy_outputs(client: HttpClient, clock: Clock, key: Key, place: str) -> Outputs:
    """Copies the outputs of a job to a directory, which is made if missing."""
    job = await find(client, JOB, key)
    volume = output_volume(job)
    if volume is None:
        raise ServiceError(
            f"job {key} has no ${OUTPUT_VARIABLE}: only jobs of `vcctl submit` on nodes that execute pods have one"
        )
    directory = Path(place)
    directory.mkdir(parents=True, exist_ok=True)
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        return Outputs(await _copy_from_claim(client, clock, job, claim, directory))
    return await _copy_from_pods(client, key, directory)


def output_volume(job: Manifest) -> Manifest | None:
    """The volume for outputs in the first task of a job that has one."""
    for task in job["spec"].get("tasks") or ():
        for volume in task["template"]["spec"].get("volumes") or ():
            if volume["name"] == OUTPUT_VOLUME:
                return dict(volume)
    return None


async def _copy_from_claim(
    client: HttpClient, clock: Clock, job: Manifest, claim: str, directory: Path
) -> list[int]:
    """Reads the claim with a pod of its own, as the job's pods may have ended."""
    reader = await client.create(POD, reader_pod(job, claim))
    key = key_of(reader)
    try:
        await _wait_until_running(client, clock, key)
        return await _copy(client, key, READER, directory)
    finally:
        await client.delete(POD, key, options=Options(grace_seconds=0))


async def _copy_from_pods(client: HttpClient, job: Key, directory: Path) -> Outputs:
    """Copies from running pods: without a claim, files are gone with the end of their pod."""
    listing = await client.list(POD, Query(namespace=job.namespace, labels=f"{JOB_NAME}={job.name}"))
    pods: Sequence[Manifest] = listing.items
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not running:
        raise ServiceError(
            f"no pod of job {job} is running: without a claim its outputs are in the pods and gone when these end; "
            "submit with --output-claim NAME to keep them in a PersistentVolumeClaim"
        )
    notes = [
        f"note: pod {key_of(pod)} is not running: its outputs are not copied"
        for pod in pods
        if pod not in running
    ]
    files: list[int] = []
    for pod in running:
        place = directory / key_of(pod).name
        files += await _copy(client, key_of(pod), pod["spec"]["containers"][0]["name"], place)
    return Outputs(files, notes)


async def _copy(client: HttpClient, pod: Key, container: str, directory: Path) -> list[int]:
    """Returns the sizes of the files."""
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as received:
        try:
            await execute(client, pod, container, ARCHIVE, received.write)
        except ExecFailed as error:
            raise ServiceError(str(error)) from None
        received.seek(0)
        return extract(received, directory)


def extract(received: IO[bytes], directory: Path) -> list[int]:
    """Unpacks an archive from a pod, which cannot write outside of the directory; returns the sizes of the files."""
    try:
        with tarfile.open(fileobj=received, mode="r:") as archive:
            entries = archive.getmembers()
            archive.extractall(directory, entries, filter="data")
    except tarfile.TarError as error:
        raise ServiceError(f"the outputs were rejected: {error}") from None
    return [entry.size for entry in entries if entry.isfile()]


def reader_pod(job: Manifest, claim: str) -> Manifest:
    """A pod that mounts the outputs of a job read-only and waits."""
    key = key_of(job)
    first = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return {
        "apiVersion": "v1",
        "kind": POD.kind,
        "metadata": {
            "generateName": f"{key.name[:40]}-outputs-",
            "namespace": key.namespace,
            "ownerReferences": [{**owner_reference(job), "controller": False}],
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": READER_SECONDS,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": READER,
                    "image": first.get("image", "busybox"),
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", str(READER_SECONDS)],
                    "volumeMounts": [
                        {
                            "name": OUTPUT_VOLUME,
                            "mountPath": OUTPUT_PATH,
                            "subPath": key.name,
                            "readOnly": True,
                        }
                    ],
                }
            ],
            "volumes": [{"name": OUTPUT_VOLUME, "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


async def _wait_until_running(client: HttpClient, clock: Clock, key: Key) -> None:
    status: Manifest = {}
    for _ in range(WAIT_POLLS):
        status = (await client.get(POD, key)).get("status") or {}
        if status.get("phase") == "Running":
            return
        if status.get("phase") in TERMINAL_PHASES:
            break
        await clock.sleep(WAIT_POLL)
    raise ServiceError(f"pod {key}, which reads the outputs, did not start: {_reason(status)}")


def _reason(status: Manifest) -> str:
    """The most specific reason in a pod's status."""
    waiting = [
        (container.get("state") or {}).get("waiting") or {}
        for container in status.get("containerStatuses") or ()
    ]
    conditions = [
        condition for condition in status.get("conditions") or () if condition.get("status") == "False"
    ]
    for found in (*waiting, *conditions, status):
        if found.get("message"):
            return str(found["message"])
    return f"it is {status.get('phase', 'Pending')}"
