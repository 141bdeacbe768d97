"""Runs isolations in a forked child in place of the shim, so that pytest itself never leaves its namespaces."""

import codecs
import os
import pickle
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from volcano.nodes.shim.isolation.base import ExecCommand, Stdio
from volcano.nodes.shim.isolation.namespaces import NamespacedSandbox, NamespaceIsolation
from volcano.nodes.shim.specs import ContainerSpec, Failure, Mode, SandboxSpec

Result = TypeVar("Result")
NOBODY = 65534
HOSTS = "127.0.0.1 localhost\n{address} {name}\n"


@dataclass(frozen=True)
class Setting:
    """The isolation under test and its user."""

    mode: Mode
    user: int = 0

    def __str__(self) -> str:
        return f"{self.mode}-{'root' if self.user == 0 else 'nobody'}"


@dataclass(frozen=True)
class Ended:
    """Result of an exited container."""

    code: int
    output: str
    out_of_memory: bool = False

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


class ForkedShim:
    """Pods and containers of a test, in the child that has joined the shim's namespaces."""

    def __init__(self, isolation: NamespaceIsolation, directory: Path) -> None:
        self.isolation = isolation
        self.directory = directory

    def pod(self, name: str = "a", **wanted: Any) -> NamespacedSandbox:
        directory = self.directory / "pods" / name
        directory.mkdir(parents=True, exist_ok=True)
        spec = SandboxSpec(
            uid=name, namespace="default", name=name, node="local-0", directory=str(directory), hostname=name,
            hosts=HOSTS.replace("{name}", name), resolv_conf="nameserver 10.96.0.10\n",
        )  # fmt: skip
        return self.isolation.create(replace(spec, **wanted))

    def container(self, pod: NamespacedSandbox, script: str = "", **wanted: Any) -> ContainerSpec:
        command = ("sh", "-c", script)
        return replace(ContainerSpec(pod.spec.uid, "main", 0, "none", command), **wanted)

    def run(self, pod: NamespacedSandbox, script: str = "", **wanted: Any) -> Ended:
        """Starts a container with a shell script (or `command`), and waits for its end."""
        running = self.start(pod, script, **wanted)
        return running.ended()

    def start(self, pod: NamespacedSandbox, script: str = "", **wanted: Any) -> "Running":
        spec = self.container(pod, script, **wanted)
        with _output() as (read, stdio):
            return Running(self, pod, spec, self.isolation.start(pod, spec, stdio), read)


class Running:
    """A container or an executed process, with the read end of its output."""

    def __init__(
        self, shim: ForkedShim, pod: NamespacedSandbox, spec: ContainerSpec, pid: int, output: int
    ) -> None:
        self.shim, self.pod, self.spec, self.pid, self.output = shim, pod, spec, pid, output

    def line(self) -> str:
        """The next line that it writes."""
        written = b""
        while not written.endswith(b"\n") and (byte := os.read(self.output, 1)):
            written += byte
        return written.decode().rstrip("\n")

    def execute(self, script: str, environment: Mapping[str, str] | None = None, **wanted: Any) -> Ended:
        running = self.started(("sh", "-c", script), environment, **wanted)
        output = _read(running.output)
        return Ended(exit_code(os.waitpid(running.pid, 0)[1]), output)

    def started(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, **wanted: Any
    ) -> "Running":
        further = ExecCommand(command, environment or {}, **wanted)
        isolation = self.shim.isolation
        with _output() as (read, stdio):
            pid = isolation.execute(self.pod, self.spec, self.pid, further, stdio)
        return Running(self.shim, self.pod, self.spec, pid, read)

    def signal(self, number: int) -> None:
        self.shim.isolation.signal(self.pod, self.pid, number)

    def ended(self) -> Ended:
        code = exit_code(os.waitpid(self.pid, 0)[1])
        out_of_memory = self.shim.isolation.finish(self.pod, self.spec, self.pid)
        return Ended(code, _read(self.output), out_of_memory)


def in_shim(setting: Setting, body: Callable[[ForkedShim], Result]) -> Result:
    """Runs `body` in a forked shim that is closed afterwards; returns its result or raises its exception."""
    with directory_for(setting.user) as directory:
        return in_child(lambda: _run_in_shim(setting, body, directory))


def in_child(work: Callable[[], Result]) -> Result:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.write(write, pickle.dumps(_outcome(work)))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    assert told, "the child ended without a word"
    kind, value = pickle.loads(told)
    if kind == "failure":
        raise Failure(*value)
    assert kind == "result", value
    return value  # type: ignore[no-any-return]


def _outcome(work: Callable[[], object]) -> tuple[str, object]:
    try:
        return "result", work()
    except Failure as failure:
        return "failure", (failure.reason, failure.message)
    except BaseException:
        return "error", traceback.format_exc()


def become(user: int) -> None:
    if user:
        codecs.lookup("ascii")  # this Python's own files may not be readable for the user
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        # Directories that the user may not read must not be searched.
        os.environ.update(PATH="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/nonexistent")


@contextmanager
def directory_for(user: int) -> Iterator[Path]:
    """A data directory that the user can access, unlike tmp_path."""
    directory = Path(tempfile.mkdtemp(prefix="volcano,isolation:"))
    try:
        directory.chmod(0o755)
        os.chown(directory, user, user)
        yield directory
    finally:
        shutil.rmtree(directory)


def _run_in_shim(setting: Setting, body: Callable[[ForkedShim], Result], directory: Path) -> Result:
    become(setting.user)
    before = open_descriptors()
    isolation = NamespaceIsolation(setting.mode, str(directory))
    isolation.open()
    try:
        result = body(ForkedShim(isolation, directory))
    finally:
        isolation.close()
    assert not list(directory.glob("isolation")), "the isolation left its directory behind"
    assert open_descriptors() <= before, "the isolation left descriptors open"
    return result


def open_descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def installed(*programs: str) -> bool:
    return all(shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") for program in programs)


def host(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout


@contextmanager
def _output() -> Iterator[tuple[int, Stdio]]:
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        yield read, Stdio(null, write, write)
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
        os.close(null)


def _read(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read().decode()
