"""PersistentVolumeClaims: the volume bound to a claim, and its path on this host."""

import os
from collections.abc import Iterable
from pathlib import Path

from volcano.kube.api.manifest import (
    Manifest,
    annotations_of,
    controller_of,
    has_ended,
    is_deleting,
    key_of,
    uid_of,
)
from volcano.nodes.kubelet.environment.references import References, claim_name
from volcano.nodes.kubelet.volumes.hostpaths import ensure_host_path
from volcano.nodes.kubelet.volumes.payload import MountError

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
LOCAL_PROVISIONER = "volcano.sh/local"
PROTECTION = "kubernetes.io/pvc-protection"
# Marks a volume that has a directory on this host, which is removed before the volume.
FINALIZER = "volcano.sh/local-directory"


def bound_volume(pod: Manifest, volume: Manifest, references: References) -> Manifest:
    """The PersistentVolume of a pod's volume. Raises while the claim is not bound."""
    name = claim_name(pod, volume)
    claim = references.claims.get(name)
    where = f"error processing PVC {key_of(pod).namespace}/{name}"
    if claim is None:
        raise MountError(f'{where}: persistentvolumeclaims "{name}" not found')
    if volume.get("ephemeral") and (controller_of(claim) or {}).get("uid") != uid_of(pod):
        raise MountError(f"{where}: the claim was not created for pod {key_of(pod)} (pod is not owner)")
    if is_deleting(claim) and PROTECTION not in (claim["metadata"].get("finalizers") or ()):
        raise MountError(f"{where}: PVC is being deleted")
    found = claim["spec"].get("volumeName")
    if not found or (claim.get("status") or {}).get("phase") != "Bound":
        raise MountError(f"{where}: PVC is not bound")
    persistent = references.volumes.get(found)
    if persistent is None:
        raise MountError(f'{where}: persistentvolumes "{found}" not found')
    owner = (persistent["spec"].get("claimRef") or {}).get("uid")
    if owner != uid_of(claim):
        raise MountError(f"{where}: volume {found} is bound to another claim ({owner})")
    if persistent["spec"].get("volumeMode") == "Block":
        raise MountError(f"volume {found} is a block device; only volumeMode Filesystem is supported here")
    return persistent


def local_path(persistent: Manifest) -> str:
    """The path of a volume, created or checked. Volumes of the local StorageClass are writable by any user."""
    spec, name = persistent["spec"], key_of(persistent).name
    if host := spec.get("hostPath"):
        if is_local_volume(persistent):
            _make_local_directory(Path(host["path"]))
        ensure_host_path(host["path"], host.get("type") or "")
        return str(host["path"])
    if local := spec.get("local"):
        if not os.path.exists(local["path"]):
            raise MountError(f'path "{local["path"]}" does not exist')
        return str(local["path"])
    kinds = ", ".join(
        sorted(key for key, value in spec.items() if isinstance(value, dict) and key in _UNSUPPORTED_SOURCES)
    )
    raise MountError(
        f"volume {name} is of a kind that is not supported on this node ({kinds or 'unknown'}); use one with hostPath "
        "or local, or the StorageClass local"
    )


def is_local_volume(persistent: Manifest) -> bool:
    """Whether a volume is of the StorageClass of `volcano up`: its directory is managed here."""
    return annotations_of(persistent).get(PROVISIONED_BY) == LOCAL_PROVISIONER


def is_in_use(pods: Iterable[Manifest], persistent: Manifest) -> bool:
    """Whether a pod that has not ended uses a volume."""
    reference = persistent["spec"].get("claimRef") or {}
    return any(
        key_of(pod).namespace == reference.get("namespace")
        and not has_ended(pod)
        and any(
            claim_name(pod, volume) == reference.get("name") for volume in pod["spec"].get("volumes") or ()
        )
        for pod in pods
    )


def _make_local_directory(path: Path) -> None:
    if not path.is_dir():
        path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        path.mkdir(exist_ok=True)
        path.chmod(0o777)


_UNSUPPORTED_SOURCES = frozenset((
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
    "gcePersistentDisk", "glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd",
    "scaleIO", "storageos", "vsphereVolume",
))  # fmt: skip
