"""What the node agent asks of whatever runs containers: the keeper's process runtimes, or a container engine."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from volcano.nodes.shim.specs import ContainerSpec, ContainerState, SandboxSpec, SandboxState, Usage


@dataclass(frozen=True, slots=True)
class Features:
    """What a runtime gives a pod. `limitations` are sentences for an event: what it cannot give here."""

    own_network: bool
    pulls_images: bool
    enforces_limits: bool
    any_user: bool
    limitations: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ExistingPods:
    """What was still there when a runtime was opened: pods of an earlier process, to be adopted."""

    sandboxes: Sequence[SandboxState] = ()
    containers: Sequence[ContainerState] = ()  # every attempt it remembers, those that ended since included


class Process(Protocol):
    """A process started in a container, or a container attached to, seen through descriptors that the caller owns.

    With a terminal `stdin` and `stdout` are the same descriptor (the pty's master) and `stderr` is None.
    """

    stdin: int | None
    stdout: int | None
    stderr: int | None

    async def wait(self) -> int:
        """The exit code; 128 + the signal's number when a signal ended it."""
        ...

    def resize(self, rows: int, columns: int) -> None: ...

    def close(self) -> None:
        """Lets go of the descriptors; a process started with `execute` that still runs is hung up on and killed."""
        ...


class Runtime(Protocol):
    """Every method may raise a `Failure` (see keeper.specs); a pod or container that is gone is no error to end."""

    name: str
    features: Features

    async def open(self) -> ExistingPods:
        """Starts or finds what does the work, and tells what runs already."""
        ...

    async def close(self, *, keep: bool) -> None:
        """Lets go. With `keep`, pods run on for whoever opens it next; without, they end and nothing is left."""
        ...

    def on_change(self, tell: Callable[[ContainerState], None]) -> None:
        """`tell` is called in the event loop whenever a container ends (also one ended by `signal`)."""
        ...

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        """Idempotent: a sandbox that is there is returned as it is."""
        ...

    async def remove_sandbox(self, pod: str) -> None:
        """Kills what still runs in it and takes everything away but the pod's directory and its logs."""
        ...

    async def start(self, spec: ContainerSpec) -> ContainerState: ...

    async def signal(self, pod: str, container: str, number: int) -> None:
        """To the first process; SIGKILL to the whole tree. The end is heard of through `on_change`."""
        ...

    async def execute(
        self,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        tty: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """A further process in a running container, with the container's own environment, user and directory."""
        ...

    async def attach(self, pod: str, container: str) -> Process:
        """The container's own stdin (where its spec asks for one) and its output from now on."""
        ...

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        """A connected, non-blocking TCP socket to a port of the pod, from within its network. OSError when refused."""
        ...

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        """A socket that pods reach at `address`:`port`, bound and listening; None where pods share the host's network.

        It is kept across a restart of `volcano`: what arrives in between waits.
        """
        ...

    async def usage(self) -> Sequence[Usage]: ...

    async def written(self, pod: str) -> Mapping[str, int]:
        """What containers have written beside their volumes, in bytes, where that is not in the pod's directory."""
        ...
