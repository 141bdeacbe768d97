"""Server of the shim: sandboxes, their containers, and the clients that request them over a socket."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from volcano.nodes.shim import wire
from volcano.nodes.shim.containers import Containers
from volcano.nodes.shim.isolation.base import ExecCommand, Isolation, Sandbox
from volcano.nodes.shim.loop import EventLoop, LogError
from volcano.nodes.shim.network_rules import NetworkRules, rules_from_json
from volcano.nodes.shim.specs import ContainerState, Failure, SandboxState
from volcano.nodes.shim.state_store import StateStore, sandbox_state

Response = tuple[Any, Sequence[int]]
Handler = Callable[["ClientConnection", int, wire.Message], Response | None]
_UNKNOWN_EXIT_CODE = 137


@runtime_checkable
class MemoryLimitEnforcer(Protocol):
    """An isolation that enforces memory limits itself, once a second."""

    def enforce_memory_limits(self) -> None: ...


@runtime_checkable
class SharedNetwork(Protocol):
    """An isolation whose pods share a network, so that the listeners of a port must be looked up."""

    def listening_addresses(self, sandbox: Sandbox, port: int) -> list[str]: ...


@runtime_checkable
class FilteredNetwork(Protocol):
    """An isolation whose pods have a network with rules, where the kernel supports them."""

    has_network_rules: bool

    def apply_network_rules(self, rules: NetworkRules) -> None: ...


@runtime_checkable
class LeftoverRemover(Protocol):
    """An isolation that can remove the pods of an earlier shim that was killed."""

    def remove_leftovers(self, lost: Sequence[SandboxState]) -> None: ...


@dataclass(slots=True, eq=False)
class ClientConnection:
    """A connected client, with the processes it has executed: those are killed when it disconnects."""

    channel: wire.Channel
    executions: dict[int, int] = field(default_factory=dict)  # the client's exec id: pid


@dataclass(frozen=True, slots=True)
class ShimOptions:
    """Options of a shim, fixed at its start."""

    mode: str
    log_size: int  # bytes after which a container's log is rotated
    log_files: int
    holder: int = 0  # pid of the process that holds the lifeline


class ShimServer:
    """Handles requests and reports container exits until it is shut down."""

    def __init__(
        self,
        options: ShimOptions,
        *,
        loop: EventLoop,
        isolation: Isolation,
        store: StateStore,
        now: Callable[[], int],
        log_error: LogError,
    ) -> None:
        self._options = options
        self._loop = loop
        self._isolation = isolation
        self._store = store
        self._now = now
        self._log_error = log_error
        self._containers = Containers(
            loop,
            isolation,
            store,
            now,
            self._on_container_exit,
            log_error,
            log_size=options.log_size,
            log_files=options.log_files,
        )
        self._handlers = self._build_handlers()
        self._sandboxes: dict[str, Sandbox] = {}
        self._clients: list[ClientConnection] = []
        self._listeners: dict[tuple[str, int, bool], socket.socket] = {}
        self._removing: dict[str, list[tuple[ClientConnection, int]]] = {}
        self._shutting_down = False
        self._keep_state = False

    def load_state(self) -> None:
        """Loads saved states. Containers that were running ended with the earlier shim; their exit is unknown."""
        stored = self._store.load()
        if isinstance(self._isolation, LeftoverRemover):
            self._isolation.remove_leftovers(stored.sandboxes)
        for sandbox in stored.sandboxes:
            self._store.delete_sandbox(sandbox.uid)
        for state in sorted(stored.containers, key=lambda state: state.attempt):
            self._containers.add_exited(self._with_unknown_exit(state) if state.running else state)

    def serve(self, listener: socket.socket) -> None:
        """Runs until shutdown; afterwards only the saved states are left, where requested."""
        self._loop.on_readable(listener.fileno(), lambda: self._accept(listener))
        self._loop.on_signal(signal.SIGCHLD, self._containers.reap)
        self._loop.on_signal(signal.SIGTERM, self.shut_down)
        self._loop.every(1.0, self._housekeeping)
        self._loop.run()
        for listener_socket in self._listeners.values():
            listener_socket.close()
        for client in list(self._clients):
            client.channel.close()
        listener.close()

    def shut_down(self) -> None:
        """Kills every container; the loop stops when the last one has exited."""
        self._shutting_down = True
        for key in self._containers.running_keys():
            self._containers.signal(key, signal.SIGKILL)
        self._stop_if_idle()

    # Requests

    def _build_handlers(self) -> dict[str, Handler]:
        return {
            "hello": self._hello,
            "list": self._list,
            "create": self._create,
            "remove": self._remove,
            "start": self._start,
            "signal": self._signal,
            "execute": self._execute,
            "end-execution": self._end_execution,
            "attach": self._attach,
            "socket": self._socket,
            "listen": self._listen,
            "network": self._network,
            "usage": self._usage,
            "shutdown": self._shutdown,
        }

    def _hello(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        return {
            "version": wire.VERSION,
            "mode": self._options.mode,
            "pid": os.getpid(),
            "holder": self._options.holder,
            "limitations": list(self._isolation.limitations),
            "network_rules": isinstance(self._isolation, FilteredNetwork)
            and self._isolation.has_network_rules,
        }, ()

    def _list(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        sandboxes = [wire.to_json(sandbox_state(s.spec, s.address)) for s in self._sandboxes.values()]
        return {
            "sandboxes": sandboxes,
            "containers": [wire.to_json(s) for s in self._containers.states()],
        }, ()

    def _create(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        if self._shutting_down:
            raise Failure("FailedCreatePodSandBox", "the shim is shutting down")
        spec = wire.sandbox_spec(request["spec"])
        if spec.uid in self._removing:
            raise Failure(
                "FailedCreatePodSandBox", f"the sandbox of pod {spec.namespace}/{spec.name} is being removed"
            )
        sandbox = self._sandboxes.get(spec.uid)
        if sandbox is None:
            sandbox = self._isolation.create(spec)
            self._sandboxes[spec.uid] = sandbox
            self._save_sandbox(sandbox)
        return wire.to_json(sandbox_state(sandbox.spec, sandbox.address)), ()

    def _remove(self, client: ClientConnection, number: int, request: wire.Message) -> Response | None:
        """The response is sent once the sandbox is removed."""
        pod = request["pod"]
        self._removing.setdefault(pod, []).append((client, number))
        for key in self._containers.running_keys(pod):
            self._containers.signal(key, signal.SIGKILL)
        self._finish_removal(pod)
        return None

    def _start(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        spec = wire.container_spec(request["spec"])
        sandbox = self._sandbox(spec.pod)
        if self._shutting_down or spec.pod in self._removing:
            raise Failure("RunContainerError", "its sandbox is being removed")
        return wire.to_json(self._containers.start(sandbox, spec)), ()

    def _signal(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        self._containers.signal((request["pod"], request["name"]), request["number"])
        return None, ()

    def _execute(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        exec_id = request["exec"]

        def on_exit(code: int) -> None:
            if client.executions.pop(exec_id, None):
                self._send(client, {"notice": "exec-ended", "exec": exec_id, "code": code})

        pid, ends = self._containers.execute(
            (request["pod"], request["name"]),
            ExecCommand(request["command"], request["environment"]),
            wanted=request["streams"],
            tty=request["tty"],
            on_exit=on_exit,
        )
        client.executions[exec_id] = pid
        descriptors = ends.descriptors()
        return {"pid": pid, "ends": list(descriptors)}, list(descriptors.values())

    def _end_execution(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        if pid := client.executions.get(request["exec"]):
            self._containers.end_execution(pid)
        return None, ()

    def _attach(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        descriptors = self._containers.attach((request["pod"], request["name"])).descriptors()
        return {"ends": list(descriptors)}, list(descriptors.values())

    def _socket(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        """Returns unconnected sockets in the pod's network, one for each address to try."""
        sandbox = self._sandbox(request["pod"])
        if request["host"]:
            targets = [request["host"]]
        elif isinstance(self._isolation, SharedNetwork):
            targets = self._isolation.listening_addresses(sandbox, request["port"])
        else:
            targets = ["127.0.0.1", *([sandbox.address] if sandbox.address else []), "::1"]
        sockets: list[int] = []
        for target in targets:
            family = socket.AF_INET6 if ":" in target else socket.AF_INET
            with contextlib.suppress(OSError):  # IPv6 is not available
                sockets.append(self._isolation.open_socket(sandbox, family, socket.SOCK_STREAM).detach())
        return {"targets": targets[: len(sockets)]}, sockets

    def _listen(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        if isinstance(self._isolation, SharedNetwork):
            return {"listening": False}, ()
        key = (request["address"], request["port"], request["datagram"])
        if key not in self._listeners:
            kind = socket.SOCK_DGRAM if request["datagram"] else socket.SOCK_STREAM
            made = self._isolation.open_socket(None, socket.AF_INET, kind)
            try:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind(key[:2])
                if not request["datagram"]:
                    made.listen(512)
            except OSError as error:
                made.close()
                raise Failure(
                    "RuntimeUnavailable", f"cannot listen on {key[0]}:{key[1]}: {error.strerror}"
                ) from error
            self._listeners[key] = made
        return {"listening": True}, [os.dup(self._listeners[key].fileno())]

    def _network(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        if not isinstance(self._isolation, FilteredNetwork):
            raise Failure("NetworkRulesNotApplied", "pods share the network of this host")
        self._isolation.apply_network_rules(rules_from_json(request["rules"]))
        return None, ()

    def _usage(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        return [wire.to_json(usage) for usage in self._containers.usage()], ()

    def _shutdown(self, client: ClientConnection, number: int, request: wire.Message) -> Response:
        self._keep_state = bool(request.get("keep_records"))
        self.shut_down()
        return None, ()

    # Events

    def _on_container_exit(self, state: ContainerState) -> None:
        for client in list(self._clients):
            self._send(client, {"notice": "ended", "state": wire.to_json(state)})
        if state.pod in self._removing:
            self._finish_removal(state.pod)
        if self._shutting_down:
            self._stop_if_idle()

    def _finish_removal(self, pod: str) -> None:
        if self._containers.running_keys(pod):
            return
        if sandbox := self._sandboxes.pop(pod, None):
            try:
                self._isolation.remove(sandbox)
            except (Failure, OSError) as error:
                self._log_error("sandbox not removed completely", error, pod=pod)
        self._containers.forget(pod)
        for client, number in self._removing.pop(pod, ()):
            self._send(client, {"id": number, "result": None})

    def _stop_if_idle(self) -> None:
        if self._containers.running_keys():
            return
        for sandbox in self._sandboxes.values():
            with contextlib.suppress(Failure, OSError):
                self._isolation.remove(sandbox)
        self._sandboxes.clear()
        self._isolation.close()
        if not self._keep_state:
            self._store.delete_all()
        self._loop.stop()

    def _housekeeping(self) -> None:
        if isinstance(self._isolation, MemoryLimitEnforcer):
            self._isolation.enforce_memory_limits()
        self._containers.retry_saves()
        if self._shutting_down:
            self.shut_down()

    def _with_unknown_exit(self, state: ContainerState) -> ContainerState:
        return replace(
            state,
            pid=0,
            finished=self._now() / 1e9,
            exit_code=_UNKNOWN_EXIT_CODE,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the shim was started again",
        )

    def _sandbox(self, pod: str) -> Sandbox:
        if sandbox := self._sandboxes.get(pod):
            return sandbox
        raise Failure("SandboxNotFound", f"pod {pod} has no sandbox")

    def _save_sandbox(self, sandbox: Sandbox) -> None:
        try:
            self._store.save_sandbox(sandbox.spec, sandbox.address)
        except OSError as error:
            self._log_error("sandbox state not saved", error, pod=sandbox.spec.uid)

    # Connections

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionError):  # the client disconnected already
            return
        if wire.peer_uid(connection) not in (os.geteuid(), 0):
            connection.close()
            return
        client = ClientConnection(wire.Channel(connection))
        self._clients.append(client)
        self._loop.on_readable(client.channel.fileno(), lambda: self._receive(client))

    def _receive(self, client: ClientConnection) -> None:
        try:
            for request, descriptors in client.channel.receive():
                for descriptor in descriptors:  # requests carry no descriptors
                    os.close(descriptor)
                self._handle(client, request)
        except (EOFError, ValueError):
            self._disconnect(client)

    def _handle(self, client: ClientConnection, request: wire.Message) -> None:
        number = request["id"]
        try:
            handler = self._handlers.get(request["do"])
            if handler is None:
                raise Failure("RuntimeUnavailable", f"unknown request {request['do']!r}")
            response = handler(client, number, request)
        except Failure as failure:
            self._send(client, {"id": number, "error": wire.failure_to_json(failure)})
        except Exception as error:
            self._log_error("request failed", error, request=str(request["do"]))
            failure_json = wire.failure_to_json(Failure("RuntimeUnavailable", f"{request['do']}: {error}"))
            self._send(client, {"id": number, "error": failure_json})
        else:
            if response is not None:
                self._send(client, {"id": number, "result": response[0]}, response[1])

    def _send(self, client: ClientConnection, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        if client not in self._clients:
            for descriptor in descriptors:
                os.close(descriptor)
            return
        client.channel.send(message, descriptors)
        self._flush(client)

    def _flush(self, client: ClientConnection) -> None:
        try:
            client.channel.flush()
        except OSError:
            self._disconnect(client)
            return
        if client.channel.over_limit:
            self._disconnect(client)
            return
        waiting = client.channel.unsent
        self._loop.on_writable(client.channel.fileno(), (lambda: self._flush(client)) if waiting else None)

    def _disconnect(self, client: ClientConnection) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._loop.forget(client.channel.fileno())
            client.channel.close()
            executions, client.executions = client.executions, {}
            for pid in executions.values():
                self._containers.end_execution(pid)
