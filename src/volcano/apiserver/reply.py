"""What a verb answers: an encoded object, and what has to be said beside it."""

from dataclasses import dataclass

import orjson

from volcano.kube.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Reply:
    """An encoded object. `created` asks for 201 instead of 200; warnings go into headers."""

    data: bytes
    created: bool = False
    warnings: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """The object, decoded; the caller's own."""
        manifest: Manifest = orjson.loads(self.data)
        return manifest


def success(*, created: bool = False) -> Reply:
    """A bare `Status` of success, as posts to `binding` and `eviction` answer."""
    status: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if created:
        status["code"] = 201
    return Reply(orjson.dumps(status), created=created)
