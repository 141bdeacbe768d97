"""`vcctl job outputs`: copies the files that pods wrote to $VOLCANO_OUTPUT."""

import argparse
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from volcano.cli import flags
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.job.pod_files import OUTPUT_PATH, OUTPUT_VARIABLE, OUTPUT_VOLUME
from volcano.cli.job.upload import format_size
from volcano.cli.objects import find
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key, Manifest, key_of, owner_reference
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.exec import ExecFailed, execute
from volcano.kube.client.protocol import Options, Query

ARCHIVE = ("tar", "-cf", "-", "-C", OUTPUT_PATH, ".")
READER = "reader"
READER_SECONDS = 900  # after which the reader ends by itself
WAIT_POLLS, WAIT_POLL = 600, 0.2
IN_MEMORY = 16 << 20


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("position", nargs="?", default="", metavar="NAME", help="name of the job")
    parser.add_argument(
        "directory", nargs="?", default="", metavar="DIR", help="directory to copy to; made if missing"
    )
    flags.add_namespace(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    if not arguments.position or not arguments.directory:
        raise UsageError("name a job and a directory, such as: vcctl job outputs train results")
    key = Key(arguments.namespace or arguments.short_n or session.namespace, arguments.position)
    files = await copy_outputs(session, key, arguments.directory)
    size = format_size(sum(files))
    session.write(
        f"copied {len(files)} {'file' if len(files) == 1 else 'files'}, {size}, to {arguments.directory}"
        if files
        else f"job {key} has written no files to ${OUTPUT_VARIABLE}"
    )
    return 0


async def copy_outputs(session: Session, key: Key, place: str) -> list[int]:
    """Copies the outputs of a job to a directory, which is made if missing; returns the sizes of the files."""
    job = await find(session, JOB, key)
    volume = output_volume(job)
    if volume is None:
        raise CommandError(
            f"job {key} has no ${OUTPUT_VARIABLE}: only jobs of `vcctl submit` on nodes that execute pods have one"
        )
    directory = Path(place)
    directory.mkdir(parents=True, exist_ok=True)
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        return await _copy_from_claim(session, job, claim, directory)
    return await _copy_from_pods(session, key, directory)


def output_volume(job: Manifest) -> Manifest | None:
    """The volume for outputs in the first task of a job that has one."""
    for task in job["spec"].get("tasks") or ():
        for volume in task["template"]["spec"].get("volumes") or ():
            if volume["name"] == OUTPUT_VOLUME:
                return dict(volume)
    return None


async def _copy_from_claim(session: Session, job: Manifest, claim: str, directory: Path) -> list[int]:
    """Reads the claim with a pod of its own, as the job's pods may have ended."""
    reader = await session.client.create(POD, reader_pod(job, claim))
    key = key_of(reader)
    try:
        await _wait_until_running(session, key)
        return await _copy(session, key, READER, directory)
    finally:
        await session.client.delete(POD, key, options=Options(grace_seconds=0))


async def _copy_from_pods(session: Session, job: Key, directory: Path) -> list[int]:
    """Copies from running pods: without a claim, files are gone with the end of their pod."""
    listing = await session.client.list(POD, Query(namespace=job.namespace, labels=f"{JOB_NAME}={job.name}"))
    pods: Sequence[Manifest] = listing.items
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not running:
        raise CommandError(
            f"no pod of job {job} is running: without a claim its outputs are in the pods and gone when these end; "
            "submit with --output-claim NAME to keep them in a PersistentVolumeClaim"
        )
    for pod in pods:
        if pod not in running:
            session.warn(f"note: pod {key_of(pod)} is not running: its outputs are not copied")
    files: list[int] = []
    for pod in running:
        place = directory / key_of(pod).name
        files += await _copy(session, key_of(pod), pod["spec"]["containers"][0]["name"], place)
    return files


async def _copy(session: Session, pod: Key, container: str, directory: Path) -> list[int]:
    """Returns the sizes of the files."""
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as received:
        try:
            await execute(session.client, pod, container, ARCHIVE, received.write)
        except ExecFailed as error:
            raise CommandError(str(error)) from None
        received.seek(0)
        return extract(received, directory)


def extract(received: IO[bytes], directory: Path) -> list[int]:
    """Unpacks an archive from a pod, which cannot write outside of the directory; returns the sizes of the files."""
    try:
        with tarfile.open(fileobj=received, mode="r:") as archive:
            entries = archive.getmembers()
            archive.extractall(directory, entries, filter="data")
    except tarfile.TarError as error:
        raise CommandError(f"the outputs were rejected: {error}") from None
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


async def _wait_until_running(session: Session, key: Key) -> None:
    status: Manifest = {}
    for _ in range(WAIT_POLLS):
        status = (await session.client.get(POD, key)).get("status") or {}
        if status.get("phase") == "Running":
            return
        if status.get("phase") in ("Succeeded", "Failed"):
            break
        await session.clock.sleep(WAIT_POLL)
    raise CommandError(f"pod {key}, which reads the outputs, did not start: {_reason(status)}")


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
