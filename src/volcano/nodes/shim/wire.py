"""Protocol between kubelet and shim: length-prefixed JSON frames with file descriptors over a Unix socket.

A request is `{"id": n, "do": name, ...}`; its response `{"id": n, "result": ...}` or `{"id": n, "error":
{"reason", "message"}}`. A frame without an id is a notice: `{"notice": "ended", "state": ...}` or
`{"notice": "exec-ended", "exec": n, "code": c}`.
"""

import array
import contextlib
import dataclasses
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from volcano.nodes.shim.specs import ContainerSpec, Failure, GpuAccess, Identity, Mount, SandboxSpec, Security

# Version of the protocol. `hello` and `shutdown` never change, so that any volcano can recognise an older
# shim and shut it down.
VERSION = 4
Message = dict[str, Any]

_LENGTH = struct.Struct("!I")
_MAX_FRAME = 64 << 20
_MAX_READ = 256 << 10
_MAX_DESCRIPTORS = 16
_MAX_QUEUE = 64 << 20


class Channel:
    """One end of a connection; never blocks. The channel closes the descriptors passed to `send`."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._incoming = bytearray()
        self._received: deque[int] = deque()
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._queued = 0

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def unsent(self) -> bool:
        return bool(self._outgoing)

    @property
    def over_limit(self) -> bool:
        """True when the peer has not read for so long that it should be disconnected."""
        return self._queued > _MAX_QUEUE

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Queues a frame; `flush` sends it."""
        text = json.dumps({**message, "descriptors": len(descriptors)} if descriptors else message).encode()
        frame = _LENGTH.pack(len(text)) + text
        self._queued += len(frame)
        self._outgoing.append((memoryview(frame), tuple(descriptors)))

    def flush(self) -> None:
        """Sends what the socket accepts now. OSError when the peer has closed the connection."""
        while self._outgoing:
            rest, descriptors = self._outgoing[0]
            rights = (
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            )
            try:
                sent = self._connection.sendmsg([rest], rights)
            except (BlockingIOError, InterruptedError):
                return
            # The descriptors were sent with the first bytes: the receiver has its own copies.
            _close_all(descriptors)
            self._queued -= sent
            if sent == len(rest):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = (rest[sent:], ())

    def receive(self) -> list[tuple[Message, list[int]]]:
        """Returns the received frames, each with its descriptors. EOFError when the peer has closed the connection."""
        space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4)
        try:
            text, rights, flags, _ = self._connection.recvmsg(_MAX_READ, space, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise EOFError(str(error)) from error
        for level, kind, content in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                self._received.extend(numbers)
        if not text or flags & socket.MSG_CTRUNC:
            raise EOFError("the connection was closed")
        self._incoming += text
        return self._frames()

    def _frames(self) -> list[tuple[Message, list[int]]]:
        # Descriptors arrive in the order of their frames, though a read may return earlier frames with them.
        frames = []
        while len(self._incoming) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._incoming)
            if length > _MAX_FRAME:
                raise EOFError(f"a frame of {length} bytes is over the limit of {_MAX_FRAME}")
            end = _LENGTH.size + length
            if len(self._incoming) < end:
                break
            message = json.loads(bytes(self._incoming[_LENGTH.size : end]))
            del self._incoming[:end]
            frames.append((message, [self._received.popleft() for _ in range(message.pop("descriptors", 0))]))
        return frames

    def close(self) -> None:
        for _, descriptors in self._outgoing:
            _close_all(descriptors)
        _close_all(self._received)
        self._outgoing.clear()
        self._received.clear()
        self._connection.close()


def to_json(value: Any) -> Message:
    """A value of specs.py as JSON."""
    return dataclasses.asdict(value)


def sandbox_spec(message: Mapping[str, Any]) -> SandboxSpec:
    return SandboxSpec(**{**message, "names": tuple(message["names"])})


def container_spec(message: Mapping[str, Any]) -> ContainerSpec:
    security: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in message["security"].items()
    }
    return ContainerSpec(
        **{
            **message,
            "command": tuple(message["command"]),
            "mounts": tuple(Mount(**mount) for mount in message["mounts"]),
            "identity": identity(message["identity"]),
            "security": Security(**security),
            "gpus": GpuAccess(**{name: tuple(value) for name, value in message["gpus"].items()}),
            "cpus": tuple(message["cpus"]),
        }
    )


def identity(message: Mapping[str, Any]) -> Identity:
    return Identity(**{**message, "groups": tuple(message["groups"])})


def failure_from_json(message: Mapping[str, Any]) -> Failure:
    return Failure(message["reason"], message["message"], exit_code=message.get("exit_code", 128))


def failure_to_json(error: Failure) -> Message:
    return {"reason": error.reason, "message": error.message, "exit_code": error.exit_code}


def bind(directory: str, name: str) -> socket.socket:
    """Returns a listening Unix socket `name` in a directory; its path may exceed the 107 bytes of an address."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _opened(directory) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            listener.bind(f"/proc/self/fd/{folder}/{name}")
        listener.listen(64)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def connect(directory: str, name: str) -> socket.socket:
    """Connects to the Unix socket `name` in a directory. OSError when no process listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _opened(directory) as folder:
            connection.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError:
        connection.close()
        raise
    return connection


def peer_uid(connection: socket.socket) -> int:
    """User id of the peer process, as seen in this process's user namespace."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


@contextlib.contextmanager
def _opened(directory: str) -> Any:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def _close_all(descriptors: Any) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
