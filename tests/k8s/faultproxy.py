"""A proxy in front of the API server that fails as networks and overloaded servers do, when told to.

It takes TLS apart on both sides, so that it can answer in the server's name, lose an answer or break a watch.
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

from volcano.net.tls import create_authority, issue, server_context

HEAD_LIMIT = 64 * 1024
Upstream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Lost(Exception):
    """This connection ends now."""


class FaultProxy:
    """Runs in a thread of its own. `fault` names what goes wrong, `share` how often; `happened` counts."""

    def __init__(self, server: str, token: str, directory: Path, *, seed: int = 1) -> None:
        host, _, port = server.removeprefix("https://").rpartition(":")
        self._upstream = host, int(port)
        self._token = token
        self._chance = random.Random(seed)
        self.fault = "none"
        self.share = 0.3
        self.happened: Counter[str] = Counter()
        self._over = asyncio.Event()
        self._calm = asyncio.Event()
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
        """Lets things go wrong for as long as the block lasts; afterwards requests that hang are cut off."""
        self._loop.call_soon_threadsafe(self._calm.clear)
        self.share, self.fault = share, fault
        try:
            yield
        finally:
            self.fault = "none"
            self._loop.call_soon_threadsafe(self._calm.set)

    def stop(self) -> None:
        """Ends every connection; returns when they are gone."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10.0)

    def _run(self, started: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        now = time.time()
        authority = create_authority("proxy", now=now)
        credential = issue(authority, "127.0.0.1", hosts=["127.0.0.1"], now=now, server=True)
        server = await asyncio.start_server(
            self._guarded, "127.0.0.1", 0, ssl=server_context(credential), limit=HEAD_LIMIT
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
        await self._over.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.1)  # what is aborted is closed in the next turns of the loop

    async def _guarded(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection: requests one after another, until somebody ends it."""
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
                if await self._refused(request, writer):
                    continue
                upstream = upstream or await self._connect()
                await self._pass_on(request, upstream, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError, Lost):
            pass
        finally:
            for end in (writer, *((upstream[1],) if upstream else ())):
                end.transport.abort()

    async def _connect(self) -> Upstream:
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["http/1.1"])
        return await asyncio.open_connection(*self._upstream, ssl=context, limit=HEAD_LIMIT)

    async def _refused(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether the request was answered here, by the fault of the hour."""
        answers: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "429": lambda: _answer(writer, "429 Too Many Requests", "TooManyRequests", "Retry-After: 1\r\n"),
            "500": lambda: _answer(writer, "500 Internal Server Error", "InternalError"),
            "hang": self._hang,
            "reset": _lose,
        }
        answer = answers.get(self.fault)
        if answer is None or not self._strikes():
            return False
        await answer()
        return True

    def _strikes(self) -> bool:
        if self._chance.random() >= self.share:
            return False
        self.happened[self.fault] += 1
        return True

    async def _hang(self) -> None:
        await self._calm.wait()
        raise Lost

    async def _pass_on(self, request: bytes, upstream: Upstream, writer: asyncio.StreamWriter) -> None:
        reader, sender = upstream
        sender.write(request)
        watching = b"watch=" in request.partition(b"\r\n")[0]
        if self.fault == "lost answers" and not watching and self._strikes():
            await reader.readuntil(b"\r\n\r\n")  # the server has done what was asked; nobody will hear of it
            raise Lost
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        if b"chunked" in head.lower():
            await self._pass_chunks(reader, writer, watching=watching)
        elif length := _length(head):
            writer.write(await reader.readexactly(length))
        await writer.drain()

    async def _pass_chunks(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watching: bool
    ) -> None:
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            chunk = await reader.readexactly(size + 2)
            if watching and self.fault == "watches" and self._strikes():
                writer.write(line + chunk[: size // 2])  # in the middle of an event
                await writer.drain()
                raise Lost
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


async def _lose() -> None:
    raise Lost


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
