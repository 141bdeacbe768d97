"""Decoding as a real server does it: nulls are absent fields, and metadata is the same for every kind."""

from volcano.apiserver.wellformed import well_formed
from volcano.kube import facts
from volcano.kube.errors import BadRequest
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest

_TYPE = "meta.v1.ObjectMeta"
_fine = well_formed(_TYPE)


def prune_metadata(kind: Kind, manifest: Manifest) -> None:
    """Drops unknown fields; raises BadRequest when a field of the metadata has the wrong type."""
    if _fine(manifest["metadata"]):
        return
    type_ = facts.named(_TYPE)
    found = facts.inspect(type_, manifest["metadata"])
    if found.wrong:
        raise BadRequest(f"error decoding metadata of {kind.kind}: {found.wrong[0]}")
    if found.unknown:
        facts.prune(type_, manifest["metadata"])
    drop_nulls(manifest["metadata"])


def unknown_metadata(manifest: Manifest) -> list[str]:
    """The paths of the metadata's unknown fields."""
    if _fine(manifest["metadata"]):
        return []
    found = facts.inspect(facts.named(_TYPE), manifest["metadata"])
    return [f"metadata.{text.split(chr(34))[1]}" for text in found.unknown]


def drop_nulls(holder: Manifest, foreign: str = "") -> None:
    """Takes a null field for an absent one, everywhere but in the field `foreign`, which holds JSON of others."""
    nulls = [key for key, value in holder.items() if value is None]
    for key in nulls:
        del holder[key]
    for key, value in holder.items():
        if value.__class__ is dict:
            if key != foreign:
                drop_nulls(value, foreign)
        elif value.__class__ is list:
            if None in value:
                value[:] = [each for each in value if each is not None]
            for each in value:
                if each.__class__ is dict:
                    drop_nulls(each, foreign)
