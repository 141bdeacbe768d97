"""Kubernetes' protobuf encoding of manifests, driven by `type_info`; no protobuf library needed."""

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import orjson

from volcano.kube.api import duration, type_info
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.type_info import Field, Type

MAGIC = b"k8s\x00"
_DEEPEST = 64  # levels of nesting, more than any real object has
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Fields of a decoded object that JSON does not have.
_NOTHING = object()


def decode(data: bytes) -> Manifest:
    """Decodes a protobuf body to the manifest its JSON would be. Raises ValueError when it is malformed."""
    if not data.startswith(MAGIC):
        raise ValueError("not a Kubernetes protobuf body: it must start with k8s and a zero byte")
    envelope = dict(_wire(data[len(MAGIC) :]))
    meta = {number: _text(value) for number, value in _wire(_bytes(envelope.get(1, b"")))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    type_ = type_info.type_named(api_version, kind)
    if type_ is None:
        raise ValueError(f"no protobuf is known for kind {kind!r} in version {api_version!r}; send JSON")
    body = _decode_object(type_, _bytes(envelope.get(2, b"")), 0)
    return {"kind": kind, "apiVersion": api_version, **body}


def encode(type_: Type, manifest: Manifest) -> bytes:
    """Encodes a manifest as a protobuf body."""
    names = _tagged(1, _text_bytes(manifest["apiVersion"])) + _tagged(2, _text_bytes(manifest["kind"]))
    return (
        MAGIC
        + _tagged(1, names)
        + _tagged(2, _encode_object(type_, manifest))
        + _tagged(3, b"")
        + _tagged(4, b"")
    )


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the fields of a message: (number, value); numbers for varints and fixed sizes, bytes for the
    rest."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"malformed protobuf: wire type {kind} is not used")
        if position + size > end:
            raise ValueError("malformed protobuf: it ends in the middle of a field")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("malformed protobuf: a number is cut off or too long")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError("malformed protobuf: a number where text or a message belongs")


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("malformed protobuf: text or a message where a number belongs")
    return value - (1 << 64) if value >> 63 else value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()  # UnicodeDecodeError is a ValueError


def _double(value: int | bytes) -> float | int:
    number: float = struct.unpack("<d", _bytes(value))[0]
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _decode_object(type_: Type, data: bytes, depth: int) -> Manifest:
    if depth > _DEEPEST:
        raise ValueError(f"malformed protobuf: more than {_DEEPEST} levels of nesting")
    result: Manifest = {}
    for number, value in _wire(data):
        about = type_.by_number.get(number)
        if about is None:
            continue  # a newer client's field
        if about.inline:
            result |= _decode_object(type_info.named(about.type), _bytes(value), depth + 1)
        elif about.container == "list":
            result.setdefault(about.json, []).extend(_elements(about, value, depth))
        elif about.container == "map":
            key, member = _entry(about, _bytes(value), depth)
            result.setdefault(about.json, {})[key] = member
        else:
            decoded = _decode_value(about.type, value, depth)
            if decoded is not _NOTHING and (about.pointer or not _omitted(about, decoded)):
                result[about.json] = decoded
    return result


def _omitted(about: Field, value: Any) -> bool:
    """Whether JSON omits this value of a field that is no pointer in Go."""
    if about.omit_zero and value == {}:
        return True
    return about.omit_empty and about.type in type_info.SCALARS and not value


def _elements(about: Field, value: int | bytes, depth: int) -> Iterator[Any]:
    """Yields one element of a repeated field, or several when numbers are packed."""
    if about.type in ("int32", "int64") and isinstance(value, bytes):
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield _number(number)
    else:
        decoded = _decode_value(about.type, value, depth)
        yield None if decoded is _NOTHING else decoded


def _entry(about: Field, data: bytes, depth: int) -> tuple[str, Any]:
    parts = dict(_wire(data))
    empty = 0 if about.type in ("int32", "int64", "bool") else b""
    decoded = _decode_value(about.type, parts.get(2, empty), depth)
    return _text(parts.get(1, b"")), None if decoded is _NOTHING else decoded


def _decode_value(type_name: str, value: int | bytes, depth: int) -> Any:
    scalar = _SCALAR_DECODERS.get(type_name)
    if scalar is not None:
        return scalar(value)
    special = _SPECIAL_DECODERS.get(type_name)
    if special is not None:
        parts: dict[int, list[int | bytes]] = {}
        for number, part in _wire(_bytes(value)):
            parts.setdefault(number, []).append(part)
        return special(parts, depth)
    return _decode_object(type_info.named(type_name), _bytes(value), depth + 1)


_SCALAR_DECODERS: dict[str, Callable[[int | bytes], Any]] = {
    "string": _text,
    "int32": _number,
    "int64": _number,
    "bool": lambda value: bool(_number(value)),
    "double": _double,
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
}
_Parts = dict[int, list[int | bytes]]


def _last(parts: _Parts, number: int, absent: int | bytes) -> int | bytes:
    return parts[number][-1] if number in parts else absent


def _moment(parts: _Parts, timespec: str) -> Any:
    if not parts:
        return _NOTHING
    seconds, nanos = _number(_last(parts, 1, 0)), _number(_last(parts, 2, 0))
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ValueError("malformed protobuf: a time beyond the years 1 to 9999") from None
    return _NOTHING if moment.year == 1 else moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _raw_json(parts: _Parts, depth: int) -> Any:
    raw = _bytes(_last(parts, 1, b""))
    if raw.startswith(MAGIC):
        return decode(raw)
    return orjson.loads(raw) if raw else _NOTHING


def _int_or_string(parts: _Parts, depth: int) -> int | str:
    return _text(_last(parts, 3, b"")) if _number(_last(parts, 1, 0)) else _number(_last(parts, 2, 0))


def _schema(data: int | bytes, depth: int) -> Manifest:
    return _decode_object(type_info.named(_SCHEMA), _bytes(data), depth + 1)


def _schema_or(number: int, otherwise: Callable[[_Parts, int], Any]) -> Callable[[_Parts, int], Any]:
    def read(parts: _Parts, depth: int) -> Any:
        return _schema(parts[number][-1], depth) if number in parts else otherwise(parts, depth)

    return read


_SPECIAL_DECODERS: dict[str, Callable[[_Parts, int], Any]] = {
    "Quantity": lambda parts, depth: _text(_last(parts, 1, b"")) or "0",
    "IntOrString": _int_or_string,
    "Time": lambda parts, depth: _moment(parts, "seconds"),
    "MicroTime": lambda parts, depth: _moment(parts, "microseconds"),
    "Duration": lambda parts, depth: duration.format_nanoseconds(_number(_last(parts, 1, 0))),
    "FieldsV1": _raw_json,
    "RawExtension": _raw_json,
    "JSON": _raw_json,
    "ExtraValue": lambda parts, depth: [_text(each) for each in parts.get(1, ())],
    "SchemaOrList": _schema_or(1, lambda parts, depth: [_schema(each, depth) for each in parts.get(2, ())]),
    "SchemaOrBool": _schema_or(2, lambda parts, depth: bool(_number(_last(parts, 1, 0)))),
    "SchemaOrStrings": _schema_or(1, lambda parts, depth: [_text(each) for each in parts.get(2, ())]),
}


# Encoding, as a Go client does it.


def _encode_varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def _tagged(number: int, value: bytes) -> bytes:
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(value)) + value


def _text_bytes(text: str) -> bytes:
    return text.encode()


def _encode_object(type_: Type, manifest: Manifest) -> bytes:
    return b"".join(
        part for number in sorted(type_.by_number) for part in _encode_field(type_, number, manifest)
    )


def _encode_field(type_: Type, number: int, manifest: Manifest) -> Iterator[bytes]:
    about = type_.by_number[number]
    if about.inline:
        yield _tagged(number, _encode_object(type_info.named(about.type), manifest))
        return
    value = manifest.get(about.json)
    if about.container == "list":
        for each in value or ():
            yield _encode_value(number, about.type, each)
    elif about.container == "map":
        for key, member in (value or {}).items():
            yield _tagged(number, _tagged(1, _text_bytes(key)) + _encode_value(2, about.type, member))
    elif value is not None:
        yield _encode_value(number, about.type, value)
    elif not about.pointer:
        yield _encode_value(number, about.type, _zero(about.type))


@cache
def _zero(type_name: str) -> Any:
    zeros: dict[str, Any] = {"string": "", "bytes": "", "int32": 0, "int64": 0, "bool": False, "double": 0.0}
    return zeros.get(type_name, {} if type_name not in type_info.SPECIAL else None)


def _encode_value(number: int, type_name: str, value: Any) -> bytes:
    match type_name:
        case "int32" | "int64" | "bool":
            return _encode_varint(number << 3 | _VARINT) + _encode_varint(int(value))
        case "double":
            return _encode_varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        case "string":
            return _tagged(number, _text_bytes(value))
        case "bytes":
            return _tagged(number, base64.b64decode(value))
    if type_name in type_info.SPECIAL:
        return _tagged(number, b"" if value is None else _encode_special(type_name, value))
    return _tagged(number, _encode_object(type_info.named(type_name), value))


def _encode_special(type_name: str, value: Any) -> bytes:
    def number(field: int, amount: int) -> bytes:
        return _encode_varint(field << 3 | _VARINT) + _encode_varint(amount)

    match type_name:
        case "Quantity":
            return _tagged(1, _text_bytes(str(value)))
        case "IntOrString":
            is_text = isinstance(value, str)
            return (
                number(1, int(is_text))
                + number(2, 0 if is_text else value)
                + _tagged(3, _text_bytes(value if is_text else ""))
            )
        case "Time" | "MicroTime":
            elapsed = datetime.fromisoformat(value) - _EPOCH
            return number(1, elapsed.days * 86400 + elapsed.seconds) + number(2, elapsed.microseconds * 1000)
        case "Duration":
            return number(1, duration.parse_nanoseconds(value))
        case "ExtraValue":
            return b"".join(_tagged(1, _text_bytes(each)) for each in value)
        case "FieldsV1" | "RawExtension" | "JSON":
            return _tagged(1, orjson.dumps(value))
    return _encode_schema_or(type_name, value)


def _encode_schema_or(type_name: str, value: Any) -> bytes:
    """Encodes a schema, or an alternative to one: a list of schemas, a boolean or a list of strings."""
    position = 2 if type_name == "SchemaOrBool" else 1
    if isinstance(value, dict):
        schema = _tagged(position, _encode_object(type_info.named(_SCHEMA), value))
        return (b"\x08\x01" if type_name == "SchemaOrBool" else b"") + schema
    if isinstance(value, bool):
        return b"\x08" + _encode_varint(int(value))
    if type_name == "SchemaOrStrings":
        return b"".join(_tagged(2, _text_bytes(each)) for each in value)
    return b"".join(_tagged(2, _encode_object(type_info.named(_SCHEMA), each)) for each in value)
