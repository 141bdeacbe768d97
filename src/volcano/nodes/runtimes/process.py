"""The process runtimes, seen from the agent: a keeper in another process does the work, and this asks it."""

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

from volcano.clock import Clock, SystemClock
from volcano.log import Log
from volcano.nodes.cri import ExistingPods, Features, Process
from volcano.nodes.runtimes import shim_launch
from volcano.nodes.runtimes.shim_client import Line
from volcano.nodes.shim import logfile, place, wire
from volcano.nodes.shim.specs import (
    ContainerSpec,
    ContainerState,
    Failure,
    Mode,
    SandboxSpec,
    SandboxState,
    Usage,
)

_PATIENCE = 30.0
_LOST = 137
_LONGEST_PAUSE = 30.0
_log = Log("nodes.keeper")


async def sweep(directory: Path, clock: Clock | None = None) -> list[str]:
    """For `volcano down`: ends whatever a keeper of this directory has left; says in words what was removed."""
    return await shim_launch.sweep(Path(directory), clock or SystemClock())


class KeeperRuntime:
    """Implements `Runtime` for netns, userns and plain.

    With `lifeline` the keeper and its pods end with this process, however it ends; only a further KeeperRuntime of this
    process finds them. Without, they run on and the next KeeperRuntime of the same directory finds them. A keeper that
    dies is started again: its containers are told of as ended, and their sandboxes are made anew when something is
    started in them. A keeper that is found but speaks another version, or is of another mode, is ended with its pods;
    what became of those is remembered.
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
    ) -> None:
        self.name = str(mode)
        self.features = _features(mode, ())
        self._directory = Path(directory).absolute()
        self._mode = mode
        self._clock = clock or SystemClock()
        self._launch = shim_launch.Launch(self._directory, mode, lifeline, log_size, log_files)
        self._lifeline: int | None = None
        self._line: Line | None = None
        self._tell: Callable[[ContainerState], None] = lambda state: None
        self._tell_restart: Callable[[], None] = lambda: None
        self._specs: dict[str, SandboxSpec] = {}
        self._states: dict[str, SandboxState] = {}
        self._running: set[tuple[str, str, int]] = set()
        self._attached: dict[tuple[str, str], asyncio.Future[int]] = {}
        self._executions: dict[int, asyncio.Future[int]] = {}
        self._marks = 0
        self._reopening: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def pid(self) -> int:
        """The keeper's own; 0 while there is none."""
        return shim_launch.living(self._directory)

    def on_change(self, tell: Callable[[ContainerState], None]) -> None:
        self._tell = tell

    def on_restart(self, tell: Callable[[], None]) -> None:
        """`tell` is called when a keeper that died has been replaced: what `listen` gave is worth nothing any more."""
        self._tell_restart = tell

    async def open(self) -> ExistingPods:
        self._closing = False
        return await self._open()

    async def close(self, *, keep: bool) -> None:
        self._closing = True
        if self._reopening:
            self._reopening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reopening
        pid = self.pid
        asked = not keep and await self._shut_down()
        if self._line:
            self._line.close()
            self._line = None
        if keep:
            return  # a lifeline stays open until this process ends
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if pid and not (asked and await shim_launch.gone(pid, self._clock, _PATIENCE)):
            await shim_launch.sweep(self._directory, self._clock)

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        state = SandboxState(**await self._ask("create", spec=wire.plain(spec)))
        self._specs[spec.uid] = spec
        self._states[spec.uid] = state
        return state

    async def remove_sandbox(self, pod: str) -> None:
        await self._ask("remove", pod=pod)
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
        await self._ask("signal", pod=pod, name=container, number=int(number))

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
        self._marks += 1
        mark = self._marks
        wanted = [name for name, asked in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)) if asked]
        ended = self._executions[mark] = asyncio.get_running_loop().create_future()
        try:
            answer, descriptors = await self._connected().ask(
                "execute",
                pod=pod,
                name=container,
                command=list(command),
                environment=dict(environment or {}),
                streams=wanted,
                tty=tty,
                exec=mark,
            )
        except BaseException:
            self._executions.pop(mark, ended).cancel()
            with contextlib.suppress(Failure):
                self._hang_up(mark)
            raise
        ends = dict(zip(answer["ends"], descriptors, strict=True))
        if tty:
            ends = dict.fromkeys(("stdin", "stdout", "terminal"), ends["terminal"])
        return RemoteProcess(ends, ended, lambda: self._hang_up(mark))

    async def attach(self, pod: str, container: str) -> Process:
        answer, descriptors = await self._connected().ask("attach", pod=pod, name=container)
        ended = self._attached.setdefault((pod, container), asyncio.get_running_loop().create_future())
        ends = dict(zip(answer["ends"], descriptors, strict=True))
        return RemoteProcess(ends, ended, lambda: None)

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        answer, descriptors = await self._connected().ask("socket", pod=pod, port=port, host=host)
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        trouble: OSError = ConnectionRefusedError(111, f"nothing in pod {pod} listens on port {port}")
        for number, (target, made) in enumerate(zip(answer["targets"], sockets, strict=True)):
            try:
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, (target, port))
            except OSError as error:
                trouble = error
                made.close()
            except BaseException:
                _close_sockets(sockets[number:])
                raise
            else:
                _close_sockets(sockets[number + 1 :])
                return made
        raise trouble

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        answer, descriptors = await self._connected().ask(
            "listen", address=address, port=port, datagram=datagram
        )
        if not answer["listening"]:
            return None
        made = socket.socket(fileno=descriptors[0])
        made.setblocking(False)
        return made

    async def usage(self) -> Sequence[Usage]:
        return [Usage(**usage) for usage in await self._ask("usage")]

    async def writable_layers(self, pod: str) -> Mapping[str, int]:
        return {}  # their roots are in the pod's directory

    # Requests

    async def _ask(self, what: str, **content: Any) -> Any:
        answer, descriptors = await self._connected().ask(what, **content)
        for descriptor in descriptors:
            os.close(descriptor)
        return answer

    def _connected(self) -> Line:
        if self._line is None:
            raise Failure("RuntimeUnavailable", f"there is no keeper in {self._directory}")
        return self._line

    async def _start(self, spec: ContainerSpec) -> ContainerState:
        key = (spec.pod, spec.name, spec.attempt)
        self._running.add(key)
        try:
            state = ContainerState(**await self._ask("start", spec=wire.plain(spec)))
        except Failure:
            self._running.discard(key)
            raise
        if not state.running:
            self._running.discard(key)
        return state

    def _hang_up(self, mark: int) -> None:
        if self._line:
            self._line.say("end-execution", exec=mark)

    # Notices

    def _heard(self, notice: wire.Message) -> None:
        match notice:
            case {"notice": "ended", "state": state}:
                self._container_ended(ContainerState(**state))
            case {"notice": "exec-ended", "exec": mark, "code": code}:
                _resolve(self._executions.pop(mark, None), code)

    def _container_ended(self, state: ContainerState) -> None:
        self._running.discard((state.pod, state.name, state.attempt))
        _resolve(self._attached.pop((state.pod, state.name), None), state.exit_code)
        self._tell(state)

    # Opening

    async def _open(self) -> ExistingPods:
        if self._line:
            self._line.close()
            self._line = None
        self._line = await self._find() or await self._begin()
        hello = await self._ask("hello")
        self.features = _features(self._mode, hello["limitations"])
        listing = await self._ask("list")
        found = ExistingPods(
            sandboxes=tuple(SandboxState(**state) for state in listing["sandboxes"]),
            containers=tuple(ContainerState(**state) for state in listing["containers"]),
        )
        self._states.update({state.uid: state for state in found.sandboxes})
        self._running |= {(s.pod, s.name, s.attempt) for s in found.containers if s.running}
        return found

    async def _find(self) -> Line | None:
        """A line to the keeper that is there already; one of another version or mode is ended in good order."""
        try:
            line = Line(wire.connect(place.of(str(self._directory)), place.SOCKET), self._heard, self._lost)
        except OSError:
            return None
        try:
            hello, _ = await line.ask("hello")
            holder = os.getpid() if self._launch.lifeline else 0
            if (hello["version"], hello["mode"], hello.get("holder")) == (self.version, self._mode, holder):
                return line
            _log.warning("ending a keeper that does not fit", version=hello["version"], mode=hello["mode"])
            await line.ask("shutdown", keep_records=True)
            line.close()
            await shim_launch.gone(hello["pid"], self._clock, _PATIENCE)
        except Failure:  # it was about to go
            line.close()
            await shim_launch.gone(shim_launch.living(self._directory), self._clock, _PATIENCE)
        except BaseException:
            line.close()
            raise
        return None

    async def _begin(self) -> Line:
        if self._lifeline is not None:
            os.close(self._lifeline)
        launched = asyncio.ensure_future(shim_launch.launch(self._launch))
        try:
            self._lifeline = await asyncio.shield(launched)
        except asyncio.CancelledError:
            # Half started it would be nobody's: whoever cancels has one to end, or the next one finds it.
            self._lifeline = await launched
            raise
        return Line(wire.connect(place.of(str(self._directory)), place.SOCKET), self._heard, self._lost)

    async def _shut_down(self) -> bool:
        """Whether there was a keeper that could be asked to."""
        try:
            await self._ask("shutdown")
        except Failure:
            return False
        return True

    def _lost(self) -> None:
        """The keeper has gone by itself, and its containers with it."""
        if self._line is None:
            return  # one that was only asked who it is
        self._line = None
        for ended in self._executions.values():
            _resolve(ended, _LOST)
        self._executions.clear()
        if not self._closing:
            _log.error("the keeper has died; starting another", directory=self._directory)
            self._reopening = asyncio.get_running_loop().create_task(self._reopen())

    async def _reopen(self) -> None:
        were_running = set(self._running)
        self._running.clear()
        found = await self._open_at_last()
        known = {(state.pod, state.name, state.attempt): state for state in found.containers}
        for pod, name, attempt in sorted(were_running):
            now = self._clock.now().wall
            unknown = ContainerState(pod, name, attempt, now, 0, now, _LOST, "ContainerStatusUnknown")
            state = known.get((pod, name, attempt), unknown)
            if not state.running:
                self._container_ended(state)
        self._tell_restart()

    async def _open_at_last(self) -> ExistingPods:
        pause = 1.0
        while True:
            try:
                return await self._open()
            except (Failure, OSError) as error:
                _log.error("the keeper does not start again", directory=self._directory, problem=error)
                await self._clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)


class RemoteProcess:
    """A process of a container, with its streams here."""

    def __init__(
        self, ends: Mapping[str, int], ended: asyncio.Future[int], hang_up: Callable[[], None]
    ) -> None:
        self.stdin = ends.get("stdin")
        self.stdout = ends.get("stdout")
        self.stderr = ends.get("stderr")
        self._terminal = ends.get("terminal")
        self._ended = ended
        self._hang_up = hang_up
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
                self._hang_up()


def _resolve(future: asyncio.Future[int] | None, code: int) -> None:
    if future and not future.done():
        future.set_result(code)


def _close_sockets(sockets: Sequence[socket.socket]) -> None:
    for made in sockets:
        made.close()


def _features(mode: Mode, limitations: Sequence[str]) -> Features:
    own = mode != Mode.PLAIN
    return Features(
        own_network=own,
        pulls_images=False,
        enforces_limits=mode == Mode.NETNS,
        any_user=mode == Mode.NETNS or os.geteuid() == 0,
        limitations=tuple(limitations),
    )
