"""The shim itself: sandboxes, their containers, and the agents that ask for them over a socket."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from volcano.nodes.shim import wire
from volcano.nodes.shim.containers import Containers
from volcano.nodes.shim.isolation.base import Command, Isolation, Sandbox
from volcano.nodes.shim.loop import Loop
from volcano.nodes.shim.records import Records, state_of
from volcano.nodes.shim.specs import ContainerState, Failure, SandboxState

Answer = tuple[Any, Sequence[int]]
Handler = Callable[["Client", int, wire.Message], Answer | None]
_UNKNOWN_END = 137


@runtime_checkable
class Watchful(Protocol):
    """An isolation that wants to look after its containers now and then."""

    def watch(self) -> None: ...


@runtime_checkable
class Shared(Protocol):
    """An isolation whose pods share a network, so that a port must be looked for."""

    def targets(self, sandbox: Sandbox, port: int) -> list[str]: ...


@runtime_checkable
class Restoring(Protocol):
    """An isolation that can take away what a shim that was killed has left of its pods."""

    def restore(self, lost: Sequence[SandboxState]) -> None: ...


@dataclass(slots=True, eq=False)
class Client:
    """An agent that is connected, with the processes it has executed: those end with the connection."""

    channel: wire.Channel
    executions: dict[int, int] = field(default_factory=dict)  # the agent's number for it: its pid


@dataclass(frozen=True, slots=True)
class Settings:
    """What a shim is told at its start."""

    mode: str
    log_size: int  # bytes, after which a container's log is rotated
    log_files: int
    holder: int = 0  # the pid of who holds its lifeline


class ShimServer:
    """Answers requests and tells of ends until it is told to shut down."""

    def __init__(
        self,
        settings: Settings,
        *,
        loop: Loop,
        isolation: Isolation,
        records: Records,
        now: Callable[[], int],
        complain: Callable[[str, BaseException], None],
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._isolation = isolation
        self._records = records
        self._now = now
        self._complain = complain
        self._containers = Containers(
            loop,
            isolation,
            records,
            now,
            self._container_ended,
            complain,
            log_size=settings.log_size,
            log_files=settings.log_files,
        )
        self._handlers = self._all_handlers()
        self._sandboxes: dict[str, Sandbox] = {}
        self._clients: list[Client] = []
        self._listening: dict[tuple[str, int, bool], socket.socket] = {}
        self._removing: dict[str, list[tuple[Client, int]]] = {}
        self._ending = False
        self._keeping_records = False

    def take_over(self) -> None:
        """Whatever an earlier shim left running ended with it: nobody knows how."""
        remembered = self._records.load()
        if isinstance(self._isolation, Restoring):
            self._isolation.restore(remembered.sandboxes)
        for sandbox in remembered.sandboxes:
            self._records.forget_sandbox(sandbox.uid)
        for state in sorted(remembered.containers, key=lambda state: state.attempt):
            self._containers.remember(self._lost(state) if state.running else state)

    def serve(self, listener: socket.socket) -> None:
        """Runs until the end; afterwards nothing of it is left but, where asked for, its records."""
        self._loop.on_readable(listener.fileno(), lambda: self._accept(listener))
        self._loop.on_signal(signal.SIGCHLD, self._containers.reap)
        self._loop.on_signal(signal.SIGTERM, self.end)
        self._loop.every(1.0, self._housekeeping)
        self._loop.run()
        for kept in self._listening.values():
            kept.close()
        for client in list(self._clients):
            client.channel.close()
        listener.close()

    def end(self) -> None:
        """Kills every container; the loop stops when the last one is over."""
        self._ending = True
        for key in self._containers.alive():
            self._containers.signal(key, signal.SIGKILL)
        self._finish_if_over()

    # Requests

    def _all_handlers(self) -> dict[str, Handler]:
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
            "usage": self._usage,
            "shutdown": self._shutdown,
        }

    def _hello(self, client: Client, number: int, request: wire.Message) -> Answer:
        return {
            "version": wire.VERSION,
            "mode": self._settings.mode,
            "pid": os.getpid(),
            "holder": self._settings.holder,
            "limitations": list(self._isolation.limitations),
        }, ()

    def _list(self, client: Client, number: int, request: wire.Message) -> Answer:
        sandboxes = [wire.plain(state_of(s.spec, s.address)) for s in self._sandboxes.values()]
        return {"sandboxes": sandboxes, "containers": [wire.plain(s) for s in self._containers.states()]}, ()

    def _create(self, client: Client, number: int, request: wire.Message) -> Answer:
        if self._ending:
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
        return wire.plain(state_of(sandbox.spec, sandbox.address)), ()

    def _remove(self, client: Client, number: int, request: wire.Message) -> Answer | None:
        """Answered when all of it is gone."""
        pod = request["pod"]
        self._removing.setdefault(pod, []).append((client, number))
        for key in self._containers.alive(pod):
            self._containers.signal(key, signal.SIGKILL)
        self._removed_if_over(pod)
        return None

    def _start(self, client: Client, number: int, request: wire.Message) -> Answer:
        spec = wire.container_spec(request["spec"])
        sandbox = self._sandbox(spec.pod)
        if self._ending or spec.pod in self._removing:
            raise Failure("RunContainerError", "its sandbox is being removed")
        return wire.plain(self._containers.start(sandbox, spec)), ()

    def _signal(self, client: Client, number: int, request: wire.Message) -> Answer:
        self._containers.signal((request["pod"], request["name"]), request["number"])
        return None, ()

    def _execute(self, client: Client, number: int, request: wire.Message) -> Answer:
        mark = request["exec"]

        def ended(code: int) -> None:
            if client.executions.pop(mark, None):
                self._tell(client, {"notice": "exec-ended", "exec": mark, "code": code})

        pid, ends = self._containers.execute(
            (request["pod"], request["name"]),
            Command(request["command"], request["environment"]),
            wanted=request["streams"],
            tty=request["tty"],
            ended=ended,
        )
        client.executions[mark] = pid
        given = ends.given()
        return {"pid": pid, "ends": list(given)}, list(given.values())

    def _end_execution(self, client: Client, number: int, request: wire.Message) -> Answer:
        if pid := client.executions.get(request["exec"]):
            self._containers.end_execution(pid)
        return None, ()

    def _attach(self, client: Client, number: int, request: wire.Message) -> Answer:
        given = self._containers.attach((request["pod"], request["name"])).given()
        return {"ends": list(given)}, list(given.values())

    def _socket(self, client: Client, number: int, request: wire.Message) -> Answer:
        """Unconnected sockets in the pod's network, one for each address at which the port may be tried."""
        sandbox = self._sandbox(request["pod"])
        if request["host"]:
            targets = [request["host"]]
        elif isinstance(self._isolation, Shared):
            targets = self._isolation.targets(sandbox, request["port"])
        else:
            targets = ["127.0.0.1", *([sandbox.address] if sandbox.address else []), "::1"]
        made: list[int] = []
        for target in targets:
            family = socket.AF_INET6 if ":" in target else socket.AF_INET
            with contextlib.suppress(OSError):  # a network without IPv6
                made.append(self._isolation.open_socket(sandbox, family, socket.SOCK_STREAM).detach())
        return {"targets": targets[: len(made)]}, made

    def _listen(self, client: Client, number: int, request: wire.Message) -> Answer:
        if isinstance(self._isolation, Shared):
            return {"listening": False}, ()
        key = (request["address"], request["port"], request["datagram"])
        if key not in self._listening:
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
            self._listening[key] = made
        return {"listening": True}, [os.dup(self._listening[key].fileno())]

    def _usage(self, client: Client, number: int, request: wire.Message) -> Answer:
        return [wire.plain(usage) for usage in self._containers.usage()], ()

    def _shutdown(self, client: Client, number: int, request: wire.Message) -> Answer:
        self._keeping_records = bool(request.get("keep_records"))
        self.end()
        return None, ()

    # What happens

    def _container_ended(self, state: ContainerState) -> None:
        for client in list(self._clients):
            self._tell(client, {"notice": "ended", "state": wire.plain(state)})
        if state.pod in self._removing:
            self._removed_if_over(state.pod)
        if self._ending:
            self._finish_if_over()

    def _removed_if_over(self, pod: str) -> None:
        if self._containers.alive(pod):
            return
        if sandbox := self._sandboxes.pop(pod, None):
            try:
                self._isolation.remove(sandbox)
            except (Failure, OSError) as error:
                self._complain("a sandbox could not be taken away whole", error)
        self._containers.forget(pod)
        for client, number in self._removing.pop(pod, ()):
            self._tell(client, {"id": number, "result": None})

    def _finish_if_over(self) -> None:
        if self._containers.alive():
            return
        for sandbox in self._sandboxes.values():
            with contextlib.suppress(Failure, OSError):
                self._isolation.remove(sandbox)
        self._sandboxes.clear()
        self._isolation.close()
        if not self._keeping_records:
            self._records.forget_all()
        self._loop.stop()

    def _housekeeping(self) -> None:
        if isinstance(self._isolation, Watchful):
            self._isolation.watch()
        self._containers.save_again()
        if self._ending:
            self.end()

    def _lost(self, state: ContainerState) -> ContainerState:
        return replace(
            state,
            pid=0,
            finished=self._now() / 1e9,
            exit_code=_UNKNOWN_END,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the shim was started again",
        )

    def _sandbox(self, pod: str) -> Sandbox:
        if sandbox := self._sandboxes.get(pod):
            return sandbox
        raise Failure("SandboxNotFound", f"pod {pod} has no sandbox")

    def _save_sandbox(self, sandbox: Sandbox) -> None:
        try:
            self._records.save_sandbox(sandbox.spec, sandbox.address)
        except OSError as error:
            self._complain("a sandbox could not be written down", error)

    # Connections

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionError):  # he has thought better of it
            return
        if wire.peer_user(connection) not in (os.geteuid(), 0):
            connection.close()
            return
        client = Client(wire.Channel(connection))
        self._clients.append(client)
        self._loop.on_readable(client.channel.fileno(), lambda: self._hear(client))

    def _hear(self, client: Client) -> None:
        try:
            for request, descriptors in client.channel.receive():
                for descriptor in descriptors:  # none are expected
                    os.close(descriptor)
                self._answer(client, request)
        except (EOFError, ValueError):
            self._let_go(client)

    def _answer(self, client: Client, request: wire.Message) -> None:
        number = request["id"]
        try:
            handler = self._handlers.get(request["do"])
            if handler is None:
                raise Failure("RuntimeUnavailable", f"this shim does not know the request {request['do']!r}")
            answer = handler(client, number, request)
        except Failure as failure:
            self._tell(client, {"id": number, "error": wire.complaint(failure)})
        except Exception as error:
            self._complain(f"request {request['do']} failed", error)
            trouble = wire.complaint(Failure("RuntimeUnavailable", f"{request['do']}: {error}"))
            self._tell(client, {"id": number, "error": trouble})
        else:
            if answer is not None:
                self._tell(client, {"id": number, "result": answer[0]}, answer[1])

    def _tell(self, client: Client, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        if client not in self._clients:
            for descriptor in descriptors:
                os.close(descriptor)
            return
        client.channel.send(message, descriptors)
        self._flush(client)

    def _flush(self, client: Client) -> None:
        try:
            client.channel.flush()
        except OSError:
            self._let_go(client)
            return
        if client.channel.overfull:
            self._let_go(client)
            return
        waiting = client.channel.unsent
        self._loop.on_writable(client.channel.fileno(), (lambda: self._flush(client)) if waiting else None)

    def _let_go(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._loop.forget(client.channel.fileno())
            client.channel.close()
            executions, client.executions = client.executions, {}
            for pid in executions.values():
                self._containers.end_execution(pid)
