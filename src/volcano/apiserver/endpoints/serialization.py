"""Serialization: decoding of JSON, YAML and protobuf bodies, and compression of large responses."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from volcano.apiserver.endpoints.negotiation import JSON, YAML
from volcano.apiserver.endpoints.yaml_body import YamlError, load_yaml
from volcano.kube import protobuf
from volcano.kube.errors import BadRequest, UnsupportedMediaType

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
COMPRESS_ABOVE = 128 * 1024
COMPRESS_IN_THREAD_ABOVE = 1024 * 1024


class Body(msgspec.Struct, frozen=True):
    """A decoded request body and its strict decoding errors (duplicate fields)."""

    value: Any
    strict_errors: tuple[str, ...] = ()


def decode(body: bytes, content_type: str, *, strict: bool = False) -> Body:
    """Decodes a request body; raises `UnsupportedMediaType` for media types that are neither known nor text.

    Duplicate fields are detected always when `strict`, otherwise only when the size of the body differs from that of
    its compact encoding.
    """
    media_type = JSON if content_type == JSON else content_type.partition(";")[0].strip().lower()
    if media_type == PROTOBUF:
        return Body(_protobuf(body))
    if media_type == YAML:
        return _yaml(body)
    if media_type in (JSON, ""):
        return _json(body, strict)
    if media_type.startswith("text/"):
        return _json(body, strict) if body.lstrip()[:1] in (b"{", b"[") else _yaml(body)
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(ACCEPTED)}"
    )


def decode_json(body: bytes, *, strict: bool = False) -> Body:
    """Decodes a JSON body such as a patch."""
    return _json(body, strict)


def decode_yaml(body: bytes) -> Body:
    """Decodes a YAML or JSON body such as an apply patch."""
    return _yaml(body)


def _protobuf(body: bytes) -> Any:
    try:
        return protobuf.decode(body)
    except ValueError as error:
        raise BadRequest(f"the protobuf body cannot be decoded: {error}") from error


def _yaml(body: bytes) -> Body:
    if body.lstrip()[:1] == b"{":
        try:
            return _json(body, strict=True)
        except BadRequest:
            pass  # flow-style YAML also starts with a brace
    try:
        value, duplicates = load_yaml(body)
    except YamlError as error:
        raise BadRequest(f"error converting YAML to JSON: {error}") from error
    return Body(value, tuple(duplicates))


def _json(body: bytes, strict: bool) -> Body:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    if strict or len(orjson.dumps(value)) != len(body.rstrip()):
        return Body(value, tuple(_duplicates(body)))
    return Body(value)


class _DuplicateFields(dict[str, Any]):
    """A JSON object and the names of its duplicate fields."""

    def __init__(self, fields: dict[str, Any], names: list[str]) -> None:
        super().__init__(fields)
        self.names = names


def _collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    return _DuplicateFields(found, sorted({name for name in names if names.count(name) > 1}))


def _duplicates(body: bytes) -> Iterator[str]:
    try:
        value = json.loads(body, object_pairs_hook=_collect)
    except (ValueError, RecursionError):
        return  # orjson accepted the body; duplicates in input that only orjson accepts are not reported
    yield from (f'duplicate field "{path}"' for path in _duplicate_paths(value, ""))


def _duplicate_paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _DuplicateFields):
        yield from (f"{path}.{name}".lstrip(".") for name in value.names)
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _duplicate_paths(child, f"{path}.{name}")
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from _duplicate_paths(child, f"{path}[{position}]")


async def compressed(body: bytes, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """Gzips a large body if the client accepts it; returns the body and its headers."""
    if len(body) <= COMPRESS_ABOVE or "gzip" not in accept_encoding:
        return body, {}
    if len(body) > COMPRESS_IN_THREAD_ABOVE:
        packed = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
    else:
        packed = gzip.compress(body, 1, mtime=0)
    return packed, {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
