"""One request to a server that is not trusted: only the status of its answer is read, and at most a few lines of it."""

import asyncio
from contextlib import ExitStack
from ssl import SSLContext
from urllib.parse import urlsplit

from volcano.base.http.dialer import Dial
from volcano.base.http.http1 import request_head

LONGEST_LINE = 16_384  # bytes
MOST_LINES = 200  # of interim answers (status 1xx)


async def request(
    method: str,
    url: str,
    headers: dict[str, str],
    dial: Dial,
    *,
    body: bytes = b"",
    tls: SSLContext | None = None,
) -> int:
    """Sends a request, encrypted with `tls`; returns the status. Raises OSError, or ValueError if there is no HTTP."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = {**headers, "Host": parts.netloc, "Content-Length": str(len(body)), "Connection": "close"}
    with ExitStack() as unless_connected:
        connected = await dial(host, port)
        unless_connected.callback(connected.close)
        reader, writer = await asyncio.open_connection(
            sock=connected,
            ssl=tls,
            server_hostname=host if tls else None,
            limit=LONGEST_LINE,
        )
        unless_connected.pop_all()
    try:
        writer.write(request_head(method, target, lines) + body)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.transport.abort()


async def _status(reader: asyncio.StreamReader) -> int:
    """Status of the answer, after interim ones."""
    interim = False
    for _ in range(MOST_LINES):
        line = await reader.readline()
        if not line:
            raise ConnectionResetError("it closed the connection without an answer")
        if interim and not line.startswith(b"HTTP/"):
            continue  # a header of an interim answer
        version, _, rest = line.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise ValueError(f"the answer begins with {line[:40]!r}")
        status = int(rest[:3])
        if status >= 200:
            return status
        interim = True
    raise ValueError("it sent too many interim answers")
