"""One request to a server on this machine, as a probe sends it."""

import asyncio
import socket
import ssl


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def ask(
    port: int,
    path: str,
    body: bytes | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname=host if tls else None
    )
    try:
        method = "GET" if body is None else "POST"
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        head += ["Content-Type: application/json", f"Content-Length: {len(body or b'')}", "", ""]
        writer.write("\r\n".join(head).encode() + (body or b""))
        answer = await reader.read()
    finally:
        writer.close()
    start, _, content = answer.partition(b"\r\n\r\n")
    return int(start.split()[1]), content
