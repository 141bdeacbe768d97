"""Sends raw bytes to the cluster under test and reads what comes back."""

import asyncio
import contextlib

from tests.fuzz.cluster import FuzzedCluster

READ_SECONDS = 0.1  # of a response that does not end, such as a watch


async def exchange(cluster: FuzzedCluster, request: bytes) -> None:
    """Sends one case on a connection of its own; every response is checked."""
    cluster.monitor.request = repr(request[:1200])
    host, port = cluster.listener.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        if writer.can_write_eof():
            writer.write_eof()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await _response(cluster, reader):
                pass
    except (TimeoutError, ConnectionError):
        pass  # a stream, or a connection that the server has closed
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _response(cluster: FuzzedCluster, reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1])
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    if status == 100:
        return True
    async with asyncio.timeout(READ_SECONDS):
        if headers.get("transfer-encoding") == "chunked" or status == 101:
            cluster.monitor.answered(status, b"")
            await reader.read(100)
            return False
        # The body of a HEAD response is not sent: then the next read finds the end.
        size = int(headers.get("content-length", 0))
        body = await reader.read(size) if size else b""
    cluster.monitor.answered(status, body)
    return len(body) == size
