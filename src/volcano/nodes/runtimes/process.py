"""Runtime for netns, userns and plain: sends requests to a shim in another process."""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from volcano.base.clock import Clock, SystemClock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.nodes.cri import ExistingPods, Features, Process
from volcano.nodes.runtimes import shim_launch
from volcano.nodes.runtimes.shim_client import ShimConnection
from volcano.nodes.shim import logfile, wire
from volcano.nodes.shim.network_rules import NetworkRules
from volcano.nodes.shim.specs import (
    NO_NETWORK,
    ContainerSpec,
    ContainerState,
    Failure,
    Mode,
    SandboxSpec,
    SandboxState,
    Usage,
)
from volcano.nodes.shim.state_store import SOCKET, shim_directory

_STOP_TIMEOUT = 30.0
_UNKNOWN_EXIT_CODE = 137
_RESTART_BACKOFF = Backoff(first=1.0, longest=30.0)
_log = Log("nodes.shim")


async def cleanup(directory: Path, clock: Clock | None = None) -> list[str]:
    """For `volcano down`: removes what a shim of this directory left; returns what was removed."""
    return await shim_launch.cleanup(Path(directory), clock or SystemClock())


class ProcessRuntime:
    """Implements `Runtime` for netns, userns and plain.

    With `lifeline` the shim and its pods end with this process, even if it is killed; only another
    ProcessRuntime of this process can use them. Without, they keep running and the next ProcessRuntime of
    the same directory adopts them. A shim that exits is restarted: its containers are reported as exited,
    and their sandboxes are recreated when a container is started. A running shim of another version or
    mode is shut down with its pods; their last states are kept.
    """

    version = wire.VERSION

    def __init__(
        self,
        directory: Path,
        mode: Mode,
        *,
        lifeline: bool = False,
        clock: Clock | None = None,
        log_size: int = logfile.DEFAULT_SIZE,
        log_files: int = logfile.DEFAULT_FILES,
        pod_network: str = NO_NETWORK,
    ) -> None:
        self.name = str(mode)
        self.features = _features(mode, ())
        self._directory = Path(directory).absolute()
        self._mode = mode
        self._clock = clock or SystemClock()
        self._launch = shim_launch.ShimLaunch(
            self._directory, mode, lifeline, log_size, log_files, pod_network
        )
        self._lifeline: int | None = None
        self._connection: ShimConnection | None = None
        self._on_exit: Callable[[ContainerState], None] = lambda state: None
        self._on_restart: Callable[[], None] = lambda: None
        self._specs: dict[str, SandboxSpec] = {}
        self._states: dict[str, SandboxState] = {}
        self._running: set[tuple[str, str, int]] = set()
        self._attached: dict[tuple[str, str], asyncio.Future[int]] = {}
        self._executions: dict[int, asyncio.Future[int]] = {}
        self._exec_ids = 0
        self._restarting: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def pid(self) -> int:
        """Pid of the shim; 0 while there is none."""
        return shim_launch.shim_pid(self._directory)

    def on_change(self, handler: Callable[[ContainerState], None]) -> None:
        self._on_exit = handler

    def on_restart(self, handler: Callable[[], None]) -> None:
        """Sets the handler of restarts of the shim: sockets from `listen` are no longer valid."""
        self._on_restart = handler

    async def open(self) -> ExistingPods:
        self._closing = False
        return await self._open()

    async def close(self, *, keep: bool) -> None:
        self._closing = True
        if self._restarting:
            self._restarting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._restarting
        pid = self.pid
        requested = not keep and await self._shut_down()
        if self._connection:
            self._connection.close()
            self._connection = None
        if keep:
            return  # the lifeline stays open until this process exits
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if pid and not (requested and await shim_launch.wait_for_exit(pid, self._clock, _STOP_TIMEOUT)):
            await shim_launch.cleanup(self._directory, self._clock)

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        state = SandboxState(**await self._call("create", spec=wire.to_json(spec)))
        self._specs[spec.uid] = spec
        self._states[spec.uid] = state
        return state

    async def remove_sandbox(self, pod: str) -> None:
        await self._call("remove", pod=pod)
        self._specs.pop(pod, None)
        self._states.pop(pod, None)

    async def start(self, spec: ContainerSpec) -> ContainerState:
        try:
            state = await self._start(spec)
        except Failure as failure:
            sandbox = self._specs.get(spec.pod)
            if failure.reason != "SandboxNotFound" or sandbox is None:
                raise
            await self.create_sandbox(replace(sandbox, wanted_address=self._states[spec.pod].address))
            state = await self._start(spec)
        return state

    async def signal(self, pod: str, container: str, number: int) -> None:
        await self._call("signal", pod=pod, name=container, number=int(number))

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
        self._exec_ids += 1
        exec_id = self._exec_ids
        wanted = [
            name
            for name, requested in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr))
            if requested
        ]
        ended = self._executions[exec_id] = asyncio.get_running_loop().create_future()
        try:
            response, descriptors = await self._connected().call(
                "execute",
                pod=pod,
                name=container,
                command=list(command),
                environment=dict(environment or {}),
                streams=wanted,
                tty=tty,
                exec=exec_id,
            )
        except (Failure, asyncio.CancelledError):
            self._executions.pop(exec_id, ended).cancel()
            with contextlib.suppress(Failure):
                self._end_execution(exec_id)
            raise
        ends = dict(zip(response["ends"], descriptors, strict=True))
        if tty:
            ends = dict.fromkeys(("stdin", "stdout", "terminal"), ends["terminal"])
        return RemoteProcess(ends, ended, lambda: self._end_execution(exec_id))

    async def attach(self, pod: str, container: str) -> Process:
        response, descriptors = await self._connected().call("attach", pod=pod, name=container)
        ended = self._attached.setdefault((pod, container), asyncio.get_running_loop().create_future())
        ends = dict(zip(response["ends"], descriptors, strict=True))
        return RemoteProcess(ends, ended, lambda: None)

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        response, descriptors = await self._connected().call("socket", pod=pod, port=port, host=host)
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        failure: OSError = ConnectionRefusedError(111, f"nothing in pod {pod} listens on port {port}")
        for number, (target, made) in enumerate(zip(response["targets"], sockets, strict=True)):
            try:
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, (target, port))
            except OSError as error:
                failure = error
                made.close()
            except asyncio.CancelledError:
                _close_sockets(sockets[number:])
                raise
            else:
                _close_sockets(sockets[number + 1 :])
                return made
        raise failure

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        response, descriptors = await self._connected().call(
            "listen", address=address, port=port, datagram=datagram
        )
        if not response["listening"]:
            return None
        made = socket.socket(fileno=descriptors[0])
        made.setblocking(False)
        return made

    async def apply_network_rules(self, rules: NetworkRules) -> None:
        await self._call("network", rules=wire.to_json(rules))

    async def usage(self) -> Sequence[Usage]:
        return [Usage(**usage) for usage in await self._call("usage")]

    async def writable_layers(self, pod: str) -> Mapping[str, int]:
        return {}  # root filesystems are in the pod's directory

    # Requests

    async def _call(self, request: str, **content: Any) -> Any:
        response, descriptors = await self._connected().call(request, **content)
        for descriptor in descriptors:
            os.close(descriptor)
        return response

    def _connected(self) -> ShimConnection:
        if self._connection is None:
            raise Failure("RuntimeUnavailable", f"there is no shim in {self._directory}")
        return self._connection

    async def _start(self, spec: ContainerSpec) -> ContainerState:
        key = (spec.pod, spec.name, spec.attempt)
        self._running.add(key)
        try:
            state = ContainerState(**await self._call("start", spec=wire.to_json(spec)))
        except Failure:
            self._running.discard(key)
            raise
        if not state.running:
            self._running.discard(key)
        return state

    def _end_execution(self, exec_id: int) -> None:
        if self._connection:
            self._connection.send("end-execution", exec=exec_id)

    # Notices

    def _on_notice(self, notice: wire.Message) -> None:
        match notice:
            case {"notice": "ended", "state": state}:
                self._on_container_exit(ContainerState(**state))
            case {"notice": "exec-ended", "exec": exec_id, "code": code}:
                _resolve(self._executions.pop(exec_id, None), code)

    def _on_container_exit(self, state: ContainerState) -> None:
        self._running.discard((state.pod, state.name, state.attempt))
        _resolve(self._attached.pop((state.pod, state.name), None), state.exit_code)
        self._on_exit(state)

    # Open and restart

    async def _open(self) -> ExistingPods:
        if self._connection:
            self._connection.close()
            self._connection = None
        self._connection = await self._connect_running() or await self._start_shim()
        hello = await self._call("hello")
        self.features = _features(self._mode, hello["limitations"], network_rules=hello["network_rules"])
        listing = await self._call("list")
        found = ExistingPods(
            sandboxes=tuple(SandboxState(**state) for state in listing["sandboxes"]),
            containers=tuple(ContainerState(**state) for state in listing["containers"]),
        )
        self._states.update({state.uid: state for state in found.sandboxes})
        self._running |= {(s.pod, s.name, s.attempt) for s in found.containers if s.running}
        return found

    async def _connect_running(self) -> ShimConnection | None:
        """Connects to a running shim; one of another version or mode is shut down."""
        try:
            connection = self._connect()
        except OSError:
            return None
        try:
            hello, _ = await connection.call("hello")
            holder = os.getpid() if self._launch.lifeline else 0
            if (hello["version"], hello["mode"], hello.get("holder")) == (self.version, self._mode, holder):
                return connection
            _log.warning(
                "stopping shim of another version or mode", version=hello["version"], mode=hello["mode"]
            )
            await connection.call("shutdown", keep_records=True)
            connection.close()
            await shim_launch.wait_for_exit(hello["pid"], self._clock, _STOP_TIMEOUT)
        except Failure:  # it was shutting down
            connection.close()
            await shim_launch.wait_for_exit(shim_launch.shim_pid(self._directory), self._clock, _STOP_TIMEOUT)
        except (asyncio.CancelledError, KeyError):
            connection.close()
            raise
        return None

    async def _start_shim(self) -> ShimConnection:
        if self._lifeline is not None:
            os.close(self._lifeline)
        launched = asyncio.ensure_future(shim_launch.launch(self._launch))
        try:
            self._lifeline = await asyncio.shield(launched)
        except asyncio.CancelledError:
            # A shim that is starting must not be lost: the caller closes it, or the next runtime finds it.
            self._lifeline = await launched
            raise
        return self._connect()

    def _connect(self) -> ShimConnection:
        connection = wire.connect(shim_directory(str(self._directory)), SOCKET)
        return ShimConnection(connection, self._on_notice, self._on_disconnect)

    async def _shut_down(self) -> bool:
        """Whether there was a shim to shut down."""
        try:
            await self._call("shutdown")
        except Failure:
            return False
        return True

    def _on_disconnect(self) -> None:
        """Restarts a shim that exited; its containers exited with it."""
        if self._connection is None:
            return  # only the connection of `_connect_running`
        self._connection = None
        for ended in self._executions.values():
            _resolve(ended, _UNKNOWN_EXIT_CODE)
        self._executions.clear()
        if not self._closing:
            _log.error("shim exited, restarting", directory=self._directory)
            self._restarting = asyncio.get_running_loop().create_task(self._restart())

    async def _restart(self) -> None:
        were_running = set(self._running)
        self._running.clear()
        found = await self._open_with_backoff()
        known = {(state.pod, state.name, state.attempt): state for state in found.containers}
        for pod, name, attempt in sorted(were_running):
            now = self._clock.now().wall
            unknown = ContainerState(
                pod, name, attempt, now, 0, now, _UNKNOWN_EXIT_CODE, "ContainerStatusUnknown"
            )
            state = known.get((pod, name, attempt), unknown)
            if not state.running:
                self._on_container_exit(state)
        self._on_restart()

    async def _open_with_backoff(self) -> ExistingPods:
        failures = 0
        while True:
            try:
                return await self._open()
            except (Failure, OSError) as error:
                _log.error("shim restart failed", directory=self._directory, reason=error)
                await self._clock.sleep(_RESTART_BACKOFF.delay(failures))
                failures += 1


class RemoteProcess:
    """A process in a container, with descriptors of its streams."""

    def __init__(
        self, ends: Mapping[str, int], ended: asyncio.Future[int], end_execution: Callable[[], None]
    ) -> None:
        self.stdin = ends.get("stdin")
        self.stdout = ends.get("stdout")
        self.stderr = ends.get("stderr")
        self._terminal = ends.get("terminal")
        self._ended = ended
        self._end_execution = end_execution
        self._closed = False

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None and not self._closed:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for descriptor in {self.stdin, self.stdout, self.stderr, self._terminal}:
            if descriptor is not None:
                os.close(descriptor)
        if not self._ended.done():
            with contextlib.suppress(Failure):
                self._end_execution()


def _resolve(future: asyncio.Future[int] | None, code: int) -> None:
    if future and not future.done():
        future.set_result(code)


def _close_sockets(sockets: Sequence[socket.socket]) -> None:
    for made in sockets:
        made.close()


def _features(mode: Mode, limitations: Sequence[str], *, network_rules: bool = False) -> Features:
    own = mode != Mode.PLAIN
    return Features(
        own_network=own,
        pulls_images=False,
        enforces_limits=mode == Mode.NETNS,
        any_user=mode == Mode.NETNS or os.geteuid() == 0,
        limitations=tuple(limitations),
        network_rules=network_rules,
    )
