"""A process of the user namespace that stays in the host's network, where the shim cannot go back to.

It starts the containers of pods with `hostNetwork: true` in the shim's name (they become the shim's children), and
opens sockets for it. It shares the shim's mounts, so a container's root is made there as anywhere else.
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
class _Answer:
    pid: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Start:
    """A program to be started; its descriptors travel beside it, and are numbered anew where they arrive."""

    around: launch.Surroundings
    files: launch.Root | None
    program: launch.Program
    flags: int
    inside: bool  # an existing pid namespace

    def descriptors(self) -> list[int]:
        stdio = self.program.stdio
        return [stdio.stdin, stdio.stdout, stdio.stderr, *(each for each, _ in self.around.namespaces)]

    def numbered(self, arrived: Sequence[int]) -> "_Start":
        stdio = Stdio(arrived[0], arrived[1], arrived[2], tty=self.program.stdio.tty)
        kinds = [kind for _, kind in self.around.namespaces]
        around = dataclasses.replace(self.around, namespaces=tuple(zip(arrived[3:], kinds, strict=True)))
        return dataclasses.replace(
            self, around=around, program=dataclasses.replace(self.program, stdio=stdio)
        )

    def run(self) -> int:
        first = launch.run_inside if self.inside else launch.run
        return first(self.around, self.files, self.program, self.flags, for_parent=True)


@dataclass(frozen=True, slots=True)
class _Socket:
    family: int
    kind: int


class Outpost:
    """Made before the shim leaves the host's network."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _serve(theirs)
            finally:
                os._exit(1)
        theirs.close()

    def start(
        self,
        around: launch.Surroundings,
        files: launch.Root | None,
        program: launch.Program,
        flags: int,
        *,
        inside: bool,
    ) -> int:
        request = _Start(around, files, program, flags, inside)
        answer, _ = self._ask(request, request.descriptors())
        return answer.pid

    def open_socket(self, family: int, kind: int) -> socket.socket:
        _, arrived = self._ask(_Socket(family, kind), [])
        return socket.socket(family, kind, fileno=arrived[0])

    def close(self) -> None:
        self._channel.close()  # which is how it hears of it
        os.waitpid(self._pid, 0)

    def _ask(self, request: object, descriptors: Sequence[int]) -> tuple[_Answer, list[int]]:
        try:
            _send(self._channel, request, descriptors)
            answer, arrived = _receive(self._channel)
        except (OSError, EOFError) as error:
            message = (
                "the process that stays in the host's network is gone: hostNetwork is not possible any more"
            )
            raise Failure("RunContainerError", message) from error
        if not isinstance(answer, _Answer):
            raise TypeError(f"the outpost answered with {answer!r}")
        if answer.reason:
            raise Failure(answer.reason, answer.message)
        return answer, arrived


def _serve(channel: socket.socket) -> NoReturn:
    syscalls.close_from(3, kept=channel.fileno())
    signal.set_wakeup_fd(-1)
    launch.default_signals()
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    while True:
        try:
            request, arrived = _receive(channel)
        except EOFError:
            os._exit(0)
        made: list[int] = []
        try:
            answer = _Answer(pid=_done(request, arrived, made))
        except Failure as failure:
            answer = _Answer(reason=failure.reason, message=failure.message)
        except OSError as error:
            answer = _Answer(reason="RunContainerError", message=str(error))
        _send(channel, answer, made)
        for descriptor in (*arrived, *made):
            os.close(descriptor)


def _done(request: object, arrived: Sequence[int], made: list[int]) -> int:
    match request:
        case _Start():
            return request.numbered(arrived).run()
        case _Socket(family=family, kind=kind):
            made.append(socket.socket(family, kind).detach())
            return 0
    raise Failure("RunContainerError", f"the outpost knows no {type(request).__name__}")


def _send(channel: socket.socket, value: object, descriptors: Sequence[int]) -> None:
    body = pickle.dumps(value)
    socket.send_fds(channel, [_SIZE.pack(len(body))], list(descriptors))
    channel.sendall(body)


def _receive(channel: socket.socket) -> tuple[object, list[int]]:
    """Both ends are this very program, of the same user: what is unpickled is what we have pickled."""
    header, arrived, _, _ = socket.recv_fds(channel, _SIZE.size, _MOST_DESCRIPTORS)
    if not header:
        raise EOFError
    for descriptor in arrived:
        os.set_inheritable(descriptor, False)
    left, parts = _SIZE.unpack(header)[0], []
    while left:
        part = channel.recv(left)
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return pickle.loads(b"".join(parts)), arrived
