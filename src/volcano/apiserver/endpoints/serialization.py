"""Serialization: decoding of JSON, YAML and protobuf bodies, and compression of large responses."""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
import orjson

from volcano.apiserver.endpoints.negotiation import JSON, YAML
from volcano.apiserver.endpoints.yaml_process import YamlProcesses, yaml_error
from volcano.apiserver.limits import YAML_LIMITS, check_depth, check_json, check_values
from volcano.base.yaml_loader import MAX_DUPLICATES, YamlError, load_yaml
from volcano.kube.api import protobuf
from volcano.kube.api.errors import BadRequest, UnsupportedMediaType

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
COMPRESS_ABOVE = 128 * 1024
COMPRESS_IN_THREAD_ABOVE = 1024 * 1024
YAML_IN_LOOP_UP_TO = 64 * 1024  # bytes, at most 0.1 s of work


class Body(msgspec.Struct, frozen=True):
    """A decoded request body and its strict decoding errors (duplicate fields)."""

    value: Any
    strict_errors: tuple[str, ...] = ()


class BodyDecoder:
    """Decodes request bodies. Only large YAML bodies are waited for: another process reads them."""

    def __init__(self) -> None:
        self._yaml_processes = YamlProcesses()

    async def decode(self, body: bytes, content_type: str, *, strict: bool = False) -> Body:
        """Decodes a request body; raises `UnsupportedMediaType` for other media types than those of Kubernetes.

        Duplicate fields are detected always when `strict`, otherwise only when the size of the body differs from
        that of its compact encoding.
        """
        media_type = JSON if content_type == JSON else content_type.partition(";")[0].strip().lower()
        if media_type == JSON or not content_type:
            return decode_json(body, strict=strict)
        if media_type == PROTOBUF:
            return Body(_protobuf(body))
        if media_type == YAML:
            return await self.decode_yaml(body)
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - "
            f"accepted media types include: {', '.join(ACCEPTED)}"
        )

    async def decode_yaml(self, body: bytes) -> Body:
        """Decodes a YAML or JSON body such as an apply patch; of YAML the first document."""
        if body.lstrip()[:1] == b"{":
            try:
                return decode_json(body, strict=True)
            except BadRequest:
                pass  # flow-style YAML also starts with a brace
        if len(body) > YAML_IN_LOOP_UP_TO:
            value, duplicates = await self._yaml_processes.load(body)
            return Body(value, tuple(duplicates))
        try:
            document = load_yaml(body, YAML_LIMITS)
        except YamlError as error:
            raise yaml_error(error) from error
        return Body(document.value, tuple(map(str, document.duplicates)))


def _protobuf(body: bytes) -> Any:
    try:
        value = protobuf.decode(body)
    except ValueError as error:
        raise BadRequest(f"the protobuf body cannot be decoded: {error}") from error
    check_depth(value)
    check_values(value)
    return value


def decode_json(body: bytes, *, strict: bool = False) -> Body:
    """Decodes a JSON body such as a patch."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    check_json(body, value)
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
    counts = Counter(name for name, _ in pairs)
    return _DuplicateFields(found, sorted(name for name, count in counts.items() if count > 1))


def _duplicates(body: bytes) -> Iterator[str]:
    try:
        value = json.loads(body, object_pairs_hook=_collect)
    except (ValueError, RecursionError):
        return  # orjson accepted the body; duplicates in input that only orjson accepts are not reported
    for path in islice(_duplicate_paths(value, ""), MAX_DUPLICATES):
        yield f'duplicate field "{path}"'


def _duplicate_paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _DuplicateFields):
        yield from (f"{path}.{name}".lstrip(".") for name in value.names)
    if isinstance(value, dict):
        for name, child in value.items():
            if isinstance(child, dict | list):
                yield from _duplicate_paths(child, f"{path}.{name}")
    elif isinstance(value, list):
        for position, child in enumerate(value):
            if isinstance(child, dict | list):
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
