"""Containers of a shim: start, exec, attach, reaping and saved states."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from volcano.nodes.shim.isolation.base import ExecCommand, Isolation, Sandbox, Stdio
from volcano.nodes.shim.logfile import LogFile
from volcano.nodes.shim.loop import EventLoop, LogError
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Failure, Usage
from volcano.nodes.shim.state_store import StateStore
from volcano.nodes.shim.streams import Output
from volcano.nodes.shim.supervisor import exit_code

Key = tuple[str, str]  # pod uid, container name
_KEPT_ATTEMPTS = 5


@dataclass(slots=True)
class ExecProcess:
    """A process executed in a container; `on_exit` receives its exit code."""

    pid: int
    on_exit: Callable[[int], None]


@dataclass(slots=True)
class RunningContainer:
    """A running container with its open descriptors."""

    spec: ContainerSpec
    sandbox: Sandbox
    state: ContainerState
    outputs: list[Output]
    log: LogFile | None
    stdin: int = -1  # the write end, while the shim holds it
    terminal: tuple[int, int] | None = None  # master and slave
    executions: dict[int, ExecProcess] = field(default_factory=dict)  # by pid
    ended_by: int = 0  # the signal that it was killed in place of


@dataclass(frozen=True, slots=True)
class StreamEnds:
    """Descriptors for a caller, None where there is no such stream. The caller closes them."""

    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    terminal: int | None = None  # to resize

    def descriptors(self) -> dict[str, int]:
        named = {"stdin": self.stdin, "stdout": self.stdout, "stderr": self.stderr, "terminal": self.terminal}
        return {name: descriptor for name, descriptor in named.items() if descriptor is not None}


class Containers:
    """Running containers, and the last states of exited ones."""

    def __init__(
        self,
        loop: EventLoop,
        isolation: Isolation,
        store: StateStore,
        now: Callable[[], int],
        on_exit: Callable[[ContainerState], None],
        log_error: LogError,
        *,
        log_size: int,
        log_files: int,
    ) -> None:
        self._loop = loop
        self._isolation = isolation
        self._store = store
        self._now = now  # nanoseconds of wall time
        self._on_exit = on_exit
        self._log_error = log_error
        self._log_size = log_size
        self._log_files = log_files
        self._running: dict[Key, RunningContainer] = {}
        self._by_pid: dict[int, RunningContainer] = {}
        self._exited: dict[Key, list[ContainerState]] = {}
        self._unsaved: dict[tuple[Key, int], ContainerState] = {}

    def start(self, sandbox: Sandbox, spec: ContainerSpec) -> ContainerState:
        """Starts a container. Idempotent for one attempt: a container that was started is returned as it is."""
        key = (spec.pod, spec.name)
        for state in self.states():
            if (state.pod, state.name, state.attempt) == (*key, spec.attempt):
                return state
        if key in self._running:
            raise Failure("RunContainerError", f"container {spec.name} is still running")
        if not spec.command:
            raise Failure(
                "CreateContainerError",
                f"container {spec.name} has no command: this runtime uses no images, so it cannot know the entrypoint "
                f"of {spec.image!r}; give it a command",
            )
        running = self._launch(sandbox, spec)
        self._running[key] = running
        self._by_pid[running.state.pid] = running
        self._save(running.state)
        return running.state

    def signal(self, key: Key, number: int) -> None:
        if running := self._running.get(key):
            with contextlib.suppress(ProcessLookupError):
                if self._isolation.signal(running.sandbox, running.state.pid, number):
                    running.ended_by = number

    def execute(
        self,
        key: Key,
        command: ExecCommand,
        *,
        wanted: Sequence[str],
        tty: bool,
        on_exit: Callable[[int], None],
    ) -> tuple[int, StreamEnds]:
        """Starts a further process; returns its pid and the caller's ends of its streams."""
        running = self._existing(key)
        spec = running.spec
        command = replace(
            command,
            environment={**spec.environment, **({"TERM": "xterm"} if tty else {}), **command.environment},
            working_directory=command.working_directory or spec.working_directory,
            identity=spec.identity,
        )
        if tty:
            master, slave = self._isolation.open_terminal(running.sandbox, running.state.pid)
            streams = _Streams(Stdio(slave, slave, slave, tty=True), StreamEnds(terminal=master), [slave])
        else:
            streams = _piped(wanted)
        try:
            pid = self._isolation.execute(running.sandbox, spec, running.state.pid, command, streams.stdio)
        except (Failure, OSError):
            close_all(streams.ends.descriptors().values())
            raise
        finally:
            close_all(streams.container_ends)
        running.executions[pid] = ExecProcess(pid, on_exit)
        self._by_pid[pid] = running
        return pid, streams.ends

    def end_execution(self, pid: int) -> None:
        """Kills a process that `execute` started, with its descendants."""
        running = self._by_pid.get(pid)
        if running and pid in running.executions:
            with contextlib.suppress(ProcessLookupError):
                self._isolation.signal(running.sandbox, pid, signal.SIGKILL)

    def attach(self, key: Key) -> StreamEnds:
        """Returns the container's stdin, where it has one, and its output from now on."""
        running = self._existing(key)
        outputs = [output.attach() for output in running.outputs]
        terminal = os.dup(running.terminal[0]) if running.terminal else None
        stdin: int | None = None
        if running.terminal and running.spec.stdin:
            stdin = os.dup(running.terminal[0])
        elif running.stdin >= 0 and running.spec.stdin_once:
            # stdinOnce: the first client to attach gets the only write end; when it closes that, the
            # container reads end of file.
            stdin, running.stdin = running.stdin, -1
        elif running.stdin >= 0:
            stdin = os.dup(running.stdin)
        return StreamEnds(stdin, outputs[0], outputs[1] if len(outputs) > 1 else None, terminal)

    def states(self, pod: str | None = None) -> Iterator[ContainerState]:
        for states in self._exited.values():
            yield from (state for state in states if pod in (None, state.pod))
        yield from (running.state for running in self._running.values() if pod in (None, running.state.pod))

    def running_keys(self, pod: str | None = None) -> list[Key]:
        return [key for key in self._running if pod in (None, key[0])]

    def usage(self) -> list[Usage]:
        measured = (
            self._isolation.usage(running.sandbox, running.spec, running.state.pid)
            for running in self._running.values()
        )
        return [usage for usage in measured if usage is not None]

    def reap(self) -> None:
        """Reaps every child that has exited: containers, executed processes and orphans."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            try:
                _, status = os.waitpid(found.si_pid, 0)
            except ChildProcessError:
                continue
            self._on_child_exit(found.si_pid, exit_code(status))

    def add_exited(self, state: ContainerState) -> None:
        """Adds the state of an exited container and saves it; the oldest attempts are dropped."""
        states = self._exited.setdefault((state.pod, state.name), [])
        states.append(state)
        self._save(state)
        while len(states) > _KEPT_ATTEMPTS:
            self._store.delete_container(states.pop(0))

    def forget(self, pod: str) -> None:
        self._exited = {key: states for key, states in self._exited.items() if key[0] != pod}
        self._unsaved = {key: state for key, state in self._unsaved.items() if key[0][0] != pod}
        self._store.delete_pod(pod)

    def retry_saves(self) -> None:
        """Saves the states again that could not be written because the disk was full."""
        for state in list(self._unsaved.values()):
            self._save(state)

    def _launch(self, sandbox: Sandbox, spec: ContainerSpec) -> RunningContainer:
        log = (
            LogFile(spec.log_path, self._now, size=self._log_size, files=self._log_files)
            if spec.log_path
            else None
        )
        if spec.tty:
            master, slave = self._isolation.open_terminal(sandbox, 0)
            streams = _Streams(Stdio(slave, slave, slave, tty=True), StreamEnds(stdout=master), [])
        else:
            streams = _piped(["stdin", "stdout", "stderr"] if spec.stdin else ["stdout", "stderr"])
            slave = -1
        try:
            pid = self._isolation.start(sandbox, spec, streams.stdio)
        except (Failure, OSError):
            close_all([*streams.ends.descriptors().values(), *([slave] if spec.tty else [])])
            raise
        finally:
            close_all(streams.container_ends)
        started = ContainerState(spec.pod, spec.name, spec.attempt, started=self._now() / 1e9, pid=pid)
        ends = streams.ends
        outputs = [
            Output(self._loop, descriptor, name, log)
            for name, descriptor in (("stdout", ends.stdout), ("stderr", ends.stderr))
            if descriptor is not None
        ]
        # The shim holds both ends of the terminal open: a program that closes it may open it again.
        terminal = (outputs[0].descriptor, slave) if spec.tty else None
        return RunningContainer(
            spec, sandbox, started, outputs, log, -1 if ends.stdin is None else ends.stdin, terminal
        )

    def _existing(self, key: Key) -> RunningContainer:
        if running := self._running.get(key):
            return running
        raise Failure("ContainerNotRunning", f"container {key[1]} is not running")

    def _on_child_exit(self, pid: int, code: int) -> None:
        running = self._by_pid.pop(pid, None)
        if running is None:
            return
        if execution := running.executions.pop(pid, None):
            execution.on_exit(code)
            return
        self._on_container_exit(running, code)

    def _on_container_exit(self, running: RunningContainer, code: int) -> None:
        spec = running.spec
        if running.ended_by and code == 128 + signal.SIGKILL:
            code = 128 + running.ended_by
        try:
            out_of_memory = self._isolation.finish(running.sandbox, spec, running.state.pid)
        except (Failure, OSError) as error:  # the exit of a container is reported even if cleanup fails
            self._log_error("container cleanup failed", error, pod=spec.pod, container=spec.name)
            out_of_memory = False
        for output in running.outputs:
            output.finish()
        if running.log:
            running.log.close()
        if running.stdin >= 0:
            os.close(running.stdin)
        if running.terminal:
            os.close(running.terminal[1])
        reason = "OOMKilled" if out_of_memory else "Error" if code else "Completed"
        state = replace(running.state, pid=0, finished=self._now() / 1e9, exit_code=code, reason=reason)
        del self._running[spec.pod, spec.name]
        self.add_exited(state)
        self._on_exit(state)

    def _save(self, state: ContainerState) -> None:
        key = ((state.pod, state.name), state.attempt)
        try:
            self._store.save_container(state)
            self._unsaved.pop(key, None)
        except OSError:
            self._unsaved[key] = state


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams a process starts with, the caller's ends, and the descriptors to close once it runs."""

    stdio: Stdio
    ends: StreamEnds
    container_ends: list[int]


def _piped(wanted: Sequence[str]) -> _Streams:
    inside: list[int] = []
    ends: dict[str, int] = {}
    try:
        for name in ("stdin", "stdout", "stderr"):
            if name in wanted:
                reading, writing = os.pipe()
                inside.append(reading if name == "stdin" else writing)
                ends[name] = writing if name == "stdin" else reading
            else:
                inside.append(os.open(os.devnull, os.O_RDWR))
    except OSError as error:
        close_all([*inside, *ends.values()])
        raise Failure("CreateContainerError", f"no pipes for its output: {error.strerror}") from error
    stdin, stdout, stderr = inside
    return _Streams(Stdio(stdin, stdout, stderr), StreamEnds(**ends), inside)


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
