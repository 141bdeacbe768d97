"""Bodies in and out: JSON, YAML and protobuf to manifests, what clients accept, and compression of long answers."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from volcano.apiserver.endpoints.yaml_body import YamlError, load_yaml
from volcano.kube import protobuf
from volcano.kube.errors import BadRequest, NotAcceptable, UnsupportedMediaType

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
ANSWERED = (JSON, YAML)
COMPRESS_ABOVE = 128 * 1024
COMPRESS_ASIDE_ABOVE = 1024 * 1024  # longer than this, compress in a thread


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shape a client wants an answer in."""

    media_type: str = JSON
    shape: str = ""  # the `as` parameter: Table, PartialObjectMetadata, APIGroupDiscoveryList, ...
    version: str = ""


PLAIN = Wanted()
META_SHAPES = frozenset(
    (shape, "meta.k8s.io", version)
    for shape in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)
DISCOVERY_SHAPES = frozenset(
    ("APIGroupDiscoveryList", "apidiscovery.k8s.io", version) for version in ("v2", "v2beta1")
)


def negotiate(accept: str, shapes: frozenset[tuple[str, str, str]] = META_SHAPES) -> Wanted:
    """The first way of answering that an Accept header allows and we know; raises `NotAcceptable`."""
    if not accept or accept in ("*/*", JSON):
        return PLAIN
    for media_type, parameters in _clauses(accept):
        media_type = JSON if media_type in ("*/*", "application/*") else media_type
        shape = parameters.get("as", "")
        if media_type not in ANSWERED:
            continue
        if not shape:
            return Wanted(media_type)
        if (shape, parameters.get("g", ""), parameters.get("v", "")) in shapes:
            return Wanted(media_type, shape, parameters["v"])
    raise NotAcceptable(f"only the following media types are accepted: {', '.join(ANSWERED)}")


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, best quality first."""
    clauses: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = {
            name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)
        }
        try:
            quality = float(parameters.get("q", "1"))
        except ValueError:
            quality = 0.0
        clauses.append((quality, media_type.lower(), parameters))
    clauses.sort(key=lambda clause: -clause[0])
    return [(media_type, parameters) for quality, media_type, parameters in clauses if quality > 0]


class Body(msgspec.Struct, frozen=True):
    """A decoded request body and what strict decoding has to say about its form."""

    value: Any
    complaints: tuple[str, ...] = ()


def decode(body: bytes, content_type: str, *, strict: bool = False) -> Body:
    """What a request body says. Media types that are neither known nor text are refused (415).

    Duplicate fields are always looked for when `strict`; otherwise only where they are cheap to suspect.
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
    """A JSON body such as a patch."""
    return _json(body, strict)


def decode_yaml(body: bytes) -> Body:
    """A YAML or JSON body such as an apply patch."""
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
            pass  # flow-style YAML also begins with a brace
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


class _Suspect(dict[str, Any]):
    """An object in which a field occurred more than once."""

    twice: list[str]


def _collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    suspect = _Suspect(found)
    names = [name for name, _ in pairs]
    suspect.twice = sorted({name for name in names if names.count(name) > 1})
    return suspect


def _duplicates(body: bytes) -> Iterator[str]:
    try:
        value = json.loads(body, object_pairs_hook=_collect)
    except (ValueError, RecursionError):
        return  # orjson has read it; what it allows beyond this parser has no duplicates worth a warning
    yield from (f'duplicate field "{path}"' for path in _suspects(value, ""))


def _suspects(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Suspect):
        yield from (f"{path}.{name}".lstrip(".") for name in value.twice)
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _suspects(child, f"{path}.{name}")
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from _suspects(child, f"{path}[{position}]")


async def compressed(body: bytes, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """A long body gzipped when the client takes that, with the headers that say so."""
    if len(body) <= COMPRESS_ABOVE or "gzip" not in accept_encoding:
        return body, {}
    if len(body) > COMPRESS_ASIDE_ABOVE:
        packed = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
    else:
        packed = gzip.compress(body, 1, mtime=0)
    return packed, {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
