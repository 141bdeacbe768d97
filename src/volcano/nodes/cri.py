"""Container runtime interface: the calls a kubelet makes to the shim's process runtimes or to a container engine."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from volcano.nodes.shim.network_rules import NetworkRules
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, SandboxSpec, SandboxState, Usage


@dataclass(frozen=True, slots=True)
class Features:
    """Capabilities of a runtime. `limitations` are sentences for an event about features it lacks on this host."""

    own_network: bool
    pulls_images: bool
    enforces_limits: bool
    any_user: bool
    limitations: Sequence[str] = ()
    network_rules: bool = False  # Services have addresses, and NetworkPolicies are enforced


@dataclass(frozen=True, slots=True)
class ExistingPods:
    """Pods left by an earlier process, found when the runtime is opened; the kubelet adopts them."""

    sandboxes: Sequence[SandboxState] = ()
    containers: Sequence[ContainerState] = ()  # every attempt the runtime knows, ended ones included


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
        """Closes the descriptors; a process started with `execute` that still runs gets SIGHUP and SIGKILL."""
        ...


class Runtime(Protocol):
    """Runs pods. Every method may raise a `Failure` (see shim.specs); removing what is missing is no error."""

    name: str
    features: Features

    async def open(self) -> ExistingPods:
        """Starts or connects to the runtime and returns the pods it already runs."""
        ...

    async def close(self, *, keep: bool) -> None:
        """Disconnects. With `keep`, pods keep running for the next `open`; without, they are killed and removed."""
        ...

    def on_change(self, handler: Callable[[ContainerState], None]) -> None:
        """Sets the handler called in the event loop whenever a container ends (also one ended by `signal`)."""
        ...

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        """Idempotent: an existing sandbox is returned unchanged."""
        ...

    async def remove_sandbox(self, pod: str) -> None:
        """Kills the containers and removes everything but the pod's directory and its logs."""
        ...

    async def start(self, spec: ContainerSpec) -> ContainerState: ...

    async def signal(self, pod: str, container: str, number: int) -> None:
        """Signals the first process; SIGKILL goes to the whole process tree. `on_change` reports the end."""
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
        """Starts a further process in a running container, with the container's environment, user and directory."""
        ...

    async def attach(self, pod: str, container: str) -> Process:
        """The container's own stdin (where its spec asks for one) and its output from now on."""
        ...

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        """A connected, non-blocking TCP socket to a port of the pod, from within its network. Raises OSError."""
        ...

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        """A bound and listening socket that pods reach at `address`:`port`; None where pods share the host's network.

        The socket survives a restart of `volcano`: connections made in between wait in its backlog.
        """
        ...

    async def apply_network_rules(self, rules: NetworkRules) -> None:
        """Replaces the rules of the pods' network at once; only where `features.network_rules` is true."""
        ...

    async def usage(self) -> Sequence[Usage]: ...

    async def writable_layers(self, pod: str) -> Mapping[str, int]:
        """Bytes in the writable layers of containers, where those are not in the pod's directory."""
        ...
