"""What a verb answers: an encoded object, and what has to be said beside it."""

import msgspec
import orjson

from volcano.kube.manifest import Manifest


class Reply(msgspec.Struct, frozen=True):  # made for every write, which a dataclass is slow at
    """An encoded object. `created` asks for 201 instead of 200; warnings go into headers."""

    data: bytes
    created: bool = False
    warnings: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """The object, decoded; the caller's own."""
        manifest: Manifest = orjson.loads(self.data)
        return manifest

    def warning(self, warnings: tuple[str, ...]) -> "Reply":
        """The same, with something to be said beside it."""
        return Reply(self.data, self.created, warnings) if warnings else self


_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_DONE = Reply(orjson.dumps(_SUCCESS))
_CREATED = Reply(orjson.dumps({**_SUCCESS, "code": 201}), created=True)


def success(*, created: bool = False) -> Reply:
    """A bare `Status` of success, as posts to `binding` and `eviction` answer."""
    return _CREATED if created else _DONE
