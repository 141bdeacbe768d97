"""Client connection to a shim: matches responses to requests and dispatches notices."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

from volcano.nodes.shim import wire
from volcano.nodes.shim.specs import Failure

Response = tuple[Any, list[int]]


class ShimConnection:
    """Connection in the running event loop. `on_disconnect` is called once, never after `close`."""

    def __init__(
        self,
        connection: socket.socket,
        on_notice: Callable[[wire.Message], None],
        on_disconnect: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = wire.Channel(connection)
        self._on_notice = on_notice
        self._on_disconnect = on_disconnect
        self._pending: dict[int, asyncio.Future[Response]] = {}
        self._count = 0
        self._open = True
        self._loop.add_reader(self._channel.fileno(), self._read)

    async def call(self, request: str, **content: Any) -> Response:
        """Returns the response; the caller closes its descriptors. Failure when the shim returns an error."""
        number = self.send(request, **content)
        response: asyncio.Future[Response] = self._loop.create_future()
        self._pending[number] = response
        try:
            return await response
        except asyncio.CancelledError:
            if response.done() and not response.cancelled() and not response.exception():
                _close(response.result()[1])
            raise
        finally:
            # The descriptors of a late response are closed.
            self._pending.pop(number, None)

    def send(self, request: str, **content: Any) -> int:
        """Sends a request without waiting for the response; returns its id."""
        if not self._open:
            raise Failure("RuntimeUnavailable", "the shim is not running")
        self._count += 1
        self._channel.send({"id": self._count, "do": request, **content})
        self._write()
        return self._count

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        pending, self._pending = self._pending, {}
        for response in pending.values():
            if not response.done():
                response.set_exception(Failure("RuntimeUnavailable", "the shim is not running"))

    def _read(self) -> None:
        try:
            arrived = self._channel.receive()
        except EOFError:
            self._disconnected()
            return
        for message, descriptors in arrived:
            if "id" in message:
                self._on_response(message, descriptors)
            else:
                _close(descriptors)
                # After the caller of a request has continued: the start of a container must be processed
                # before its exit.
                self._loop.call_soon(self._on_notice, message)

    def _on_response(self, message: wire.Message, descriptors: list[int]) -> None:
        response = self._pending.pop(message["id"], None)
        if response is None or response.done():
            _close(descriptors)
        elif "error" in message:
            _close(descriptors)
            response.set_exception(wire.failure_from_json(message["error"]))
        else:
            response.set_result((message["result"], descriptors))

    def _write(self) -> None:
        try:
            self._channel.flush()
        except OSError:
            # The last messages of the shim may still be unread.
            self._loop.remove_writer(self._channel.fileno())
            return
        if self._channel.unsent:
            self._loop.add_writer(self._channel.fileno(), self._write)
        else:
            self._loop.remove_writer(self._channel.fileno())

    def _disconnected(self) -> None:
        self.close()
        self._on_disconnect()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
