"""Pods as containers of podman or docker, driven through the engine's command line: images, its network, its limits.

Nothing is kept in this process that the engine does not know: containers carry labels, so the next process of the
same cluster finds them as they are.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import volcano
from volcano.clock import Clock, SystemClock
from volcano.log import Log
from volcano.nodes.cri import ExistingPods, Features, Process
from volcano.nodes.runtimes.engine import calls as calls
from volcano.nodes.runtimes.engine import commands as commands
from volcano.nodes.runtimes.engine import network, process, trial
from volcano.nodes.runtimes.engine.cleanup import remove_everything
from volcano.nodes.runtimes.engine.images import Images
from volcano.nodes.runtimes.engine.lifeline import DONE
from volcano.nodes.runtimes.engine.records import Known, known
from volcano.nodes.runtimes.engine.sandboxes import Sandboxes, memory_of
from volcano.nodes.runtimes.engine.tracking import Tracking
from volcano.nodes.runtimes.engine.usage import used
from volcano.nodes.shim import logfile
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Failure, SandboxSpec, SandboxState, Usage

WHOAMI = "engine.json"  # in the data directory: which engine has something of this cluster
KEPT_ATTEMPTS = 2
_PATIENCE = 60.0
_IN_USE = ("already in use", "already exists")
_SANDBOX_GONE = (
    "no such container",
    "no container with",
    "not running",
    "dependency",
    "cannot join",
    "is stopped",
)
_NOT_RUNNING = (
    "not running",
    "can only kill running",
    "no such container",
    "no container with",
    "is stopped",
)
# Words of a start that failed because of the program itself, and the exit code a shell has for that.
_PROGRAM_TROUBLE = (
    ("permission denied", 126),
    ("not found", 127),
    ("no such file", 127),
    ("exec format", 126),
)
_log = Log("nodes.engine")


async def sweep(directory: Path, clock: Clock | None = None) -> list[str]:
    """For `volcano down`: removes what an engine has of this directory's cluster; says in words what there was."""
    marker = Path(directory).absolute() / WHOAMI
    try:
        name = str(json.loads(marker.read_text())["engine"])
        flavour = commands.FLAVOURS[name]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    cluster = commands.cluster_of(str(marker.parent))
    program = shutil.which(name)
    if program is None:
        raise Failure(
            "RuntimeUnavailable", f"{name} is not on PATH any more: its pods of this cluster were not removed"
        )
    removed = await asyncio.to_thread(remove_everything, program, flavour, cluster)
    shutil.rmtree(memory_of(cluster), ignore_errors=True)
    marker.unlink(missing_ok=True)
    return [f"{name}'s {each}" for each in removed]


class EngineRuntime:
    """Implements `Runtime` for podman and docker.

    With `lifeline` a small process removes every pod as soon as this one is gone, however it ends.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        lifeline: bool = False,
        *,
        clock: Clock | None = None,
        log_size: int = logfile.DEFAULT_SIZE,
        log_files: int = logfile.DEFAULT_FILES,
    ) -> None:
        self.name = name
        self._flavour = commands.FLAVOURS[name]
        self.features = self._features(commands.Abilities())
        self._directory = Path(directory).absolute()
        self._clock = clock or SystemClock()
        self._throw_away = lifeline
        cluster = commands.cluster_of(str(self._directory))
        self._belonging = commands.Belonging(cluster, os.getpid() if lifeline else 0)
        self._engine = calls.Engine(name, name, self._directory)
        self._sandboxes = Sandboxes(self._engine, self._flavour, self._belonging)
        self._images = Images(self._engine, self._clock)
        self._tell: Callable[[ContainerState], None] = lambda state: None
        self._tracking = Tracking(
            self._engine,
            self._flavour,
            self._clock,
            lambda state: self._tell(state),
            log_size=log_size,
            log_files=log_files,
        )
        self._over: dict[tuple[str, str, int], ContainerState] = {}
        self._marks = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watcher: subprocess.Popen[bytes] | None = None

    def on_change(self, tell: Callable[[ContainerState], None]) -> None:
        def remember(state: ContainerState) -> None:
            self._over[state.pod, state.name, state.attempt] = state
            tell(state)

        self._tell = remember

    # Opening and closing

    async def open(self) -> ExistingPods:
        self._engine.program = calls.find(self.name)
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / WHOAMI).write_text(json.dumps({"engine": self.name}))
        if self._throw_away and self._watcher is None:
            self._watcher = self._watch_over()
        self._sandboxes.able = await trial.find_out(self._engine, self._flavour, self._belonging)
        self.features = self._features(self._sandboxes.able)
        found = await self._found()
        self._spawn(self._tracking.keep_logs_short)
        return found

    async def close(self, *, keep: bool) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._tracking.close()
        if keep:
            return  # a lifeline stays until this process ends
        await sweep(self._directory)
        if self._watcher is not None:
            watcher, self._watcher = self._watcher, None
            await asyncio.to_thread(watcher.communicate, DONE, timeout=_PATIENCE)

    async def _found(self) -> ExistingPods:
        listed = await self._engine.call("ps", "-aq", "--no-trunc", *self._belonging.filters())
        everything = [known(each) for each in await self._engine.inspect(*listed.text.split())]
        ours = [
            each for each in everything if each.labels.get(commands.HOLDER) == str(self._belonging.holder)
        ]
        await self._remove([each for each in everything if each not in ours])
        sandboxes = self._sandboxes.adopt(each for each in ours if each.is_sandbox)
        living = {sandbox.uid for sandbox in sandboxes}
        states: list[ContainerState] = []
        for container in (each for each in ours if each.is_container):
            if container.running and container.pod not in living:
                await self._engine.call("kill", "--signal=KILL", container.identifier)
            if container.running:
                self._tracking.track(container)
            else:
                await self._tracking.catch_up(container)
                self._over[container.pod, container.name, container.attempt] = container.state()
            states.append(container.state())
        return ExistingPods(tuple(sandboxes), tuple(states))

    async def _remove(self, foreign: Sequence[Known]) -> None:
        """Takes away what a process left that meant to leave nothing."""
        for sandbox in (False, True):  # what joins a sandbox goes before it
            some = [each.identifier for each in foreign if each.is_sandbox is sandbox]
            if some:
                await self._engine.call("rm", "--force", "--volumes", *self._flavour.removes, *some)

    def _watch_over(self) -> "subprocess.Popen[bytes]":
        belonging = self._belonging
        return subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "volcano.nodes.runtimes.engine.lifeline"),
                *(self.name, self._engine.program, belonging.cluster, str(belonging.holder)),
                str(memory_of(belonging.cluster)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(volcano.__file__).parents[1]),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )

    def _features(self, able: commands.Abilities) -> Features:
        return Features(
            own_network=True,
            pulls_images=True,
            enforces_limits=able.limits,
            any_user=True,
            limitations=trial.limitations(self._flavour, able),
        )

    # Pods and containers

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        return await self._sandboxes.create(spec)

    async def remove_sandbox(self, pod: str) -> None:
        await self._tracking.forget(pod)
        await self._sandboxes.remove(pod)
        self._over = {key: state for key, state in self._over.items() if key[0] != pod}

    async def start(self, spec: ContainerSpec) -> ContainerState:
        running = self._tracking.find(spec.pod, spec.name)
        if running is not None and running.attempt == spec.attempt:
            return running.state()
        over = self._over.get((spec.pod, spec.name, spec.attempt))
        if over is not None:
            return over
        if running is not None:
            raise Failure("RunContainerError", f"container {spec.name} is still running")
        await self._images.ensure(spec)
        await self._images.check_user(spec)
        await self._create(spec)
        container = await self._started(spec)
        self._spawn(lambda: self._remove_attempt(spec, spec.attempt - KEPT_ATTEMPTS))
        if container.running:
            self._tracking.track(container)
        else:
            await self._tracking.catch_up(container)
            self._over[spec.pod, spec.name, spec.attempt] = container.state()
        return container.state()

    async def _create(self, spec: ContainerSpec, *, again: bool = True) -> None:
        resident = self._sandboxes.find(spec.pod)
        if resident is None:
            raise Failure("CreateContainerError", f"pod {spec.pod} has no sandbox")
        Path(spec.log_path).parent.mkdir(parents=True, exist_ok=True)
        mounts = self._sandboxes.mounts(spec)
        command = commands.create_container(
            self._flavour, self._belonging, self._sandboxes.able, resident.spec, spec, mounts
        )
        made = await self._engine.call(*command, environment=commands.handed_on(spec))
        if made.well:
            return
        complaint = made.complaint.lower()
        if again and any(words in complaint for words in _IN_USE):
            await self._remove_attempt(spec, spec.attempt)  # of a start that was broken off
        elif again and any(words in complaint for words in _SANDBOX_GONE):
            await self._sandboxes.create_anew(resident.spec)
        else:
            raise Failure("CreateContainerError", made.complaint)
        await self._create(spec, again=False)

    async def _started(self, spec: ContainerSpec) -> Known:
        name = self._name(spec.pod, spec.name, spec.attempt)
        answer = await self._engine.call("start", name)
        if not answer.well and await self._renewed(spec, answer):
            answer = await self._engine.call("start", name)
        found = await self._engine.inspect(name) if answer.well else []
        if found:
            return known(found[0])
        await self._remove_attempt(spec, spec.attempt)
        complaint = answer.complaint or f"container {name} is gone"
        for words, code in _PROGRAM_TROUBLE:
            if words in complaint.lower():
                raise Failure("StartError", complaint, exit_code=code)
        raise Failure("RunContainerError", complaint)

    async def _renewed(self, spec: ContainerSpec, answer: calls.Answer) -> bool:
        """Makes a sandbox anew that somebody has ended; False when the start failed for another reason."""
        resident = self._sandboxes.find(spec.pod)
        found = await self._engine.inspect(commands.sandbox_name(self._belonging, spec.pod))
        if resident is None or (found and known(found[0]).running):
            return False
        _log.warning("pod's sandbox made anew", pod=spec.pod, reason=answer.complaint)
        await self._sandboxes.create_anew(resident.spec)
        await self._create(spec)
        return True

    async def _remove_attempt(self, spec: ContainerSpec, attempt: int) -> None:
        if attempt >= 0:
            name = self._name(spec.pod, spec.name, attempt)
            await self._engine.call("rm", "--force", "--volumes", *self._flavour.removes, name)
            self._over.pop((spec.pod, spec.name, attempt), None)

    async def signal(self, pod: str, container: str, number: int) -> None:
        running = self._tracking.find(pod, container)
        if running is None:
            return
        answer = await self._engine.call("kill", f"--signal={int(number)}", running.identifier)
        if not answer.well and not any(words in answer.complaint.lower() for words in _NOT_RUNNING):
            raise Failure("KillContainerError", answer.complaint)

    # Streams

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
        running = self._running(pod, container)
        mark = f"{os.getpid()}-{next(self._marks)}-{running.identifier[:12]}"
        words = commands.execute(
            running.identifier, command, mark, stdin=stdin, tty=tty, environment=environment or {}
        )
        if tty:
            return await process.spawn_on_terminal(self._engine.program, words, mark=mark)
        wanted = [name for name, asked in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)) if asked]
        return await process.spawn(self._engine.program, words, wanted, mark=mark)

    async def attach(self, pod: str, container: str) -> Process:
        running = self._running(pod, container)
        words = commands.attach(running.identifier, stdin=running.stdin)
        if running.terminal:
            return await process.spawn_on_terminal(self._engine.program, words)
        wanted = ["stdin", "stdout", "stderr"] if running.stdin else ["stdout", "stderr"]
        return await process.spawn(self._engine.program, words, wanted)

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        resident = self._sandboxes.find(pod)
        if resident is None:
            raise ConnectionRefusedError(111, f"there is no pod {pod}")
        own = [resident.address] if resident.address else []
        trouble: OSError = ConnectionRefusedError(111, f"nothing in pod {pod} listens on port {port}")
        for target in [host] if host else ["127.0.0.1", *own, "::1"]:
            try:
                made = await self._socket(pod, target, within=not resident.spec.host_network)
            except OSError as error:
                trouble = error
                continue
            try:
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, (target, port))
                return made
            except OSError as error:
                trouble = error
                made.close()
            except BaseException:
                made.close()
                raise
        raise trouble

    async def _socket(self, pod: str, target: str, *, within: bool) -> socket.socket:
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        pid = self._sandboxes.pid(pod)
        if within and os.geteuid() == 0 and pid:
            return await network.opened(pid, family)
        if within and self._flavour is commands.PODMAN and pid:
            return await network.opened_by(self._engine.program, pid, family)
        if within and target in ("127.0.0.1", "::1"):
            raise ConnectionRefusedError(111, f"the loopback of pod {pod} is reached by root alone")
        return socket.socket(family, socket.SOCK_STREAM)

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        """The engine's network is not ours to serve in."""
        self._sandboxes.unserved.add(address)
        return None

    async def usage(self) -> Sequence[Usage]:
        found = []
        for container in self._tracking:
            amounts = used(container.pid) if container.pid else None
            if amounts is not None:
                found.append(Usage(container.pod, container.name, *amounts))
        return found

    async def writable_layers(self, pod: str) -> Mapping[str, int]:
        running = {each.identifier: each.name for each in self._tracking if each.pod == pod}
        found = await self._engine.inspect(*running, options=("--size",))
        return {
            running[each["Id"]]: int(each.get("SizeRw") or 0) for each in found if each.get("Id") in running
        }

    def _running(self, pod: str, container: str) -> Known:
        running = self._tracking.find(pod, container)
        if running is None:
            raise Failure("ContainerNotRunning", f"container {container} is not running")
        return running

    def _name(self, pod: str, container: str, attempt: int) -> str:
        return commands.container_name(self._belonging, pod, container, attempt)

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(self._isolated(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _isolated(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with contextlib.suppress(Failure):
            await work()
