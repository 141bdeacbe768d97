"""Forwards ports of this host to pods (`hostPort`): on its loopback address, unless the pod names another."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.manifest import Manifest, uid_of
from volcano.nodes.cri import Runtime
from volcano.nodes.shim.specs import Failure

log = Log("kubelet")

LOOPBACK = "127.0.0.1"
# The port may still be held by a pod that is terminating.
LISTEN_BACKOFF = Backoff(first=0.5, longest=10.0)
CHUNK_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of this host and the pod's port that it is forwarded to."""

    address: str
    number: int
    protocol: str
    target: int


def host_ports(spec: Manifest, *, own_network: bool) -> Iterator[HostPort]:
    """The host ports of a pod. On a shared network, a port that equals its target needs no forwarding."""
    if spec.get("hostNetwork"):
        return
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            number, target = port.get("hostPort"), port["containerPort"]
            if number and (own_network or number != target):
                yield HostPort(port.get("hostIP") or LOOPBACK, number, port.get("protocol") or "TCP", target)


class HostPorts:
    """Listens for the pods of this host. `warn` is called with the text of an event when a port cannot be opened."""

    def __init__(self, runtime: Runtime, clock: Clock, warn: Callable[[Manifest, str], None]) -> None:
        self._runtime = runtime
        self._clock = clock
        self._warn = warn
        self._addresses: dict[str, str] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}  # the pod's uid

    def open(self, pod: Manifest, address: str) -> None:
        """Opens the ports of a pod, or updates its address."""
        uid = uid_of(pod)
        known = uid in self._addresses
        self._addresses[uid] = address
        if not known:
            for port in host_ports(pod["spec"], own_network=self._runtime.features.own_network):
                self._spawn(uid, self._listen(pod, port))

    def close_pod(self, uid: str) -> None:
        """Closes the ports of a pod and their connections."""
        self._addresses.pop(uid, None)
        for task, owner in self._tasks.items():
            if owner == uid:
                task.cancel()

    async def close(self) -> None:
        """Closes every port; returns when all connections are closed."""
        self._addresses.clear()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, uid: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"host port of {uid}")
        self._tasks[task] = uid
        task.add_done_callback(self._tasks.pop)
        return task

    async def _listen(self, pod: Manifest, port: HostPort) -> None:
        if port.protocol != "TCP":
            self._warn(pod, f"hostPort {port.number}/{port.protocol} is not forwarded: only TCP is")
            return
        uid, failures = uid_of(pod), 0

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if uid in self._addresses:
                work = self._spawn(uid, self._forward(uid, port, reader, writer))
                work.add_done_callback(
                    lambda _: writer.close()
                )  # also when the task is cancelled before it starts
            else:
                writer.transport.abort()

        while True:
            try:
                server = await asyncio.start_server(accept, port.address, port.number)
            except OSError as error:
                if failures == 1:
                    why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
                    self._warn(pod, f"hostPort is not forwarded yet: {port.address}:{port.number}: {why}")
                await self._clock.sleep(LISTEN_BACKOFF.delay(failures))
                failures += 1
            else:
                async with server:
                    await server.serve_forever()

    async def _forward(
        self, uid: str, port: HostPort, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            try:
                from_pod, to_pod = await self._dial(uid, port.target)
            except (OSError, Failure) as error:
                log.debug("host port connection failed", pod=uid, port=port.number, reason=str(error))
                writer.transport.abort()
                return
            try:
                await relay((reader, to_pod), (from_pod, writer))
            finally:
                to_pod.close()

    async def _dial(self, uid: str, port: int) -> "StreamPair":
        sock = await self._runtime.connect(uid, port, host=self._addresses.get(uid, ""))
        with ExitStack() as stack:
            stack.callback(sock.close)
            streams = await asyncio.open_connection(sock=sock)
            stack.pop_all()
        return streams


StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(*pairs: StreamPair) -> None:
    """Copies in both directions until both have ended; an error in one ends the other."""
    tasks = [asyncio.create_task(_copy(*pair)) for pair in pairs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_SIZE):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
