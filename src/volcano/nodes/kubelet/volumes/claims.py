"""Claims: which volume of the cluster is behind one, and where on this host that is."""

import os
from collections.abc import Iterable
from pathlib import Path

from volcano.kube.manifest import Manifest, annotations_of, controller_of, is_deleting, key_of, uid_of
from volcano.nodes.kubelet.environment.references import References, claim_name
from volcano.nodes.kubelet.volumes.hostpaths import provide
from volcano.nodes.kubelet.volumes.payload import CannotMount

_OVER = ("Succeeded", "Failed")
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
OURS = "volcano.sh/local"
PROTECTION = "kubernetes.io/pvc-protection"
# Says that a volume has a directory here, which goes before the volume does.
FINALIZER = "volcano.sh/local-directory"


def volume_behind(pod: Manifest, volume: Manifest, references: References) -> Manifest:
    """The PersistentVolume that a pod's volume comes to. Raises while it has none."""
    name = claim_name(pod, volume)
    claim = references.claims.get(name)
    where = f"error processing PVC {key_of(pod).namespace}/{name}"
    if claim is None:
        raise CannotMount(f'{where}: persistentvolumeclaims "{name}" not found')
    if volume.get("ephemeral") and (controller_of(claim) or {}).get("uid") != uid_of(pod):
        raise CannotMount(f"{where}: the claim was not created for pod {key_of(pod)} (pod is not owner)")
    if is_deleting(claim) and PROTECTION not in (claim["metadata"].get("finalizers") or ()):
        raise CannotMount(f"{where}: PVC is being deleted")
    found = claim["spec"].get("volumeName")
    if not found or (claim.get("status") or {}).get("phase") != "Bound":
        raise CannotMount(f"{where}: PVC is not bound")
    persistent = references.volumes.get(found)
    if persistent is None:
        raise CannotMount(f'{where}: persistentvolumes "{found}" not found')
    owner = (persistent["spec"].get("claimRef") or {}).get("uid")
    if owner != uid_of(claim):
        raise CannotMount(f"{where}: volume {found} is bound to another claim ({owner})")
    if persistent["spec"].get("volumeMode") == "Block":
        raise CannotMount(f"volume {found} is a block device; only volumeMode Filesystem is supported here")
    return persistent


def path_of(persistent: Manifest) -> str:
    """Where a volume is, provided or checked. Volumes of our own class are directories anybody may write to."""
    spec, name = persistent["spec"], key_of(persistent).name
    if host := spec.get("hostPath"):
        if is_ours(persistent):
            _make_ours(Path(host["path"]))
        provide(host["path"], host.get("type") or "")
        return str(host["path"])
    if local := spec.get("local"):
        if not os.path.exists(local["path"]):
            raise CannotMount(f'path "{local["path"]}" does not exist')
        return str(local["path"])
    kinds = ", ".join(
        sorted(key for key, value in spec.items() if isinstance(value, dict) and key in _FOREIGN)
    )
    raise CannotMount(
        f"volume {name} is of a kind that is not supported on this node ({kinds or 'unknown'}); use one with hostPath "
        "or local, or the StorageClass local"
    )


def is_ours(persistent: Manifest) -> bool:
    """Whether a volume is of the StorageClass of `volcano up`: its directory is ours to make and to remove."""
    return annotations_of(persistent).get(PROVISIONED_BY) == OURS


def used_by(pods: Iterable[Manifest], persistent: Manifest) -> bool:
    """Whether one of these pods has a volume and is not over."""
    reference = persistent["spec"].get("claimRef") or {}
    return any(
        key_of(pod).namespace == reference.get("namespace")
        and (pod.get("status") or {}).get("phase") not in _OVER
        and any(
            claim_name(pod, volume) == reference.get("name") for volume in pod["spec"].get("volumes") or ()
        )
        for pod in pods
    )


def _make_ours(path: Path) -> None:
    if not path.is_dir():
        path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        path.mkdir(exist_ok=True)
        path.chmod(0o777)


_FOREIGN = frozenset((
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
    "gcePersistentDisk", "glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd",
    "scaleIO", "storageos", "vsphereVolume",
))  # fmt: skip
