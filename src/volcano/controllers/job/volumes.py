"""Volumes of a job: claims created for it, their names in its spec, and their mounts in its pods."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from volcano.controllers.job.spec import Job
from volcano.kube.api.kinds import JOB, PERSISTENT_VOLUME_CLAIM
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.operations import Patch

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST_PREFIX = 50


def claim_name(job: Job, position: int) -> str:
    """The name of a volume's claim: the given one, or a deterministic one for a claim to be created."""
    named = job.volumes[position].claim_name
    return named or f"{job.name}-pvc-{_letters(job.uid, 'claim', str(position))}"


def claim(job: Job, position: int) -> Manifest | None:
    """The claim to create for a volume, if it describes one."""
    spec = job.volumes[position].claim
    if spec is None:
        return None
    return {
        "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "metadata": {
            "namespace": job.namespace,
            "name": claim_name(job, position),
            "labels": {JOB_NAME: job.name},
            "ownerReferences": [job.owner_reference()],
        },
        "spec": dict(spec),
    }


def fill_in(manifest: Manifest, job: Job) -> Patch | None:
    """The patch that writes the names of created claims to the job's spec; None when all are there."""
    if all(volume.claim_name or volume.claim is None for volume in job.volumes):
        return None
    volumes = [dict(volume) for volume in manifest["spec"].get("volumes") or ()]
    for position, volume in enumerate(volumes):
        if job.volumes[position].claim is not None:
            volume["volumeClaimName"] = claim_name(job, position)
    metadata = {"resourceVersion": manifest["metadata"].get("resourceVersion", "")}
    return Patch(JOB, job.key, {"metadata": metadata, "spec": {"volumes": volumes}})


def mount(spec: Manifest, job: Job) -> None:
    """Adds the job's claims to a pod's volumes and main containers; a claim named twice is added once."""
    for name, path in dict(_mounts(job)).items():
        volume = f"{job.name[:_LONGEST_PREFIX].rstrip('-.')}-{_letters(job.uid, 'volume', name)}"
        spec.setdefault("volumes", []).append({"name": volume, "persistentVolumeClaim": {"claimName": name}})
        for container in spec.get("containers") or ():
            container.setdefault("volumeMounts", []).append({"name": volume, "mountPath": path})


def marks(job: Job, present: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """`controlledResources` of the status for existing claims."""
    for position in range(len(job.volumes)):
        name = claim_name(job, position)
        if name in present:
            yield f"volume-pvc-{name}", name


def _mounts(job: Job) -> Iterator[tuple[str, str]]:
    known: set[str] = set()
    for position, volume in enumerate(job.volumes):
        name = claim_name(job, position)
        if name not in known:
            known.add(name)
            yield name, volume.path


def _letters(*parts: str) -> str:
    """Twelve letters and digits derived from the parts."""
    number = int.from_bytes(sha256("\0".join(parts).encode()).digest()[:10], "big")
    letters = []
    for _ in range(12):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)
