"""A minimal HTTP client over a connected socket, for probes and hooks."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_HEAD = 64 * 1024
MAX_BODY = 10 * 1024


class BadHttpResponse(Exception):
    """The response is not HTTP."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # the first 10 KiB


async def request(
    sock: socket.socket, path: str, headers: Sequence[tuple[str, str]], *, tls: bool = False
) -> HttpResponse:
    """GETs a path and closes the socket. As in the kubelet, certificates are not verified."""
    reader, writer = await open_stream(sock, tls=tls)
    try:
        lines = [
            f"GET {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers),
            "Connection: close",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        return await _read_response(reader)
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


async def open_stream(sock: socket.socket, *, tls: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream over a connected socket."""
    if not tls:
        return await asyncio.open_connection(sock=sock, limit=MAX_HEAD)
    return await asyncio.open_connection(
        sock=sock, limit=MAX_HEAD, ssl=_insecure_context(), server_hostname=""
    )


def _insecure_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _read_response(reader: asyncio.StreamReader) -> HttpResponse:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        raise BadHttpResponse(
            "EOF" if not error.partial else f"malformed HTTP response {error.partial[:40]!r}"
        ) from None
    except asyncio.LimitOverrunError:
        raise BadHttpResponse("the head of the HTTP response is too long") from None
    first, *rest = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if not first.startswith("HTTP/") or len(parts) < 2 or not parts[1].isdigit():
        raise BadHttpResponse(f'malformed HTTP response "{first[:80]}"')
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
    }
    return HttpResponse(int(parts[1]), headers, await _body(reader, headers))


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """The beginning of the body for messages; chunked encoding is not decoded."""
    length = headers.get("content-length", "")
    wanted = min(int(length), MAX_BODY) if length.isdigit() else MAX_BODY
    body = b""
    while len(body) < wanted:
        chunk = await reader.read(wanted - len(body))
        if not chunk:
            break
        body += chunk
    return body
