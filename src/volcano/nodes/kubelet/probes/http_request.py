"""One HTTP request over a socket that is already there: what probes and hooks need of HTTP, and no more."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_HEAD = 64 * 1024
MAX_BODY = 10 * 1024


class BadHttpResponse(Exception):
    """What came back is no HTTP."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # the first 10 KiB


async def request(
    sock: socket.socket, path: str, headers: Sequence[tuple[str, str]], *, tls: bool = False
) -> HttpResponse:
    """GETs a path and closes the socket. Certificates are not verified: a probe asks only whether one answers."""
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
    words = first.split(" ", 2)
    if not first.startswith("HTTP/") or len(words) < 2 or not words[1].isdigit():
        raise BadHttpResponse(f'malformed HTTP response "{first[:80]}"')
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
    }
    return HttpResponse(int(words[1]), headers, await _body(reader, headers))


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """The beginning of the body: for a message, so that chunk sizes in it do no harm."""
    length = headers.get("content-length", "")
    wanted = min(int(length), MAX_BODY) if length.isdigit() else MAX_BODY
    body = b""
    while len(body) < wanted:
        piece = await reader.read(wanted - len(body))
        if not piece:
            break
        body += piece
    return body
