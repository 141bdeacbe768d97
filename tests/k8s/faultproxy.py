"""A proxy in front of the API server that injects the faults of networks and overloaded servers.

It terminates TLS on both sides, so that it can answer for the server, drop a response or break a watch.
"""

import asyncio
import contextlib
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from volcano.base.http.tls import create_authority, issue, server_context

HEAD_LIMIT = 64 * 1024
Upstream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ConnectionAborted(Exception):
    """The connection is to be closed immediately."""


class FaultProxy:
    """Runs in its own thread. `fault` names the fault to inject, `share` its probability; `injected` counts them."""

    def __init__(self, server: str, token: str, directory: Path, *, seed: int = 1) -> None:
        host, _, port = server.removeprefix("https://").rpartition(":")
        self._upstream = host, int(port)
        self._token = token
        self._chance = random.Random(seed)
        self.fault = "none"
        self.share = 0.3
        self.injected: Counter[str] = Counter()
        self._stopping = asyncio.Event()
        self._recovered = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._directory = directory
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10.0), "the proxy did not start"

    @property
    def kubeconfig(self) -> Path:
        return self._directory / "proxied.kubeconfig"

    @contextlib.contextmanager
    def failing(self, fault: str, share: float) -> Any:
        """Injects a fault while the block runs; hanging requests are aborted afterwards."""
        self._loop.call_soon_threadsafe(self._recovered.clear)
        self.share, self.fault = share, fault
        try:
            yield
        finally:
            self.fault = "none"
            self._loop.call_soon_threadsafe(self._recovered.set)

    def stop(self) -> None:
        """Closes every connection and joins the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10.0)

    def _run(self, started: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        now = time.time()
        authority = create_authority("proxy", now=now)
        credential = issue(authority, "127.0.0.1", hosts=["127.0.0.1"], now=now, server=True)
        server = await asyncio.start_server(
            self._handle, "127.0.0.1", 0, ssl=server_context(credential), limit=HEAD_LIMIT
        )
        port = server.sockets[0].getsockname()[1]
        self.kubeconfig.write_text(
            f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: u, user: {{token: "{self._token}"}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
        )
        started.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.1)  # aborted transports are closed in the next iterations of the event loop

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client connection, request by request, until either end closes it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        upstream: Upstream | None = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _length(head)
                request = head + (await reader.readexactly(length) if length else b"")
                if await self._injected(request, writer):
                    continue
                upstream = upstream or await self._connect()
                await self._forward(request, upstream, writer)
        except (
            OSError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            ssl.SSLError,
            ConnectionAborted,
        ):
            pass
        finally:
            for end in (writer, *((upstream[1],) if upstream else ())):
                end.transport.abort()

    async def _connect(self) -> Upstream:
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["http/1.1"])
        return await asyncio.open_connection(*self._upstream, ssl=context, limit=HEAD_LIMIT)

    async def _injected(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether the request was answered with the present fault instead of being forwarded."""
        answers: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "429": lambda: _answer(writer, "429 Too Many Requests", "TooManyRequests", "Retry-After: 1\r\n"),
            "500": lambda: _answer(writer, "500 Internal Server Error", "InternalError"),
            "hang": self._hang,
            "reset": _abort,
        }
        answer = answers.get(self.fault)
        if answer is None or not self._chosen():
            return False
        await answer()
        return True

    def _chosen(self) -> bool:
        """Whether the present fault is injected into this request, at random."""
        if self._chance.random() >= self.share:
            return False
        self.injected[self.fault] += 1
        return True

    async def _hang(self) -> None:
        await self._recovered.wait()
        raise ConnectionAborted

    async def _forward(self, request: bytes, upstream: Upstream, writer: asyncio.StreamWriter) -> None:
        reader, sender = upstream
        sender.write(request)
        watching = b"watch=" in request.partition(b"\r\n")[0]
        if self.fault == "lost answers" and not watching and self._chosen():
            await reader.readuntil(
                b"\r\n\r\n"
            )  # the server has handled the request; the client gets no response
            raise ConnectionAborted
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        if b"chunked" in head.lower():
            await self._forward_chunks(reader, writer, watching=watching)
        elif length := _length(head):
            writer.write(await reader.readexactly(length))
        await writer.drain()

    async def _forward_chunks(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watching: bool
    ) -> None:
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            chunk = await reader.readexactly(size + 2)
            if watching and self.fault == "watches" and self._chosen():
                writer.write(line + chunk[: size // 2])  # in the middle of an event
                await writer.drain()
                raise ConnectionAborted
            writer.write(line + chunk)
            await writer.drain()
            if not size:
                return


async def _answer(writer: asyncio.StreamWriter, status: str, reason: str, extra: str = "") -> None:
    body = f'{{"kind":"Status","status":"Failure","reason":"{reason}","code":{status[:3]},"message":"by the proxy"}}'
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write((head + body).encode())
    await writer.drain()


async def _abort() -> None:
    raise ConnectionAborted


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
