"""A runtime that runs nothing: tests decide when containers end and what commands return."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from volcano.base.clock import VirtualClock
from volcano.nodes.cri import ExistingPods, Features
from volcano.nodes.shim.network_rules import NetworkRules
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Failure, SandboxSpec, SandboxState, Usage


class FakeProcess:
    """A process that has written `output` and ended with `code`; with None it never ends."""

    def __init__(self, code: int | None, output: str) -> None:
        self.stdin: int | None = None
        self.stderr: int | None = None
        reader, writer = os.pipe()
        os.write(writer, output.encode())
        self.stdout: int | None = reader
        self._writer = writer
        self._code = code
        if code is not None:
            os.close(writer)
        self.closed = False

    async def wait(self) -> int:
        if self._code is None:
            await asyncio.get_running_loop().create_future()
        assert self._code is not None
        return self._code

    def resize(self, rows: int, columns: int) -> None: ...

    def close(self) -> None:
        assert self.stdout is not None
        os.close(self.stdout)
        if self._code is None:
            os.close(self._writer)
        self.closed = True


class FakeRuntime:
    """`starts` are the specs started so far, `signals` those sent. Containers end on TERM unless in `stubborn`."""

    name = "fake"

    def __init__(self, clock: VirtualClock, **features: object) -> None:
        self.network_rules: list[NetworkRules] = []
        self.clock = clock
        self.features = replace(Features(True, False, True, True), **features)  # type: ignore[arg-type]
        self.sandboxes: dict[str, SandboxSpec] = {}
        self.layers: dict[str, int] = {}  # sizes of writable layers
        self.live: dict[tuple[str, str], ContainerState] = {}
        self.over: list[ContainerState] = []
        self.starts: list[ContainerSpec] = []
        self.signals: list[tuple[str, int]] = []
        self.executed: list[tuple[str, tuple[str, ...]]] = []
        self.answers: dict[tuple[str, ...], tuple[int | None, str]] = {}
        self.failures: dict[str, Failure] = {}  # by container, or "sandbox"
        self.stubborn: set[str] = set()
        self.undelivered_signals = 0  # number of signals that will fail
        self.listening: dict[int, Callable[[], socket.socket]] = {}
        self.removed: list[str] = []
        self.kept: bool | None = None
        self._report_limitations: Callable[[ContainerState], None] = lambda state: None

    async def open(self) -> ExistingPods:
        sandboxes = [
            SandboxState(s.uid, s.namespace, s.name, s.node, s.directory, "10.88.0.9")
            for s in self.sandboxes.values()
        ]
        return ExistingPods(sandboxes, [*self.over, *self.live.values()])

    async def close(self, *, keep: bool) -> None:
        self.kept = keep

    def forget(self) -> None:
        """Forgets every pod, as a runtime that was stopped."""
        self.sandboxes.clear()
        self.live.clear()
        self.over.clear()

    def on_change(self, tell: Callable[[ContainerState], None]) -> None:
        self._report_limitations = tell

    async def create_sandbox(self, spec: SandboxSpec) -> SandboxState:
        if "sandbox" in self.failures:
            raise self.failures["sandbox"]
        self.sandboxes[spec.uid] = spec
        return SandboxState(spec.uid, spec.namespace, spec.name, spec.node, spec.directory, "10.88.0.9")

    async def remove_sandbox(self, pod: str) -> None:
        self.sandboxes.pop(pod, None)
        self.removed.append(pod)
        for uid, name in list(self.live):
            if uid == pod:
                self.end(name, 137)

    async def start(self, spec: ContainerSpec) -> ContainerState:
        if spec.name in self.failures:
            raise self.failures[spec.name]
        self.starts.append(spec)
        state = ContainerState(spec.pod, spec.name, spec.attempt, self.clock.now().wall, pid=1)
        self.live[spec.pod, spec.name] = state
        return state

    async def signal(self, pod: str, container: str, number: int) -> None:
        if self.undelivered_signals:
            self.undelivered_signals -= 1
            raise Failure("RuntimeUnavailable", "not now")
        self.signals.append((container, number))
        if number == 9 or container not in self.stubborn:
            self.end(container, 128 + number)

    def end(self, container: str, code: int, reason: str = "") -> None:
        """Ends the container with this name."""
        for (uid, name), state in list(self.live.items()):
            if name == container:
                del self.live[uid, name]
                done = replace(state, pid=0, finished=self.clock.now().wall, exit_code=code, reason=reason)
                self.over.append(done)
                self._report_limitations(done)

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
    ) -> FakeProcess:
        self.executed.append((container, tuple(command)))
        answer = self.answers.get(tuple(command), (0, ""))
        if answer[0] == -1:
            raise Failure("ExecError", answer[1])
        return FakeProcess(*answer)

    async def attach(self, pod: str, container: str) -> FakeProcess:
        return FakeProcess(0, "")

    async def connect(self, pod: str, port: int, *, host: str = "") -> socket.socket:
        if port not in self.listening:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.listening[port]()

    async def listen(self, address: str, port: int, *, datagram: bool = False) -> socket.socket | None:
        return None

    async def writable_layers(self, pod: str) -> Mapping[str, int]:
        return self.layers

    async def apply_network_rules(self, rules: NetworkRules) -> None:
        self.network_rules.append(rules)

    async def usage(self) -> Sequence[Usage]:
        return ()

    @property
    def running(self) -> list[str]:
        return sorted(name for _, name in self.live)

    @property
    def started(self) -> list[str]:
        return [f"{spec.name}#{spec.attempt}" for spec in self.starts]
