"""Node ports: forwards ports of this host's loopback address to the endpoints of Services."""

import asyncio
import itertools
import os
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from volcano.base.clock import Clock
from volcano.base.http.dialer import Dial
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.nodes.kubelet.hostports import LOOPBACK, relay
from volcano.nodes.kubelet.network.services import NodePort

log = Log("network")

LISTEN_BACKOFF = Backoff(first=0.5, longest=10.0)


class NodePortListener:
    """Listens on the loopback address for TCP node ports; `dial` connects to an endpoint."""

    def __init__(self, dial: Dial, clock: Clock) -> None:
        self._dial = dial
        self._clock = clock
        self._ports: dict[int, NodePort] = {}
        self._listening: dict[int, asyncio.Task[None]] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._turn = itertools.count()

    def update(self, ports: Sequence[NodePort]) -> None:
        """Opens new ports, closes those that are gone, and replaces the endpoints of the others."""
        self._ports = {port.number: port for port in ports if port.protocol == "TCP"}
        for number in self._listening.keys() - self._ports.keys():
            self._listening.pop(number).cancel()
        for number in self._ports.keys() - self._listening.keys():
            self._listening[number] = asyncio.create_task(self._listen(number), name=f"node port {number}")

    async def close(self) -> None:
        tasks = [*self._listening.values(), *self._connections]
        self._listening.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, number: int) -> None:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._spawn(self._forward(number, reader, writer)).add_done_callback(lambda _: writer.close())

        failures = 0
        while True:
            try:
                server = await asyncio.start_server(accept, LOOPBACK, number)
            except OSError as error:
                if not failures:
                    why = os.strerror(error.errno or 0)
                    log.warning("node port not opened, retrying", address=f"{LOOPBACK}:{number}", reason=why)
                await self._clock.sleep(LISTEN_BACKOFF.delay(failures))
                failures += 1
            else:
                async with server:
                    await server.serve_forever()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        return task

    async def _forward(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected = await self._connect(number)
        if connected is None:
            writer.transport.abort()  # connection reset, as without any endpoint
            return
        from_pod, to_pod = await asyncio.open_connection(sock=connected)
        try:
            with suppress(OSError):
                await relay((reader, to_pod), (from_pod, writer))
        finally:
            to_pod.close()

    async def _connect(self, number: int) -> socket.socket | None:
        """Connects to the endpoints in turn; one that does not answer is skipped."""
        port = self._ports.get(number)
        endpoints = port.endpoints if port is not None else ()
        first = next(self._turn)
        for position in range(len(endpoints)):
            host, target = endpoints[(first + position) % len(endpoints)]
            try:
                return await self._dial(host, target)
            except OSError as error:
                log.debug("endpoint not reached", address=f"{host}:{target}", reason=str(error))
        return None
