"""Answers in the shape the client asked for: whole objects, tables or metadata, as JSON or YAML."""

from collections.abc import Iterable
from typing import Any

import orjson
import yaml

from volcano.apiserver.endpoints.serialization import JSON, YAML, Wanted, compressed
from volcano.apiserver.endpoints.tables import Printer, partial, table
from volcano.apiserver.warnings import header
from volcano.kube.errors import ApiError, BadRequest
from volcano.kube.manifest import Manifest
from volcano.net.messages import Request, Response

INCLUDES = ("", "None", "Metadata", "Object")


class Shaper:
    """Puts objects of one kind into the shape one request wants."""

    def __init__(self, request: Request, wanted: Wanted, printer: Printer, now: float) -> None:
        self._request = request
        self._wanted = wanted
        self._printer = printer
        self._now = now
        self._include = request.parameter("includeObject")
        if wanted.shape == "Table" and self._include not in INCLUDES:
            raise BadRequest(f"unrecognized includeObject value: {self._include[:100]!r}")
        self._headers_sent = False

    @property
    def plain(self) -> bool:
        """Whether stored bytes can be sent as they are."""
        return self._wanted.media_type == JSON and not self._wanted.shape

    def one(self, data: bytes) -> Any:
        """A single object, as a value to encode."""
        manifest = orjson.loads(data)
        if self._wanted.shape == "Table" and manifest.get("kind") != "Status":
            version = (manifest.get("metadata") or {}).get("resourceVersion")
            return self._table([manifest], {"resourceVersion": version} if version else {})
        if self._wanted.shape and manifest.get("kind") != "Status":
            return partial(manifest, self._wanted.version)
        return manifest

    def many(self, items: Iterable[bytes], metadata: Manifest, list_kind: str, api_version: str) -> Any:
        """A list, as a value to encode."""
        manifests = [orjson.loads(item) for item in items]
        if self._wanted.shape == "Table":
            return self._table(manifests, metadata)
        if self._wanted.shape:
            version = self._wanted.version
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{version}",
                "metadata": metadata,
                "items": [partial(manifest, version) for manifest in manifests],
            }
        return {"kind": list_kind, "apiVersion": api_version, "metadata": metadata, "items": manifests}

    def event(self, type_: str, data: bytes, now: float) -> bytes:
        """One watch event as a line. Only the first table of a stream carries the columns."""
        self._now = now
        manifest = orjson.loads(data)
        if self._wanted.shape == "Table" and type_ != "BOOKMARK":
            shown = self.one(data)
            if self._headers_sent:
                shown["columnDefinitions"] = []
            self._headers_sent = True
        else:
            shown = partial(manifest, self._wanted.version)
        return orjson.dumps({"type": type_, "object": shown}, option=orjson.OPT_APPEND_NEWLINE)

    def _table(self, manifests: list[Manifest], metadata: Manifest) -> Manifest:
        return table(
            self._printer,
            manifests,
            self._now,
            version=self._wanted.version,
            include=self._include or "Metadata",
            metadata=metadata,
        )

    async def respond(self, value: Any, status: int = 200) -> Response:
        """The whole answer. Bytes are JSON already."""
        pretty = self._request.parameter("pretty") in ("true", "1")
        if self._wanted.media_type == YAML:
            decoded = orjson.loads(value) if isinstance(value, bytes) else value
            body = yaml.safe_dump(decoded, sort_keys=False).encode()
        elif isinstance(value, bytes):
            body = orjson.dumps(orjson.loads(value), option=orjson.OPT_INDENT_2) if pretty else value
        else:
            body = orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else 0)
        body, headers = await compressed(body, self._request.headers.get("accept-encoding", ""))
        headers["Content-Type"] = self._wanted.media_type
        return Response(status, headers, body)


async def plain(request: Request, value: Any, status: int = 200) -> Response:
    """A value as plain JSON."""
    pretty = request.parameter("pretty") in ("true", "1")
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else 0)
    body, headers = await compressed(body, request.headers.get("accept-encoding", ""))
    return Response(status, {"Content-Type": JSON, **headers}, body)


def refusal(error: ApiError) -> Response:
    """An error as a Status."""
    status = error.status()
    headers = {"Content-Type": JSON}
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return Response(status["code"], headers, orjson.dumps(status, option=orjson.OPT_APPEND_NEWLINE))


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """The answer with what has to be said beside it."""
    if warnings:
        response.headers["Warning"] = header(warnings)
    return response
