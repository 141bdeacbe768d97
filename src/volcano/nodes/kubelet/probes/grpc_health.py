"""gRPC health checks: the part of HTTP/2 needed to call grpc.health.v1."""

import asyncio
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7
END_STREAM, END_HEADERS, ACK, PADDED = 0x1, 0x4, 0x1, 0x8
MAX_FRAME = 1 << 20
STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
PATH = "/grpc.health.v1.Health/Check"


class GrpcHealthError(Exception):
    """The server does not speak gRPC, or rejected the call."""


async def check_health(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, service: str, authority: str
) -> str:
    """The status of a service: SERVING, NOT_SERVING, ..."""
    head = b"".join(
        _header(name, value)
        for name, value in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", PATH),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "kube-probe/1.36"),
        )
    )
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    body = b"\x00" + struct.pack(">I", len(message)) + message
    writer.write(PREFACE + _frame(SETTINGS, 0, 0, b""))
    writer.write(_frame(HEADERS, END_HEADERS, 1, head) + _frame(DATA, END_STREAM, 1, body))
    await writer.drain()
    return STATES.get(_status(await _reply(reader, writer)), "UNKNOWN")


async def _reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The message of the response, without its five bytes of prefix."""
    message = b""
    while True:
        kind, flags, stream, payload = await _read_frame(reader)
        if kind == SETTINGS and not flags & ACK:
            writer.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            writer.write(_frame(PING, ACK, 0, payload))
        elif kind == DATA and stream == 1:
            message += payload[1 : len(payload) - payload[0]] if flags & PADDED and payload else payload
        elif kind in (RST_STREAM, GOAWAY):
            raise GrpcHealthError("the server rejected the stream")
        if kind in (DATA, HEADERS) and stream == 1 and flags & END_STREAM:
            break
    if len(message) < 5:
        raise GrpcHealthError("the server has no health service, or rejected the request")
    return message[5:]


async def _read_frame(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    try:
        head = await reader.readexactly(9)
        length = int.from_bytes(head[:3], "big")
        if length > MAX_FRAME:
            raise GrpcHealthError("the server does not speak HTTP/2")
        payload = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise GrpcHealthError("the connection was closed before an answer came") from None
    return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, payload


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _header(name: str, value: str) -> bytes:
    """A literal header without indexing, not compressed."""
    return b"\x00" + _text(name) + _text(value)


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) < 127:
        return bytes((len(data),)) + data
    return b"\x7f" + _varint(len(data) - 127) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _status(message: bytes) -> int:
    """Field 1 of a HealthCheckResponse; 0 when it is absent."""
    if len(message) >= 2 and message[0] == 0x08:
        return message[1]
    return 0
