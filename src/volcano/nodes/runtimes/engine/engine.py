"""Runtime on podman or docker, through the engine's command line: images, network and limits are the
engine's.

This process holds no state that the engine does not have: containers carry labels, so the next process of
the same cluster can adopt them.
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
from volcano.base.clock import Clock, SystemClock
from volcano.base.log import Log
from volcano.nodes.cri import ExistingPods, Features, Process
from volcano.nodes.runtimes.engine import capability_probe, cli, commands, exec_process, network
from volcano.nodes.runtimes.engine.cleanup import remove_cluster
from volcano.nodes.runtimes.engine.container_inspect import InspectedContainer, parse_inspect
from volcano.nodes.runtimes.engine.container_watcher import ContainerWatcher
from volcano.nodes.runtimes.engine.images import ImagePuller
from volcano.nodes.runtimes.engine.lifeline import DONE
from volcano.nodes.runtimes.engine.sandboxes import Sandboxes, memory_directory
from volcano.nodes.runtimes.engine.usage import cgroup_usage
from volcano.nodes.shim import logfile
from volcano.nodes.shim.network_rules import NetworkRules
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Failure, SandboxSpec, SandboxState, Usage

MARKER = "engine.json"  # in the data directory; names the engine that runs this cluster
_KEPT_ATTEMPTS = 2
_LIFELINE_TIMEOUT = 60.0
_IN_USE = ("already in use", "already exists")
_SANDBOX_NOT_RUNNING = (
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
# Errors of a start caused by the program itself, and the exit code that a shell returns for them.
_PROGRAM_ERRORS = (
    ("permission denied", 126),
    ("not found", 127),
    ("no such file", 127),
    ("exec format", 126),
)
_log = Log("nodes.engine")


async def cleanup(directory: Path, clock: Clock | None = None) -> list[str]:
    """For `volcano down`: removes the cluster of this directory from its engine; returns what was removed."""
    marker = Path(directory).absolute() / MARKER
    try:
        name = str(json.loads(marker.read_text())["engine"])
        profile = commands.PROFILES[name]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    cluster = commands.cluster_id(str(marker.parent))
    program = shutil.which(name)
    if program is None:
        raise Failure(
            "RuntimeUnavailable", f"{name} is not on PATH any more: its pods of this cluster were not removed"
        )
    removed = await asyncio.to_thread(remove_cluster, program, profile, cluster)
    shutil.rmtree(memory_directory(cluster), ignore_errors=True)
    marker.unlink(missing_ok=True)
    return [f"{name}'s {each}" for each in removed]


class EngineRuntime:
    """Implements `Runtime` for podman and docker.

    With `lifeline` a small process removes all pods when this process exits, even if it is killed.
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
        self._profile = commands.PROFILES[name]
        self.features = self._features(commands.EngineCapabilities())
        self._directory = Path(directory).absolute()
        self._clock = clock or SystemClock()
        self._ephemeral = lifeline
        cluster = commands.cluster_id(str(self._directory))
        self._cluster = commands.ClusterRef(cluster, os.getpid() if lifeline else 0)
        self._engine = cli.EngineCLI(name, self._directory)
        self._sandboxes = Sandboxes(self._engine, self._profile, self._cluster)
        self._images = ImagePuller(self._engine, self._clock)
        self._on_exit: Callable[[ContainerState], None] = lambda state: None
        self._containers = ContainerWatcher(
            self._engine,
            self._profile,
            self._clock,
            lambda state: self._on_exit(state),
            log_size=log_size,
            log_files=log_files,
        )
        self._exited: dict[tuple[str, str, int], ContainerState] = {}
        self._exec_numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lifeline: subprocess.Popen[bytes] | None = None

    def on_change(self, handler: Callable[[ContainerState], None]) -> None:
        def on_exit(state: ContainerState) -> None:
            self._exited[state.pod, state.name, state.attempt] = state
            handler(state)

        self._on_exit = on_exit

    # Open and close

    async def open(self) -> ExistingPods:
        self._engine.locate()
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / MARKER).write_text(json.dumps({"engine": self.name}))
        if self._ephemeral and self._lifeline is None:
            self._lifeline = self._start_lifeline()
        await self._sandboxes.probe()
        self.features = self._features(self._sandboxes.capabilities)
        found = await self._adopt()
        self._spawn(self._containers.rotate_logs)
        return found

    async def close(self, *, keep: bool) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._containers.close()
        if keep:
            return  # the lifeline stays until this process exits
        await cleanup(self._directory)
        if self._lifeline is not None:
            lifeline, self._lifeline = self._lifeline, None
            await asyncio.to_thread(lifeline.communicate, DONE, timeout=_LIFELINE_TIMEOUT)

    async def _adopt(self) -> ExistingPods:
        listed = await self._engine.call("ps", "-aq", "--no-trunc", *self._cluster.filters())
        everything = [parse_inspect(each) for each in await self._engine.inspect(*listed.text.split())]
        own = [each for each in everything if each.labels.get(commands.HOLDER) == str(self._cluster.holder)]
        await self._remove([each for each in everything if each not in own])
        sandboxes = self._sandboxes.adopt(each for each in own if each.is_sandbox)
        with_sandbox = {sandbox.uid for sandbox in sandboxes}
        states: list[ContainerState] = []
        for container in (each for each in own if each.is_container):
            if container.running and container.pod not in with_sandbox:
                await self._engine.call("kill", "--signal=KILL", container.identifier)
            if container.running:
                self._containers.watch(container)
            else:
                await self._containers.write_remaining_output(container)
                self._exited[container.pod, container.name, container.attempt] = container.state()
            states.append(container.state())
        return ExistingPods(tuple(sandboxes), tuple(states))

    async def _remove(self, foreign: Sequence[InspectedContainer]) -> None:
        """Removes containers of an earlier process that had a lifeline."""
        for sandbox in (False, True):  # containers before the sandbox that they join
            some = [each.identifier for each in foreign if each.is_sandbox is sandbox]
            if some:
                await self._engine.call("rm", "--force", "--volumes", *self._profile.remove_options, *some)

    def _start_lifeline(self) -> "subprocess.Popen[bytes]":
        cluster = self._cluster
        return subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "volcano.nodes.runtimes.engine.lifeline"),
                *(self.name, self._engine.program, cluster.id, str(cluster.holder)),
                str(memory_directory(cluster.id)),
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

    def _features(self, capabilities: commands.EngineCapabilities) -> Features:
        return Features(
            own_network=True,
            pulls_images=True,
            enforces_limits=capabilities.limits,
            any_user=True,
            limitations=capability_probe.describe_limitations(self._profile, capabilities),
        )

    # Pods and containers

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        return await self._sandboxes.create(spec)

    async def remove_sandbox(self, pod: str) -> None:
        await self._containers.forget(pod)
        await self._sandboxes.remove(pod)
        self._exited = {key: state for key, state in self._exited.items() if key[0] != pod}

    async def start(self, spec: ContainerSpec) -> ContainerState:
        running = self._containers.find(spec.pod, spec.name)
        if running is not None and running.attempt == spec.attempt:
            return running.state()
        exited = self._exited.get((spec.pod, spec.name, spec.attempt))
        if exited is not None:
            return exited
        if running is not None:
            raise Failure("RunContainerError", f"container {spec.name} is still running")
        await self._images.ensure(spec)
        await self._images.check_user(spec)
        await self._create(spec)
        container = await self._started(spec)
        self._spawn(lambda: self._remove_attempt(spec, spec.attempt - _KEPT_ATTEMPTS))
        if container.running:
            self._containers.watch(container)
        else:
            await self._containers.write_remaining_output(container)
            self._exited[spec.pod, spec.name, spec.attempt] = container.state()
        return container.state()

    async def _create(self, spec: ContainerSpec, *, again: bool = True) -> None:
        pod_sandbox = self._sandboxes.find(spec.pod)
        if pod_sandbox is None:
            raise Failure("CreateContainerError", f"pod {spec.pod} has no sandbox")
        Path(spec.log_path).parent.mkdir(parents=True, exist_ok=True)
        mounts = self._sandboxes.mounts(spec)
        command = commands.create_container(
            self._profile, self._cluster, self._sandboxes.capabilities, pod_sandbox.spec, spec, mounts
        )
        made = await self._engine.call(*command, environment=commands.inherited_environment(spec))
        if made.ok:
            return
        error = made.error.lower()
        if again and any(text in error for text in _IN_USE):
            await self._remove_attempt(spec, spec.attempt)  # left by an interrupted start
        elif again and any(text in error for text in _SANDBOX_NOT_RUNNING):
            await self._sandboxes.recreate(pod_sandbox.spec)
        else:
            raise Failure("CreateContainerError", made.error)
        await self._create(spec, again=False)

    async def _started(self, spec: ContainerSpec) -> InspectedContainer:
        name = self._name(spec.pod, spec.name, spec.attempt)
        result = await self._engine.call("start", name)
        if not result.ok and await self._recreate_sandbox(spec, result):
            result = await self._engine.call("start", name)
        found = await self._engine.inspect(name) if result.ok else []
        if found:
            return parse_inspect(found[0])
        await self._remove_attempt(spec, spec.attempt)
        error = result.error or f"container {name} is gone"
        for text, code in _PROGRAM_ERRORS:
            if text in error.lower():
                raise Failure("StartError", error, exit_code=code)
        raise Failure("RunContainerError", error)

    async def _recreate_sandbox(self, spec: ContainerSpec, result: cli.CommandResult) -> bool:
        """Recreates a sandbox that was stopped from outside; False when the start failed for another reason."""
        pod_sandbox = self._sandboxes.find(spec.pod)
        found = await self._engine.inspect(commands.sandbox_name(self._cluster, spec.pod))
        if pod_sandbox is None or (found and parse_inspect(found[0]).running):
            return False
        _log.warning("sandbox recreated", pod=spec.pod, reason=result.error)
        await self._sandboxes.recreate(pod_sandbox.spec)
        await self._create(spec)
        return True

    async def _remove_attempt(self, spec: ContainerSpec, attempt: int) -> None:
        if attempt >= 0:
            name = self._name(spec.pod, spec.name, attempt)
            await self._engine.call("rm", "--force", "--volumes", *self._profile.remove_options, name)
            self._exited.pop((spec.pod, spec.name, attempt), None)

    async def signal(self, pod: str, container: str, number: int) -> None:
        running = self._containers.find(pod, container)
        if running is None:
            return
        result = await self._engine.call("kill", f"--signal={int(number)}", running.identifier)
        if not result.ok and not any(text in result.error.lower() for text in _NOT_RUNNING):
            raise Failure("KillContainerError", result.error)

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
        exec_id = f"{os.getpid()}-{next(self._exec_numbers)}-{running.identifier[:12]}"
        arguments = commands.execute(
            running.identifier, command, exec_id, stdin=stdin, tty=tty, environment=environment or {}
        )
        if tty:
            return await exec_process.spawn_on_terminal(self._engine.program, arguments, exec_id=exec_id)
        wanted = [
            name
            for name, requested in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr))
            if requested
        ]
        return await exec_process.spawn(self._engine.program, arguments, wanted, exec_id=exec_id)

    async def attach(self, pod: str, container: str) -> Process:
        running = self._running(pod, container)
        arguments = commands.attach(running.identifier, stdin=running.stdin)
        if running.terminal:
            return await exec_process.spawn_on_terminal(self._engine.program, arguments)
        wanted = ["stdin", "stdout", "stderr"] if running.stdin else ["stdout", "stderr"]
        return await exec_process.spawn(self._engine.program, arguments, wanted)

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        pod_sandbox = self._sandboxes.find(pod)
        if pod_sandbox is None:
            raise ConnectionRefusedError(111, f"there is no pod {pod}")
        own = [pod_sandbox.address] if pod_sandbox.address else []
        failure: OSError = ConnectionRefusedError(111, f"nothing in pod {pod} listens on port {port}")
        for target in [host] if host else ["127.0.0.1", *own, "::1"]:
            try:
                made = await self._socket(pod, target, within=not pod_sandbox.spec.host_network)
            except OSError as error:
                failure = error
                continue
            try:
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, (target, port))
                return made
            except OSError as error:
                failure = error
                made.close()
            except asyncio.CancelledError:
                made.close()
                raise
        raise failure

    async def _socket(self, pod: str, target: str, *, within: bool) -> socket.socket:
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        pid = self._sandboxes.pid(pod)
        if within and os.geteuid() == 0 and pid:
            return await network.open_in_thread(pid, family)
        if within and self._profile is commands.PODMAN and pid:
            return await network.open_with_podman(self._engine.program, pid, family)
        if within and target in ("127.0.0.1", "::1"):
            raise ConnectionRefusedError(111, f"the loopback of pod {pod} is reached by root alone")
        return socket.socket(family, socket.SOCK_STREAM)

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        """Not possible in the engine's network: the name server is excluded instead."""
        self._sandboxes.exclude_name_server(address)
        return None

    async def apply_network_rules(self, rules: NetworkRules) -> None:
        raise Failure("NetworkRulesNotApplied", f"{self.name} manages the network of its pods itself")

    async def usage(self) -> Sequence[Usage]:
        found = []
        for container in self._containers:
            amounts = cgroup_usage(container.pid) if container.pid else None
            if amounts is not None:
                found.append(Usage(container.pod, container.name, *amounts))
        return found

    async def writable_layers(self, pod: str) -> Mapping[str, int]:
        running = {each.identifier: each.name for each in self._containers if each.pod == pod}
        found = await self._engine.inspect(*running, options=("--size",))
        return {
            running[each["Id"]]: int(each.get("SizeRw") or 0) for each in found if each.get("Id") in running
        }

    def _running(self, pod: str, container: str) -> InspectedContainer:
        running = self._containers.find(pod, container)
        if running is None:
            raise Failure("ContainerNotRunning", f"container {container} is not running")
        return running

    def _name(self, pod: str, container: str, attempt: int) -> str:
        return commands.container_name(self._cluster, pod, container, attempt)

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(self._ignore_failures(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ignore_failures(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with contextlib.suppress(Failure):
            await work()
