"""Encodes and decodes SPDY/3.1 frames, with stateful header compression."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from volcano.nodes.kubelet.streams.spdy_dictionary import DICTIONARY

VERSION = 3
FIN = 1
CONTROL = 0x8000
# The format allows for 16 MiB.
MAX_FRAME = 4 << 20
MAX_HEADERS = 64 << 10  # bytes, uncompressed


class SpdyError(Exception):
    """The peer does not speak SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class SynStream:
    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class SynReply:
    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    last: int
    status: int = 0


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    data: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """SETTINGS, HEADERS and WINDOW_UPDATE, which are ignored."""

    kind: int


Frame = SynStream | SynReply | Reset | Ping | GoAway | Data | Other

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
KINDS = frozenset({SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE})

PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5


class Framer:
    """One end of a connection. Header compression is stateful in both directions, so order matters."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)
        self._buffer = bytearray()

    def encode(self, frame: Frame) -> bytes:
        """Encodes a frame; frames must be sent in the order of encoding."""
        match frame:
            case Data(stream, data, fin):
                return struct.pack("!II", stream, _flagged(len(data), fin)) + data
            case SynStream(stream, headers, fin):
                body = struct.pack("!IIBB", stream, 0, 0, 0) + self._pack(headers)
                return _control(SYN_STREAM, body, fin)
            case SynReply(stream, headers, fin):
                return _control(SYN_REPLY, struct.pack("!I", stream) + self._pack(headers), fin)
            case Reset(stream, status):
                return _control(RST_STREAM, struct.pack("!II", stream, status))
            case Ping(number):
                return _control(PING, struct.pack("!I", number))
            case GoAway(last, status):
                return _control(GOAWAY, struct.pack("!II", last, status))
            case Other(kind):
                raise SpdyError(f"frames of kind {kind} are never sent")

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The complete frames received. Raises `SpdyError` when the data is not SPDY/3.1."""
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < 8:
            return None
        first, second = struct.unpack_from("!II", buffer)
        flags, size = second >> 24, second & 0xFFFFFF
        if size > MAX_FRAME:
            raise SpdyError(f"a frame of {size} bytes is larger than {MAX_FRAME}")
        if len(buffer) < 8 + size:
            return None
        body = bytes(buffer[8 : 8 + size])
        del buffer[: 8 + size]
        if not first >> 31:
            return Data(first, body, bool(flags & FIN))
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != VERSION or kind not in KINDS:
            raise SpdyError(f"a control frame of version {version}, kind {kind} is not of SPDY/3.1")
        try:
            return self._control_frame(kind, body, bool(flags & FIN))
        except (struct.error, zlib.error) as error:
            raise SpdyError(f"a control frame of kind {kind} is malformed: {error}") from error

    def _control_frame(self, kind: int, body: bytes, fin: bool) -> Frame:
        match kind:
            case 1:
                return SynStream(_number(body) & 0x7FFFFFFF, self._unpack(body[10:]), fin)
            case 2:
                return SynReply(_number(body) & 0x7FFFFFFF, self._unpack(body[4:]), fin)
            case 3:
                return Reset(*struct.unpack_from("!II", body))
            case 6:
                return Ping(_number(body))
            case 7:
                return GoAway(*struct.unpack_from("!II", body))
            case 8:
                self._unpack(body[4:])  # keeps the compression state in step
        return Other(kind)

    def _pack(self, headers: Mapping[str, str]) -> bytes:
        block = [struct.pack("!I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                block += (struct.pack("!I", len(text)), text)
        return self._compressor.compress(b"".join(block)) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def _unpack(self, packed: bytes) -> dict[str, str]:
        block = self._decompressor.decompress(packed, MAX_HEADERS)
        if self._decompressor.unconsumed_tail:
            raise SpdyError(f"headers of more than {MAX_HEADERS} bytes")
        headers: dict[str, str] = {}
        position = 4
        for _ in range(_number(block)):
            name, position = _text(block, position)
            value, position = _text(block, position)
            headers[name] = value.replace("\0", ", ")
        return headers


def _number(body: bytes) -> int:
    number: int = struct.unpack_from("!I", body)[0]
    return number


def _text(block: bytes, position: int) -> tuple[str, int]:
    size = struct.unpack_from("!I", block, position)[0]
    end = position + 4 + size
    if end > len(block):
        raise SpdyError("a header is longer than the headers")
    return block[position + 4 : end].decode("latin-1"), end


def _flagged(size: int, fin: bool) -> int:
    return (FIN << 24 if fin else 0) | size


def _control(kind: int, body: bytes, fin: bool = False) -> bytes:
    return struct.pack("!HHI", CONTROL | VERSION, kind, _flagged(len(body), fin)) + body
