"""Interface between the shim and an isolation."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from volcano.nodes.shim.specs import ContainerSpec, Identity, SandboxSpec, Usage


@dataclass(frozen=True, slots=True)
class Stdio:
    """The descriptors a process starts with. With `tty` all three are the slave end of one pty."""

    stdin: int
    stdout: int
    stderr: int
    tty: bool = False


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A process to execute inside a running container."""

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str = ""
    identity: Identity = field(default_factory=Identity)


def strerror(error: OSError) -> str:
    """The text of an error as container runtimes write it: that of the C library, in lower case."""
    return (error.strerror or str(error)).lower()


class Sandbox(Protocol):
    """The sandbox of a pod as the isolation holds it."""

    spec: SandboxSpec
    address: str


class Isolation(Protocol):
    """Starts processes of pods with some isolation. Called in the single thread of the shim; must not block
    for long.

    `start` and `execute` fork: the child sets itself up and executes the program; an error before that is
    returned as a `Failure` (through a close-on-exec pipe). The returned pid is a child of the shim.
    """

    limitations: Sequence[str]  # sentences for the user: what this isolation cannot provide on this machine

    def open(self) -> None:
        """Called once, before any other method: joins the shim's namespaces and builds the pod network."""
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
        """Opens a pty in the container's own /dev/pts where it has one; returns master and slave descriptors."""
        ...

    def signal(self, sandbox: Sandbox, pid: int, number: int) -> bool:
        """Sends a signal to the container's first process; SIGKILL is sent to all its processes.

        Returns True if the process was killed in place of the signal, whose default action ends it.
        """
        ...

    def finish(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> bool:
        """Called once after the first process has exited: kills the other processes, removes the root
        filesystem and cgroups.

        Returns True when the kernel killed a process in it for lack of memory.
        """
        ...

    def remove(self, sandbox: Sandbox) -> None:
        """Removes the namespaces, mounts and cgroups of a sandbox whose containers have exited."""
        ...

    def open_socket(self, sandbox: Sandbox | None, family: int, kind: int) -> socket.socket:
        """Opens an unconnected socket in the pod's network, or in the shim's when no sandbox is given."""
        ...

    def usage(self, sandbox: Sandbox, spec: ContainerSpec, pid: int) -> Usage | None: ...

    def close(self) -> None:
        """Called once, at shutdown: removes everything that is left."""
        ...
