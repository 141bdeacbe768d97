"""Protobuf encoding of an OpenAPI v2 document, which kubectl requests: the messages of gnostic's OpenAPIv2.proto."""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

# Encodes a value of one field; an empty encoding is left out.
Encode = Callable[[int, Any], bytes]
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def encode(document: Mapping[str, Any]) -> bytes:
    """Encodes a document."""
    return _message(document, _DOCUMENT)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    number &= 2**64 - 1
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, value: Any) -> bytes:
    content = str(value).encode("utf-8", "replace")
    return _delimited(number, content) if content else b""


def _bool(number: int, value: Any) -> bytes:
    return _varint(number << 3 | _VARINT) + b"\x01" if value else b""


def _integer(number: int, value: Any) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(int(value)) if value else b""


def _double(number: int, value: Any) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value) if value else b""


def _any(number: int, value: Any) -> bytes:
    """Any value, as the YAML text of gnostic's `Any`; JSON is YAML."""
    return _delimited(number, _text(2, orjson.dumps(value).decode() + "\n"))


def _repeated(encode_one: Encode) -> Encode:
    return lambda number, values: b"".join(encode_one(number, value) for value in values)


def _of(fields: Callable[[], Mapping[str, tuple[int, Encode]]]) -> Encode:
    """A message; its fields are looked up late, because messages contain each other."""
    return lambda number, value: _delimited(number, _message(value, fields()))


def _wrapped(inner: int, encode_inner: Encode) -> Encode:
    """A message with one field."""
    return lambda number, value: _delimited(number, encode_inner(inner, value))


def _named(encode_value: Encode) -> Encode:
    """A map as a repeated field of names and values."""
    return lambda number, value: b"".join(
        _delimited(number, _text(1, name) + encode_value(2, each)) for name, each in value.items()
    )


def _message(value: Mapping[str, Any], fields: Mapping[str, tuple[int, Encode]]) -> bytes:
    parts = []
    for name, each in value.items():
        if name in fields:
            number, encode_field = fields[name]
            parts.append((number, encode_field(number, each)))
        elif name.startswith("x-") and "x-" in fields:
            number, _ = fields["x-"]
            parts.append((number, _delimited(number, _text(1, name) + _any(2, each))))
    parts.sort(key=lambda part: part[0])
    return b"".join(content for _, content in parts)


def _additional(number: int, value: Any) -> bytes:
    content = _bool(2, value) if isinstance(value, bool) else _schema(1, value)
    return _delimited(number, content)


def _types(number: int, value: Any) -> bytes:
    kinds: Iterable[Any] = value if isinstance(value, list) else [value]
    return _delimited(number, b"".join(_text(1, kind) for kind in kinds))


def _parameter(number: int, value: Mapping[str, Any]) -> bytes:
    """A parameter: of the body, or of the query or path, each of which has a message of its own."""
    if value["in"] == "body":
        inner = _delimited(1, _message(value, _BODY_PARAMETER))
    else:
        is_path = value["in"] == "path"
        fields = _PATH_PARAMETER if is_path else _QUERY_PARAMETER
        inner = _delimited(2, _delimited(4 if is_path else 3, _message(value, fields)))
    return _delimited(number, _delimited(1, inner))


_schema = _of(lambda: _SCHEMA)
_EXTENSION: Encode = _any
_SCHEMA: Mapping[str, tuple[int, Encode]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _bool),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _bool),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _bool),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _repeated(_text)),
    "enum": (20, _repeated(_any)),
    "additionalProperties": (21, _additional),
    "type": (22, _types),
    "items": (23, _wrapped(1, _schema)),
    "properties": (25, lambda number, value: _delimited(number, _named(_schema)(1, value))),
    "x-": (31, _EXTENSION),
}
_BODY_PARAMETER: Mapping[str, tuple[int, Encode]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _bool),
    "schema": (5, _schema),
}
_QUERY_PARAMETER: Mapping[str, tuple[int, Encode]] = {
    "required": (1, _bool),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "uniqueItems": (20, _bool),
}
_PATH_PARAMETER: Mapping[str, tuple[int, Encode]] = {
    "required": (1, _bool),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "uniqueItems": (19, _bool),
}
_RESPONSE: Mapping[str, tuple[int, Encode]] = {
    "description": (1, _text),
    "schema": (2, _wrapped(1, _schema)),
}
_OPERATION: Mapping[str, tuple[int, Encode]] = {
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _repeated(_text)),
    "consumes": (7, _repeated(_text)),
    "parameters": (8, _repeated(_parameter)),
    "responses": (
        9,
        lambda number, value: _delimited(number, _named(_wrapped(1, _of(lambda: _RESPONSE)))(1, value)),
    ),
    "schemes": (10, _repeated(_text)),
    "x-": (13, _EXTENSION),
}
_operation = _of(lambda: _OPERATION)
_PATH_ITEM: Mapping[str, tuple[int, Encode]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, _repeated(_parameter)),
}
_INFO: Mapping[str, tuple[int, Encode]] = {"title": (1, _text), "version": (2, _text)}
_DOCUMENT: Mapping[str, tuple[int, Encode]] = {
    "swagger": (1, _text),
    "info": (2, _of(lambda: _INFO)),
    "paths": (8, lambda number, value: _delimited(number, _named(_of(lambda: _PATH_ITEM))(2, value))),
    "definitions": (9, lambda number, value: _delimited(number, _named(_schema)(1, value))),
}
