"""The agent's end of the line to a shim: questions find their answers, notices their listener."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

from volcano.nodes.shim import wire
from volcano.nodes.shim.specs import Failure

Answer = tuple[Any, list[int]]


class Line:
    """A connection in the running event loop. `lost` is called once when the shim hangs up, never after `close`."""

    def __init__(
        self, connection: socket.socket, heard: Callable[[wire.Message], None], lost: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = wire.Channel(connection)
        self._heard = heard
        self._lost = lost
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._count = 0
        self._open = True
        self._loop.add_reader(self._channel.fileno(), self._read)

    async def ask(self, what: str, **content: Any) -> Answer:
        """The answer, with descriptors that are the caller's from then on. Failure when the shim says no."""
        number = self.say(what, **content)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[number] = answer
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and not answer.exception():
                _close(answer.result()[1])
            raise
        finally:
            # An answer that comes later is not waited for: its descriptors are closed.
            self._waiting.pop(number, None)

    def say(self, what: str, **content: Any) -> int:
        """Asks for something whose answer nobody waits for."""
        if not self._open:
            raise Failure("RuntimeUnavailable", "the shim has gone")
        self._count += 1
        self._channel.send({"id": self._count, "do": what, **content})
        self._write()
        return self._count

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(Failure("RuntimeUnavailable", "the shim has gone"))

    def _read(self) -> None:
        try:
            arrived = self._channel.receive()
        except EOFError:
            self._hung_up()
            return
        for message, descriptors in arrived:
            if "id" in message:
                self._answered(message, descriptors)
            else:
                _close(descriptors)
                # After whoever has just got his answer: a container is known to have started before it is known to end.
                self._loop.call_soon(self._heard, message)

    def _answered(self, message: wire.Message, descriptors: list[int]) -> None:
        answer = self._waiting.pop(message["id"], None)
        if answer is None or answer.done():
            _close(descriptors)
        elif "error" in message:
            _close(descriptors)
            answer.set_exception(wire.failure(message["error"]))
        else:
            answer.set_result((message["result"], descriptors))

    def _write(self) -> None:
        try:
            self._channel.flush()
        except OSError:
            # What the shim said last may still be waiting to be read.
            self._loop.remove_writer(self._channel.fileno())
            return
        if self._channel.unsent:
            self._loop.add_writer(self._channel.fileno(), self._write)
        else:
            self._loop.remove_writer(self._channel.fileno())

    def _hung_up(self) -> None:
        self.close()
        self._lost()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
