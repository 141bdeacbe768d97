"""Encoding and decoding of websocket frames (RFC 6455)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


CONTROL = frozenset({Opcode.CLOSE, Opcode.PING, Opcode.PONG})
CONTROL_LIMIT = 125

NORMAL = 1000
PROTOCOL_ERROR = 1002
NO_STATUS = 1005
ABNORMAL = 1006
BAD_TEXT = 1007
TOO_BIG = 1009
UNEXPECTED = 1011


class FrameError(Exception):
    """The peer violated the protocol; `code` is the close code to send."""

    def __init__(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Frame:
    opcode: Opcode
    payload: bytes
    final: bool = True


def masked(payload: bytes, mask: bytes) -> bytes:
    """Returns the payload xor the repeated four-byte mask; masking twice restores it."""
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return (int.from_bytes(payload, "little") ^ key).to_bytes(size, "little")


def encode_frame(frame: Frame, mask: bytes = b"") -> bytes:
    """Encodes a frame; clients must give a mask, servers must not."""
    size = len(frame.payload)
    first = (0x80 if frame.final else 0) | frame.opcode
    flag = 0x80 if mask else 0
    if size < 126:
        head = struct.pack("!BB", first, flag | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, flag | 126, size)
    else:
        head = struct.pack("!BBQ", first, flag | 127, size)
    return head + (mask + masked(frame.payload, mask) if mask else frame.payload)


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self, *, expect_masks: bool, max_size: int) -> None:
        self._expect_masks = expect_masks
        self._max_size = max_size
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that are complete. Raises `FrameError` when the bytes are not a websocket."""
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        opcode = self._opcode(first, second)
        size, start = second & 0x7F, 2
        if size > 125:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if size > self._max_size:
            raise FrameError(f"a frame of {size} bytes is larger than {self._max_size}", TOO_BIG)
        mask_size = 4 if self._expect_masks else 0
        end = start + mask_size + size
        if len(buffer) < end:
            return None
        payload = bytes(buffer[start + mask_size : end])
        if mask_size:
            payload = masked(payload, bytes(buffer[start : start + 4]))
        del buffer[:end]
        return Frame(opcode, payload, bool(first & 0x80))

    def _opcode(self, first: int, second: int) -> Opcode:
        if first & 0x70:
            raise FrameError("reserved bits are set")
        if bool(second & 0x80) is not self._expect_masks:
            raise FrameError("a client must mask its frames, a server must not")
        try:
            opcode = Opcode(first & 0x0F)
        except ValueError:
            raise FrameError(f"unknown opcode {first & 0x0F}") from None
        if opcode in CONTROL and (not first & 0x80 or second & 0x7F > CONTROL_LIMIT):
            raise FrameError("a control frame must be short and whole")
        return opcode
