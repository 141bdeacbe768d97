"""Host network helper: a process of the user namespace that stays in the host's network, which the shim
cannot rejoin.

It starts the containers of pods with `hostNetwork: true` (they become children of the shim) and opens
sockets for the shim. It shares the shim's mount namespace, so that root filesystems are built in the same
way.
"""

import dataclasses
import os
import pickle
import signal
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from volcano.nodes.shim.isolation import launch, syscalls
from volcano.nodes.shim.isolation.base import Stdio
from volcano.nodes.shim.specs import Failure

_SIZE = struct.Struct("=I")
_MOST_DESCRIPTORS = 16


@dataclass(frozen=True, slots=True)
class _Response:
    pid: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Start:
    """A process to start; its descriptors are passed beside it and renumbered on arrival."""

    join: launch.JoinSpec
    rootfs_spec: launch.RootfsSpec | None
    process: launch.ProcessSpec
    flags: int
    join_pid_namespace: bool

    def descriptors(self) -> list[int]:
        stdio = self.process.stdio
        return [stdio.stdin, stdio.stdout, stdio.stderr, *(each for each, _ in self.join.namespaces)]

    def with_descriptors(self, received: Sequence[int]) -> "_Start":
        stdio = Stdio(received[0], received[1], received[2], tty=self.process.stdio.tty)
        kinds = [kind for _, kind in self.join.namespaces]
        join = dataclasses.replace(self.join, namespaces=tuple(zip(received[3:], kinds, strict=True)))
        return dataclasses.replace(self, join=join, process=dataclasses.replace(self.process, stdio=stdio))

    def run(self) -> int:
        start = launch.start_in_pid_namespace if self.join_pid_namespace else launch.start
        return start(self.join, self.rootfs_spec, self.process, self.flags, for_parent=True)


@dataclass(frozen=True, slots=True)
class _Socket:
    family: int
    kind: int


@dataclass(frozen=True, slots=True)
class _Spawn:
    command: list[str]


class HostNetworkHelper:
    """Client of the helper process; must be created before the shim leaves the host's network."""

    def __init__(self) -> None:
        self._channel, helper_end = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _serve(helper_end)
            finally:
                os._exit(1)
        helper_end.close()

    def start(
        self,
        join: launch.JoinSpec,
        rootfs_spec: launch.RootfsSpec | None,
        process: launch.ProcessSpec,
        flags: int,
        *,
        join_pid_namespace: bool,
    ) -> int:
        request = _Start(join, rootfs_spec, process, flags, join_pid_namespace)
        response, _ = self._call(request, request.descriptors())
        return response.pid

    def open_socket(self, family: int, kind: int) -> socket.socket:
        _, received = self._call(_Socket(family, kind), [])
        return socket.socket(family, kind, fileno=received[0])

    def spawn(self, command: list[str]) -> int:
        """Starts a program in the host's network, which ends with the helper; returns its pid."""
        try:
            response, _ = self._call(_Spawn(command), [])
        except Failure as failure:
            raise OSError(failure.message) from failure
        return response.pid

    def close(self) -> None:
        self._channel.close()  # the helper exits at end of file
        os.waitpid(self._pid, 0)

    def _call(self, request: object, descriptors: Sequence[int]) -> tuple[_Response, list[int]]:
        try:
            _send(self._channel, request, descriptors)
            response, received = _receive(self._channel)
        except (OSError, EOFError) as error:
            message = (
                "the process that stays in the host's network is gone: hostNetwork is not possible any more"
            )
            raise Failure("RunContainerError", message) from error
        if not isinstance(response, _Response):
            raise TypeError(f"the host network helper sent {response!r}")
        if response.reason:
            raise Failure(response.reason, response.message)
        return response, received


def _serve(channel: socket.socket) -> NoReturn:
    syscalls.close_from(3, kept=channel.fileno())
    signal.set_wakeup_fd(-1)
    launch.reset_signals()
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    while True:
        try:
            request, received = _receive(channel)
        except EOFError:
            os._exit(0)
        opened: list[int] = []
        try:
            response = _Response(pid=_handle(request, received, opened))
        except Failure as failure:
            response = _Response(reason=failure.reason, message=failure.message)
        except OSError as error:
            response = _Response(reason="RunContainerError", message=str(error))
        _send(channel, response, opened)
        for descriptor in (*received, *opened):
            os.close(descriptor)


def _handle(request: object, received: Sequence[int], opened: list[int]) -> int:
    match request:
        case _Start():
            return request.with_descriptors(received).run()
        case _Socket(family=family, kind=kind):
            opened.append(socket.socket(family, kind).detach())
            return 0
        case _Spawn(command=command):
            return _spawn(command)
    raise Failure("RunContainerError", f"the host network helper does not support {type(request).__name__}")


def _spawn(command: list[str]) -> int:
    """Starts a program, which is killed when this process ends."""
    null = os.open(os.devnull, os.O_RDWR)
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            for descriptor in range(3):
                os.dup2(null, descriptor)
            os.execv(command[0], command)
        finally:
            os._exit(127)
    os.close(null)
    return pid


def _send(channel: socket.socket, value: object, descriptors: Sequence[int]) -> None:
    body = pickle.dumps(value)
    socket.send_fds(channel, [_SIZE.pack(len(body))], list(descriptors))
    channel.sendall(body)


def _receive(channel: socket.socket) -> tuple[object, list[int]]:
    """Unpickles a message; the peer is a fork of this process, so the data is trusted."""
    header, received, _, _ = socket.recv_fds(channel, _SIZE.size, _MOST_DESCRIPTORS)
    if not header:
        raise EOFError
    for descriptor in received:
        os.set_inheritable(descriptor, False)
    left, parts = _SIZE.unpack(header)[0], []
    while left:
        part = channel.recv(left)
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return pickle.loads(b"".join(parts)), received
