"""Admission of volume claims: those without a storage class get the default one."""

from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Manifest, annotations_of

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@admission_plugin(kinds.PERSISTENT_VOLUME_CLAIM)
async def admit_claim(
    attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Sets the default storage class of a new claim: the newest, if there are several. An empty name means no
    class."""
    if attributes.kind != kinds.PERSISTENT_VOLUME_CLAIM or new is None or old is not None:
        return new
    if new["spec"].get("storageClassName") is not None:
        return new
    classes = [
        each for each in lookup.all(kinds.STORAGE_CLASS) if annotations_of(each).get(DEFAULT_CLASS) == "true"
    ]
    if classes:
        newest = max(classes, key=lambda each: (each["metadata"].get("creationTimestamp") or "", _name(each)))
        new["spec"]["storageClassName"] = _name(newest)
    return new


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
