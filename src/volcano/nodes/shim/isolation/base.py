"""What the shim asks of an isolation: `plain` gives little of it, `namespaces` gives all."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from volcano.nodes.shim.specs import ContainerSpec, Identity, SandboxSpec, Usage


@dataclass(frozen=True, slots=True)
class Stdio:
    """The descriptors a process starts with. With `tty` all three are the terminal's end of one pty."""

    stdin: int
    stdout: int
    stderr: int
    tty: bool = False


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A further process inside a running container (exec)."""

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str = ""
    identity: Identity = field(default_factory=Identity)


def strerror(error: OSError) -> str:
    """The text of an error as container runtimes write it: that of the C library, in lower case."""
    return (error.strerror or str(error)).lower()


class Sandbox(Protocol):
    """What the containers of one pod share, as the isolation holds it."""

    spec: SandboxSpec
    address: str


class Isolation(Protocol):
    """Every method is called in the shim's one thread and must not block for long.

    `start` and `execute` fork: the child sets itself up and executes the program; what goes wrong before that comes
    back as a `Failure` (through a close-on-exec pipe), never as a traceback. The pid returned is one that the shim
    itself can wait for.
    """

    limitations: Sequence[str]  # sentences for the user: what this isolation cannot give on this machine

    def open(self) -> None:
        """Once, before anything else, in the shim process: enters the hub's namespaces, builds its bridge."""
        ...

    def create(self, spec: SandboxSpec) -> Sandbox: ...

    def start(self, sandbox: Sandbox, spec: ContainerSpec, stdio: Stdio) -> int:
        """Starts a container; returns its pid."""
        ...

    def execute(
        self, sandbox: Sandbox, spec: ContainerSpec, pid: int, command: ExecCommand, stdio: Stdio
    ) -> int:
        """Starts a further process in the container whose first process is `pid`."""
        ...

    def open_terminal(self, sandbox: Sandbox, pid: int) -> tuple[int, int]:
        """A pty as the container sees it (its own /dev/pts where it has one): master and slave descriptors."""
        ...

    def signal(self, sandbox: Sandbox, pid: int, number: int) -> None:
        """Sends a signal to the container's first process; SIGKILL goes to its whole tree."""
        ...

    def finish(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> bool:
        """Called once when the first process has ended: the rest of the tree ends with it, its root and limits go.

        True when the kernel killed something in it for want of memory.
        """
        ...

    def remove(self, sandbox: Sandbox) -> None:
        """Takes the sandbox away: namespaces, mounts, cgroups. Its containers are over by now."""
        ...

    def open_socket(self, sandbox: Sandbox | None, family: int, kind: int) -> socket.socket:
        """A socket in the pod's network, or in the hub's when no sandbox is named; not connected, not bound."""
        ...

    def usage(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> Usage | None: ...

    def close(self) -> None:
        """Once, at the end: whatever is still there goes."""
        ...
