"""OpenAPI v2 endpoint: /openapi/v2 as JSON or protobuf, built in a thread when requested, cached until kinds change."""

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Iterable

import orjson

from volcano.apiserver.endpoints.discovery import verbs_of
from volcano.apiserver.endpoints.negotiation import clauses
from volcano.apiserver.schema.openapi import DescribedKind, VirtualKind, document_hash
from volcano.apiserver.schema.openapi_v2 import document
from volcano.apiserver.schema.openapi_v2_protobuf import encode
from volcano.base.http.messages import Request, Response
from volcano.kube.api.kinds import VIRTUAL

PATH = "/openapi/v2"
_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for, and the media type that they get.
_SERVED = {
    _JSON: _JSON,
    "application/*": _JSON,
    "*/*": _JSON,
    _PROTOBUF: _PROTOBUF,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
}


class OpenApiV2:
    """Handles /openapi/v2."""

    def __init__(self, served: Callable[[], Iterable[DescribedKind]], generation: Callable[[], int]) -> None:
        self._served = served
        self._generation = generation
        self._built_generation = -1
        self._tag = ""
        self._bodies: dict[str, bytes] = {}  # gzipped, by media type
        self._building = asyncio.Lock()

    async def __call__(self, request: Request) -> Response:
        media_type = _media_type(request.headers.get("accept", ""))
        if media_type is None:
            return Response(406, {"Vary": "Accept"})
        packed, tag = await self._body(media_type)
        headers = {"Content-Type": media_type, "Vary": "Accept, Accept-Encoding", "ETag": f'"{tag}"'}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(304, headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(200, {**headers, "Content-Encoding": "gzip"}, packed)
        return Response(200, headers, await asyncio.to_thread(gzip.decompress, packed))

    async def _body(self, media_type: str) -> tuple[bytes, str]:
        """The gzipped document and its hash. Concurrent requests wait for one build."""
        async with self._building:
            if self._built_generation != self._generation():
                self._bodies.clear()
                self._built_generation = self._generation()
                self._tag = ""
            if media_type not in self._bodies:
                described = [*self._served(), *map(VirtualKind, VIRTUAL)]
                self._tag, self._bodies[media_type] = await asyncio.to_thread(_build, described, media_type)
            return self._bodies[media_type], self._tag


def _build(described: list[DescribedKind], media_type: str) -> tuple[str, bytes]:
    found = document(described, verbs_of)
    body = orjson.dumps(found) if media_type == _JSON else encode(found)
    tag = hashlib.sha512(document_hash(described).encode()).hexdigest().upper()
    return tag, gzip.compress(body, 6, mtime=0)


def _media_type(accept: str) -> str | None:
    if not accept:
        return _JSON
    return next((_SERVED[each] for each, _ in clauses(accept) if each in _SERVED), None)
