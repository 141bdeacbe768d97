"""Files of a submission in its pods: host directories, an uploaded archive, and the directory for outputs.

Directories of this machine are PersistentVolumes, which only an administrator of the cluster may create;
pods use them through claims, which Pod Security permits at every level. Everything else is in the job's namespace. All
of it belongs to the job and is deleted with it.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SELF_SUBJECT_ACCESS_REVIEW,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, key_of, owner_reference, uid_of
from volcano.kube.api.names import HOST_DIRECTORY, JOB_NAME
from volcano.kube.client.protocol import Client, Options
from volcano.services.submit.working_directory import HostDirectory

OUTPUT_VARIABLE = "VOLCANO_OUTPUT"
OUTPUT_PATH = "/volcano/output"
OUTPUT_VOLUME = "volcano-output"
UPLOAD_PATH, UPLOAD_VOLUME = "/volcano/upload", "volcano-upload"
WORKSPACE, WORKSPACE_VOLUME = "/workspace", "volcano-workspace"
ARCHIVE = "archive"  # key of the Secrets
_OUTPUT_REQUEST = "10Gi"  # of the claim; local volumes are not limited
_FROM_POD = {
    "VOLCANO_POD_NAME": "metadata.name",
    "VOLCANO_JOB_NAME": f"metadata.labels['{JOB_NAME}']",
}
_OUTPUT_DIRECTORY = "$(VOLCANO_JOB_NAME)/$(VOLCANO_POD_NAME)"
_UNPACK = f"cat {UPLOAD_PATH}/* | tar -xzf - -C {WORKSPACE}"


@dataclass(frozen=True, slots=True)
class PodFiles:
    """Files and variables of every pod of a submission; `prefix` begins the names of the objects they need."""

    prefix: str = ""
    working_directory: str = ""
    directories: Sequence[HostDirectory] = ()
    archive: Sequence[bytes] = ()  # parts of a compressed tar file
    output_claim: str = ""  # claim for outputs; without one they are in the pods
    create_output_claim: bool = False
    has_output: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    def claim_of(self, number: int) -> str:
        return f"{self.prefix}-directory-{number}"

    def part_name(self, number: int) -> str:
        return f"{self.prefix}-upload-{number}"


NO_FILES = PodFiles()


def add_files(files: PodFiles, pod_spec: Manifest, image: str) -> None:
    """Adds volumes, mounts, variables and the working directory to a pod spec with one container."""
    container = pod_spec["containers"][0]
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    variables: list[Manifest] = [{"name": name, "value": value} for name, value in files.variables.items()]
    for number, directory in enumerate(files.directories):
        volumes.append(_claim_volume(f"directory-{number}", files.claim_of(number)))
        mounts.append(
            {"name": f"directory-{number}", "mountPath": directory.path, "readOnly": directory.read_only}
        )
    if files.archive:
        sources = [
            {"secret": {"name": files.part_name(number), "items": [{"key": ARCHIVE, "path": f"{number:04}"}]}}
            for number in range(len(files.archive))
        ]
        volumes.append({"name": UPLOAD_VOLUME, "projected": {"sources": sources}})
        volumes.append({"name": WORKSPACE_VOLUME, "emptyDir": {}})
        workspace = {"name": WORKSPACE_VOLUME, "mountPath": WORKSPACE}
        mounts.append(workspace)
        pod_spec["initContainers"] = [
            {
                "name": "unpack",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", _UNPACK],
                "volumeMounts": [
                    {"name": UPLOAD_VOLUME, "mountPath": UPLOAD_PATH, "readOnly": True},
                    workspace,
                ],
            }
        ]
    if files.has_output:
        volumes.append(
            _claim_volume(OUTPUT_VOLUME, files.output_claim)
            if files.output_claim
            else {"name": OUTPUT_VOLUME, "emptyDir": {}}
        )
        mounts.append({"name": OUTPUT_VOLUME, "mountPath": OUTPUT_PATH, "subPathExpr": _OUTPUT_DIRECTORY})
        variables += [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _FROM_POD.items()
        ]
        variables.append({"name": OUTPUT_VARIABLE, "value": OUTPUT_PATH})
    if volumes:
        pod_spec["volumes"] = volumes
        container["volumeMounts"] = mounts
    if files.working_directory:
        container["workingDir"] = files.working_directory
    given = {variable["name"] for variable in container.get("env") or ()}
    if own := [variable for variable in variables if variable["name"] not in given]:
        container["env"] = [*own, *(container.get("env") or ())]


async def may_mount_directories(client: Client) -> bool:
    """Whether the user may create PersistentVolumes, as the administrator of a cluster may."""
    attributes = {"verb": "create", "resource": PERSISTENT_VOLUME.plural, "group": ""}
    review = {
        "apiVersion": SELF_SUBJECT_ACCESS_REVIEW.api_version,
        "kind": SELF_SUBJECT_ACCESS_REVIEW.kind,
        "metadata": {"name": ""},
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await client.create(SELF_SUBJECT_ACCESS_REVIEW, review)
    except ApiError:
        return False
    return bool((answer.get("status") or {}).get("allowed"))


class FileObjects:
    """Objects that the files of one job need: created before it, and owned by it afterwards.

    Use as an async context manager.
    """

    def __init__(
        self, client: Client, files: PodFiles, namespace: str, on_note: Callable[[str], None]
    ) -> None:
        self._client = client
        self._on_note = on_note
        self._files = files
        self._namespace = namespace
        self._created: list[tuple[Kind, Manifest]] = []
        self._owned = False

    async def __aenter__(self) -> "FileObjects":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Removes them, unless they have an owner: the job was rejected, or some of them were."""
        if not self._owned:
            await self._remove()

    async def create(self) -> None:
        files = self._files
        for number, part in enumerate(files.archive):
            await self._create(SECRET, _secret(self._key(files.part_name(number)), part))
        for number, directory in enumerate(files.directories):
            claim = _claim(self._key(files.claim_of(number)), storage_class="", storage="1Gi")
            claim = await self._create(PERSISTENT_VOLUME_CLAIM, claim)
            await self._create(PERSISTENT_VOLUME, _host_volume(directory, claim))
        if files.create_output_claim:
            claim = _claim(self._key(files.output_claim), storage_class=None, storage=_OUTPUT_REQUEST)
            await self._create(PERSISTENT_VOLUME_CLAIM, claim)

    async def set_owner(self, job: Manifest) -> None:
        """Makes the job their owner, so that they are deleted with it; volumes are deleted with their claims."""
        self._owned = True
        patch = {"metadata": {"ownerReferences": [{**owner_reference(job), "controller": False}]}}
        for kind, created in self._created:
            if kind.namespaced:
                await self._client.patch(kind, key_of(created), patch)

    async def _remove(self) -> None:
        for kind, created in reversed(self._created):
            try:
                await self._client.delete(kind, key_of(created), options=Options(uid=uid_of(created)))
            except ApiError as error:
                self._on_note(f"{kind.singular} {key_of(created)} was not removed: {error.message}")

    def _key(self, name: str) -> Key:
        return Key(self._namespace, name)

    async def _create(self, kind: Kind, manifest: Manifest) -> Manifest:
        created = await self._client.create(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        )
        self._created.append((kind, created))
        return created


def _claim_volume(name: str, claim: str) -> Manifest:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _secret(key: Key, part: bytes) -> Manifest:
    return {"metadata": key._asdict(), "data": {ARCHIVE: base64.b64encode(part).decode()}, "immutable": True}


def _claim(key: Key, *, storage_class: str | None, storage: str) -> Manifest:
    spec: Manifest = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": storage}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"metadata": key._asdict(), "spec": spec}


def _host_volume(directory: HostDirectory, claim: Manifest) -> Manifest:
    """A volume of one directory, for one claim. Retain: the directory is never removed."""
    reference = {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        **key_of(claim)._asdict(),
        "uid": uid_of(claim),
    }
    return {
        "metadata": {
            "name": f"directory-{uid_of(claim)}",
            "annotations": {HOST_DIRECTORY: "true"},
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": reference,
            "hostPath": {"path": directory.path, "type": "Directory"},
        },
    }
