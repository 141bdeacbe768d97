"""The metadata of custom resources: decoded like that of built-in kinds, whatever their schema says."""

from volcano.kube import facts
from volcano.kube.errors import BadRequest
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest

_TYPE = "meta.v1.ObjectMeta"


def prune_metadata(kind: Kind, manifest: Manifest) -> None:
    """Drops unknown fields; raises BadRequest when a field of the metadata has the wrong type."""
    type_ = facts.named(_TYPE)
    found = facts.inspect(type_, manifest["metadata"])
    if found.wrong:
        raise BadRequest(f"error decoding metadata of {kind.kind}: {found.wrong[0]}")
    if found.unknown:
        facts.prune(type_, manifest["metadata"])


def unknown_metadata(manifest: Manifest) -> list[str]:
    """The paths of the metadata's unknown fields."""
    found = facts.inspect(facts.named(_TYPE), manifest["metadata"])
    return [f"metadata.{text.split(chr(34))[1]}" for text in found.unknown]
