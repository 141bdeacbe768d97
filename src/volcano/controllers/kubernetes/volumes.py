"""Volume controller: binds or provisions volumes for claims, and creates the claims of ephemeral volumes."""

from collections.abc import Iterable

from volcano.clock import Instant
from volcano.kube.client import Event, EventType, Options
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, Kind
from volcano.kube.manifest import (
    Key,
    Manifest,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
)
from volcano.kube.names import HOST_DIRECTORY
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.kube.quantity import parse
from volcano.kube.selectors import from_object

PROVISIONER = "volcano.sh/local"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


class VolumeController(Reconciler[tuple[Kind, Key]]):
    """Binds claims to the smallest volume that fits, or provisions one where the class is ours.

    Provisioned volumes are directories below `host_directory`. The kubelet creates them, and removes them
    before the volume is deleted (see its finalizer).
    """

    name = "volumes"
    watches = (Watch(PERSISTENT_VOLUME_CLAIM), Watch(PERSISTENT_VOLUME), Watch(STORAGE_CLASS), Watch(POD))

    def __init__(self, *, host_directory: str = "/tmp/volcano-volumes") -> None:
        super().__init__()
        self._directory = host_directory
        self.indexer.add_index(POD, "claim", _claims_of)
        self.indexer.add_index(
            PERSISTENT_VOLUME_CLAIM, "unbound", lambda c: () if c["spec"].get("volumeName") else (True,)
        )

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or _has_claims(event.object)

    def keys(self, event: Event) -> Iterable[tuple[Kind, Key]]:
        manifest, own = event.object, (event.kind, event.object_key())
        if event.kind == PERSISTENT_VOLUME_CLAIM:
            volume = manifest["spec"].get("volumeName")
            is_deleted = event.type is EventType.DELETED
            pods = self.indexer.by_index(POD, "claim", own[1]) if is_deleted else ()
            volumes = [(PERSISTENT_VOLUME, Key("", volume))] if volume else []
            return [own, *volumes, *((POD, key_of(pod)) for pod in pods)]
        if event.kind != POD:
            unbound = self.indexer.by_index(PERSISTENT_VOLUME_CLAIM, "unbound", True)
            waiting = [(PERSISTENT_VOLUME_CLAIM, key_of(claim)) for claim in unbound]
            return [own, *waiting] if event.kind == PERSISTENT_VOLUME else waiting
        claims = _claims_of(manifest) if manifest["spec"].get("nodeName") else ()
        placed = [(PERSISTENT_VOLUME_CLAIM, key) for key in claims]
        return [*placed, own] if _templates_of(manifest) else placed

    def reconcile(self, key: tuple[Kind, Key], now: Instant) -> Plan:
        kind, object_key = key
        manifest = self.indexer.get(kind, object_key)
        if manifest is None or is_deleting(manifest):
            return NOTHING
        writes = {PERSISTENT_VOLUME_CLAIM: self._claim, PERSISTENT_VOLUME: self._volume, POD: self._ephemeral}
        return Plan(list(writes[kind](manifest)))

    def _ephemeral(self, pod: Manifest) -> Iterable[Operation]:
        """Creates a claim for each ephemeral volume of a pod; an existing claim of that name is left
        unchanged."""
        for key, template in _templates_of(pod).items():
            if self.indexer.get(PERSISTENT_VOLUME_CLAIM, key) is None:
                metadata = {
                    name: value
                    for name, value in (template.get("metadata") or {}).items()
                    if name in ("labels", "annotations")
                }
                owner = owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})
                yield Create(
                    PERSISTENT_VOLUME_CLAIM,
                    {
                        "apiVersion": "v1",
                        "kind": PERSISTENT_VOLUME_CLAIM.kind,
                        "metadata": {**metadata, **key._asdict(), "ownerReferences": [owner]},
                        "spec": template["spec"],
                    },
                )

    def _claim(self, claim: Manifest) -> Iterable[Operation]:
        if claim["spec"].get("volumeName"):
            volume = self.indexer.get(PERSISTENT_VOLUME, Key("", claim["spec"]["volumeName"]))
            if volume is not None and _bound_to(volume, claim):
                yield from _report_bound(claim, volume)
            return
        storage_class = self._class_of(claim)
        name = claim["spec"].get("storageClassName", key_of(storage_class).name if storage_class else "")
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        node = annotations_of(claim).get(SELECTED_NODE) or self._node_of_pod(claim)
        if waits and not node:
            return
        volume = self._existing(claim, name)
        if volume is None and storage_class is not None and storage_class.get("provisioner") == PROVISIONER:
            volume = self._provisioned(claim, storage_class)
            yield Create(PERSISTENT_VOLUME, volume)
        elif volume is not None and not volume["spec"].get("claimRef"):
            yield Patch(PERSISTENT_VOLUME, key_of(volume), {"spec": {"claimRef": _reference(claim)}})
        if volume is not None:
            notes = {BIND_COMPLETED: "yes", BOUND_BY_US: "yes"}
            patch = {
                "metadata": {"annotations": notes},
                "spec": {"volumeName": key_of(volume).name, "storageClassName": name},
            }
            yield Patch(PERSISTENT_VOLUME_CLAIM, key_of(claim), patch)
            yield from _report_bound(claim, volume)

    def _volume(self, volume: Manifest) -> Iterable[Operation]:
        reference = volume["spec"].get("claimRef")
        phase = (volume.get("status") or {}).get("phase")
        if reference is None:
            wanted = "Available"
        else:
            claim = self.indexer.get(
                PERSISTENT_VOLUME_CLAIM, Key(reference.get("namespace", ""), reference.get("name", ""))
            )
            released = claim is None or (reference.get("uid") and uid_of(claim) != reference["uid"])
            if released and phase == "Bound":
                policy = volume["spec"].get("persistentVolumeReclaimPolicy", "Retain")
                provisioned = policy == "Delete" and annotations_of(volume).get(PROVISIONED_BY) == PROVISIONER
                if provisioned or HOST_DIRECTORY in annotations_of(volume):
                    yield Delete(PERSISTENT_VOLUME, key_of(volume), Options(uid=uid_of(volume)))
                    return
                wanted = "Released"
            else:
                wanted = phase or "Available" if released else "Bound"
        if phase != wanted:
            yield Patch(PERSISTENT_VOLUME, key_of(volume), {"status": {"phase": wanted}}, "status")

    def _class_of(self, claim: Manifest) -> Manifest | None:
        name = claim["spec"].get("storageClassName")
        if name is not None:
            return self.indexer.get(STORAGE_CLASS, Key("", name)) if name else None
        marked = (
            c for c in self.indexer.all(STORAGE_CLASS) if annotations_of(c).get(DEFAULT_CLASS) == "true"
        )
        return next(marked, None)

    def _node_of_pod(self, claim: Manifest) -> str:
        for pod in self.indexer.by_index(POD, "claim", key_of(claim)):
            if pod["spec"].get("nodeName"):
                return str(pod["spec"]["nodeName"])
        return ""

    def _existing(self, claim: Manifest, class_name: str) -> Manifest | None:
        """The volume meant for this claim, else the smallest free one that satisfies it."""
        wanted = parse(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", 0))
        selector = from_object(claim["spec"]["selector"]) if claim["spec"].get("selector") else None
        fitting = []
        for volume in self.indexer.all(PERSISTENT_VOLUME):
            if is_deleting(volume):
                continue
            if volume["spec"].get("claimRef"):
                if _bound_to(volume, claim):
                    return volume
                continue
            spec = volume["spec"]
            fits = (
                spec.get("storageClassName", "") == class_name
                and parse((spec.get("capacity") or {}).get("storage", 0)) >= wanted
                and set(claim["spec"].get("accessModes") or ()) <= set(spec.get("accessModes") or ())
                and (selector is None or selector.matches(labels_of(volume)))
            )
            if fits:
                fitting.append(volume)
        return min(fitting, key=lambda v: parse(v["spec"]["capacity"]["storage"]), default=None)

    def _provisioned(self, claim: Manifest, storage_class: Manifest) -> Manifest:
        name = f"pvc-{uid_of(claim)}"
        storage = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
        return {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUME.kind,
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
            "spec": {
                "capacity": {"storage": storage},
                "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": key_of(storage_class).name,
                "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
                "claimRef": _reference(claim),
                "hostPath": {"path": f"{self._directory}/{name}", "type": "DirectoryOrCreate"},
            },
        }


def _has_claims(pod: Manifest) -> bool:
    """Whether `_claims_of` finds any; called for every pod, most of which have none."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral"):
            return True
    return False


def _claims_of(pod: Manifest) -> list[Key]:
    namespace = pod["metadata"]["namespace"]
    named = [
        Key(namespace, volume["persistentVolumeClaim"]["claimName"])
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    ]
    return [*named, *_templates_of(pod)]


def _templates_of(pod: Manifest) -> dict[Key, Manifest]:
    """The claims of a pod's ephemeral volumes, named after both, and their templates."""
    namespace, name = key_of(pod)
    return {
        Key(namespace, f"{name}-{volume['name']}"): volume["ephemeral"]["volumeClaimTemplate"]
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("ephemeral")
    }


def _reference(claim: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "namespace": key_of(claim).namespace,
        "name": key_of(claim).name,
        "uid": uid_of(claim),
    }


def _bound_to(volume: Manifest, claim: Manifest) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    named = (reference.get("namespace"), reference.get("name")) == tuple(key_of(claim))
    return named and reference.get("uid") in (None, "", uid_of(claim))


def _report_bound(claim: Manifest, volume: Manifest) -> Iterable[Operation]:
    modes, capacity = volume["spec"].get("accessModes"), volume["spec"].get("capacity")
    status = {"phase": "Bound", "accessModes": modes, "capacity": capacity}
    known = claim.get("status") or {}
    if any(known.get(name) != value for name, value in status.items()):
        yield Patch(PERSISTENT_VOLUME_CLAIM, key_of(claim), {"status": status}, "status")
