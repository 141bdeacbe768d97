"""Runs commands in a container through the API server: to the end, or with a terminal."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import orjson

from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.websocket import HandshakeRejected, WebSocket
from volcano.kube.api.errors import ApiError, Unavailable
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.http import HttpClient
from volcano.kube.client.replies import error_of_reply
from volcano.kube.client.requests import path_of

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE = 0, 1, 2, 3, 4
_MAX_STDERR = 4096


class ExecFailed(Exception):
    """The command could not be run, or ended with an error; the message includes what it wrote to stderr."""


async def execute(
    client: HttpClient, pod: Key, container: str, command: Sequence[str], on_output: Callable[[bytes], object]
) -> None:
    """Runs a command without input to its end; `on_output` gets its standard output in pieces."""
    target = _target(pod, container, command, "stdout", "stderr")
    errors, status = b"", b""
    try:
        async with client.websocket(target, protocols=PROTOCOLS) as socket:
            async for message in socket:
                channel, data = message.data[0] if message.data else -1, message.data[1:]
                if channel == _STDOUT:
                    on_output(data)
                elif channel == _STDERR:
                    errors = (errors + data)[:_MAX_STDERR]
                elif channel == _STATUS:
                    status += data
    except RequestFailed as error:
        raise _error(error) from error
    _check(pod, orjson.loads(status) if status else {}, errors.decode("utf-8", "replace").strip())


def _check(pod: Key, status: Manifest, errors: str) -> None:
    if status.get("status") == "Success":
        return
    reason = errors or status.get("message") or "the connection was closed before its end"
    raise ExecFailed(f"command in pod {pod} failed: {reason}")


class Terminal:
    """A command with a terminal in a container. Iterating over it receives its output until it ends."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._status = b""

    async def send(self, data: bytes) -> None:
        """Sends input. Raises ConnectionError after the end of the command."""
        await self._socket.send(bytes([_STDIN]) + data)

    async def resize(self, columns: int, rows: int) -> None:
        await self._socket.send(bytes([_RESIZE]) + orjson.dumps({"Width": columns, "Height": rows}))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._socket:
            channel, data = message.data[0] if message.data else -1, message.data[1:]
            if channel in (_STDOUT, _STDERR) and data:
                yield data
            elif channel == _STATUS:
                self._status += data

    @property
    def end(self) -> str:
        """Why the command ended: "" after success."""
        status = orjson.loads(self._status) if self._status else {}
        if status.get("status") == "Success":
            return ""
        return str(status.get("message") or "the connection was closed")


@asynccontextmanager
async def terminal(
    client: HttpClient, pod: Key, container: str, command: Sequence[str]
) -> AsyncIterator[Terminal]:
    """Starts a command with a terminal; leaving the block ends the connection and with it the command. Raises
    the error of the API server when it rejects the command."""
    target = _target(pod, container, command, "stdin", "stdout", "tty")
    try:
        async with client.websocket(target, protocols=PROTOCOLS) as socket:
            yield Terminal(socket)
    except RequestFailed as error:
        raise _error(error) from error


def _error(failure: RequestFailed) -> ApiError:
    """The error of the API server, such as Forbidden, where there is an answer of it."""
    if isinstance(failure, HandshakeRejected):
        return error_of_reply(failure.status, failure.headers, failure.body)
    return Unavailable(str(failure))


def _target(pod: Key, container: str, command: Sequence[str], *streams: str) -> str:
    words = [
        ("container", container),
        *((stream, "true") for stream in streams),
        *(("command", word) for word in command),
    ]
    return f"{path_of(POD, pod.namespace, pod.name, 'exec')}?{urlencode(words)}"
