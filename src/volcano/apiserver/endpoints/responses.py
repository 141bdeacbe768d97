"""Response writers: objects, lists and watch events as the negotiated output (object, Table, PartialObjectMetadata)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

from volcano.apiserver.endpoints.negotiation import JSON, YAML, MediaTypeOptions
from volcano.apiserver.endpoints.serialization import compressed
from volcano.apiserver.endpoints.tables import Printer, partial, table
from volcano.apiserver.warnings import header
from volcano.base.http.http1 import MalformedRequest
from volcano.base.http.messages import Request, Response
from volcano.base.http.server import plain_rejection
from volcano.base.yaml_dumper import dump
from volcano.kube.api.errors import ApiError, BadRequest, TooLarge, TooManyRequests
from volcano.kube.api.manifest import Manifest

YAML_IN_BLOCK_STYLE_UP_TO = 32 * 1024  # bytes of JSON, at most 0.2 s of work
CONVERTED_AT_ONCE = 500  # objects, about 50 ms of work
INCLUDE_OBJECT_POLICIES = ("", "None", "Metadata", "Object")


class ResponseWriter:
    """Converts and encodes objects of one kind as negotiated for one request."""

    def __init__(self, request: Request, output: MediaTypeOptions, printer: Printer, now: float) -> None:
        self._request = request
        self._output = output
        self._printer = printer
        self._now = now
        self._include = request.parameter("includeObject")
        if output.convert_kind == "Table" and self._include not in INCLUDE_OBJECT_POLICIES:
            raise BadRequest(f"unrecognized includeObject value: {self._include[:100]!r}")
        self._headers_sent = False

    @property
    def sends_stored_bytes(self) -> bool:
        """Whether the stored JSON is sent without conversion."""
        return self._output.media_type == JSON and not self._output.convert_kind

    def one(self, data: bytes) -> Any:
        """Converts a single object."""
        manifest = orjson.loads(data)
        if self._output.convert_kind == "Table" and manifest.get("kind") != "Status":
            version = (manifest.get("metadata") or {}).get("resourceVersion")
            return self._table([manifest], {"resourceVersion": version} if version else {})
        if self._output.convert_kind and manifest.get("kind") != "Status":
            return partial(manifest, self._output.convert_version)
        return manifest

    async def many(self, items: Sequence[bytes], metadata: Manifest, list_kind: str, api_version: str) -> Any:
        """Converts a list; other requests are answered in between."""
        version = self._output.convert_version
        if self._output.convert_kind == "Table":
            whole = self._table([], metadata)
            async for manifests in _batches(items):
                whole["rows"] += self._table(manifests, {})["rows"]
            return whole
        converted: list[Manifest] = []
        async for manifests in _batches(items):
            converted += (
                [partial(each, version) for each in manifests] if self._output.convert_kind else manifests
            )
        if self._output.convert_kind:
            list_kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{version}"
        return {"kind": list_kind, "apiVersion": api_version, "metadata": metadata, "items": converted}

    def event(self, type_: str, data: bytes, now: float) -> bytes:
        """Encodes a watch event as one line. Only the first Table of a watch has column definitions."""
        self._now = now
        manifest = orjson.loads(data)
        if self._output.convert_kind == "Table" and type_ != "BOOKMARK":
            converted = self.one(data)
            if self._headers_sent:
                converted["columnDefinitions"] = []
            self._headers_sent = True
        else:
            converted = partial(manifest, self._output.convert_version)
        return orjson.dumps({"type": type_, "object": converted}, option=orjson.OPT_APPEND_NEWLINE)

    def _table(self, manifests: list[Manifest], metadata: Manifest) -> Manifest:
        return table(
            self._printer,
            manifests,
            self._now,
            version=self._output.convert_version,
            include=self._include or "Metadata",
            metadata=metadata,
        )

    async def respond(self, value: Any, status: int = 200) -> Response:
        """Encodes a response. Bytes are JSON already."""
        pretty = self._request.parameter("pretty") in ("true", "1")
        if self._output.media_type == YAML:
            body = _yaml(value if isinstance(value, bytes) else orjson.dumps(value))
        elif isinstance(value, bytes):
            body = orjson.dumps(orjson.loads(value), option=orjson.OPT_INDENT_2) if pretty else value
        else:
            body = orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else 0)
        body, headers = await compressed(body, self._request.headers.get("accept-encoding", ""))
        headers["Content-Type"] = self._output.media_type
        return Response(status, headers, body)


async def _batches(items: Sequence[bytes]) -> AsyncIterator[list[Manifest]]:
    for start in range(0, len(items), CONVERTED_AT_ONCE):
        yield [orjson.loads(item) for item in items[start : start + CONVERTED_AT_ONCE]]
        await asyncio.sleep(0)


def _yaml(data: bytes) -> bytes:
    """JSON as YAML. Writing YAML in block style is slow: long responses are in flow style, which is JSON."""
    if len(data) > YAML_IN_BLOCK_STYLE_UP_TO:
        return data
    return dump(orjson.loads(data)).encode()


async def json_response(request: Request, value: Any, status: int = 200) -> Response:
    """Encodes a value as JSON."""
    pretty = request.parameter("pretty") in ("true", "1")
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else 0)
    body, headers = await compressed(body, request.headers.get("accept-encoding", ""))
    return Response(status, {"Content-Type": JSON, **headers}, body)


def error_response(error: ApiError) -> Response:
    """Encodes an error as a Status."""
    status = error.status()
    headers = {"Content-Type": JSON}
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return Response(status["code"], headers, orjson.dumps(status, option=orjson.OPT_APPEND_NEWLINE))


def malformed_response(error: MalformedRequest) -> Response:
    """Encodes the rejection of a body that is too long as a Status; other malformed requests get plain text."""
    if error.status == 413:
        return error_response(TooLarge(f"Request entity too large: {error}"))
    if error.status == 429:
        return error_response(TooManyRequests(str(error), retry_after=1))
    return plain_rejection(error)


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """Adds the Warning header to a response."""
    if warnings:
        response.headers["Warning"] = header(warnings)
    return response
