"""Results of the verbs: an encoded object and warnings."""

import msgspec
import orjson

from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry.deletion import ANSWERED_WITH_OBJECT
from volcano.apiserver.registry.kind_table import reader
from volcano.kube.api.manifest import Manifest


class Reply(msgspec.Struct, frozen=True):  # created for every write, for which a dataclass is slow
    """An encoded object. `created` means status 201 instead of 200; warnings are sent as headers."""

    data: bytes
    created: bool = False
    warnings: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """A new decoded copy."""
        manifest: Manifest = orjson.loads(self.data)
        return manifest

    def warning(self, warnings: tuple[str, ...]) -> "Reply":
        """The same with warnings."""
        return Reply(self.data, self.created, warnings) if warnings else self


def reply_of(served: Served, data: bytes, *, created: bool = False) -> Reply:
    """A stored object in the version it is served in."""
    convert = reader(served)
    return Reply(data if convert is None else convert(data), created=created)


def deletion_reply(served: Served, manifest: Manifest, data: bytes, *, removed: bool) -> Reply:
    """The answer to a DELETE: the object while it is being deleted, a Status once it is removed."""
    if not removed or served.storage.resource in ANSWERED_WITH_OBJECT:
        return reply_of(served, data)
    metadata = manifest["metadata"]
    details = {"name": metadata["name"], "kind": served.kind.plural, "uid": metadata["uid"]}
    if served.kind.group:
        details["group"] = served.kind.group
    return Reply(orjson.dumps({**_SUCCESS, "details": details}))


_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_DONE = Reply(orjson.dumps(_SUCCESS))
_CREATED = Reply(orjson.dumps({**_SUCCESS, "code": 201}), created=True)


def success(*, created: bool = False) -> Reply:
    """A bare `Status` of success, the result of posts to `binding` and `eviction`."""
    return _CREATED if created else _DONE
