"""A pod without processes: actions are executed immediately, and tests decide what containers and probes do."""

import math
from dataclasses import replace
from typing import Any

from tests.nodes.kubelet.pods.bench import container, spec
from volcano.base.clock import timestamp
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet import container_state as state
from volcano.nodes.kubelet import probe_state
from volcano.nodes.kubelet.container_state import ContainerRun, Stopping, Termination, Waiting, containers_of
from volcano.nodes.kubelet.pods import lifecycle
from volcano.nodes.kubelet.pods.status import status_of
from volcano.nodes.kubelet.probe_state import ProbeKind

START = 1_800_000_000.0


class PodPlayer:
    """One pod. `performed` are the executed actions, in order."""

    def __init__(self, *containers: Manifest, **fields: Any) -> None:
        self.pod: Manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": spec(*containers, **fields),
        }
        self.now = START
        self.pod_state = lifecycle.PodState(accepted=START, host_address="192.0.2.7")
        self.containers = containers_of(self.pod)
        self.performed: list[str] = []
        self.answers: dict[tuple[str, ProbeKind], bool | None] = {}
        self.stubborn: set[str] = set()
        self.hooks_hang = False
        self.start_errors: dict[str, str] = {}  # container → reason it cannot be started
        self.removed = False
        self.sync_at = math.inf
        self.settle()

    def settle(self) -> "PodPlayer":
        """Executes all actions that are due."""
        for _ in range(200):
            lifecycle.mark_started_sidecars(self.containers, self.pod_state)
            computed = lifecycle.compute_pod_actions(self.pod, self.containers, self.pod_state, self.now)
            self.sync_at = computed.sync_at
            todo = [action for action in computed.actions if not isinstance(action, lifecycle.DeletePod)]
            for action in todo:
                self._do(action)
            status = self.status()
            self.pod_state.phase = status["phase"]
            self.pod["status"] = status
            if len(todo) < len(computed.actions):
                self.removed = True
            if not todo:
                return self
        raise AssertionError(f"it never settles: {computed.actions}")

    def _do(self, action: lifecycle.Action) -> None:
        match action:
            case lifecycle.PreparePod():
                self.pod_state.prepared, self.pod_state.address = True, "10.88.0.2"
            case lifecycle.StartContainer(name):
                self._start(name)
            case lifecycle.StopContainer(name, message, grace, restart):
                self.performed.append(f"stop {name}: {message}")
                hook = self.containers[name].hook("preStop") is not None and grace > 0 and self.hooks_hang
                stop = Stopping(self.now, grace, restart=restart, hook=hook)
                self.pod_state.runs[name] = replace(self.pod_state.run(name), stopping=stop)
            case lifecycle.SignalContainer(name, kill):
                self._signal(name, kill=kill)
            case lifecycle.RunProbe(name, kind):
                run, probe = self.pod_state.run(name), self.containers[name].probes[kind]
                asked = probe_state.probe_started(
                    run.probe_states.get(kind, probe_state.NOT_PROBED), probe, self.now
                )
                received = probe_state.probe_finished(asked, probe, self.answers.get((name, kind), True))
                self.performed.append(f"ask {name} {kind.label}")
                self.pod_state.runs[name] = replace(run, probe_states={**run.probe_states, kind: received})
            case lifecycle.FailPod(failure):
                self.pod_state.failure = failure
            case lifecycle.ReleasePod():
                self.pod_state.released, self.pod_state.prepared = True, False
                self.performed.append("release")

    def _start(self, name: str) -> None:
        run = self.pod_state.run(name)
        self.performed.append(f"start {name}#{run.attempt + 1}")
        reason = self.start_errors.get(name, "")
        if reason == "StartError":
            how = Termination(run.attempt + 1, 128, reason, "no such program", finished=self.now)
            self.pod_state.runs[name] = state.ended(state.starting(run), how)
        elif reason:
            waiting = Waiting(reason, "missing", self.now + 10)
            self.pod_state.runs[name] = state.not_created(state.starting(run), waiting)
        else:
            self.pod_state.runs[name] = state.started(
                state.starting(run), run.attempt + 1, self.now, hook=False
            )

    def _signal(self, name: str, *, kill: bool) -> None:
        self.performed.append(f"{'kill' if kill else 'term'} {name}")
        run = self.pod_state.run(name)
        assert run.stopping is not None
        stop = replace(run.stopping, killed=True) if kill else replace(run.stopping, term_sent=self.now)
        self.pod_state.runs[name] = replace(run, stopping=stop)
        if kill or name not in self.stubborn:
            self._over(name, 137 if kill else 143)

    def _over(self, name: str, code: int) -> None:
        run = self.pod_state.run(name)
        reason = "Completed" if code == 0 else "Error"
        how = Termination(run.attempt, code, reason, "", run.started, self.now)
        self.pod_state.runs[name] = state.ended(run, how)

    def end(self, name: str, code: int = 0) -> "PodPlayer":
        """Ends a running container."""
        assert self.pod_state.run(name).running, f"{name} does not run"
        self._over(name, code)
        return self.settle()

    def wait(self, seconds: float) -> "PodPlayer":
        """Advances the time; actions are executed when they become due."""
        until = self.now + seconds
        while self.sync_at <= until:
            self.now = max(self.sync_at, self.now)
            before = self.sync_at
            self.settle()
            assert self.sync_at != before or self.sync_at > self.now, "due again at the same moment"
        self.now = until
        return self.settle()

    def delete(self, grace: float = 30) -> "PodPlayer":
        metadata = self.pod["metadata"]
        metadata["deletionTimestamp"] = timestamp(self.now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        return self.settle()

    def status(self) -> Manifest:
        return status_of(self.pod, self.containers, self.pod_state, self.now, "volcano-test")

    def run(self, name: str = "c") -> ContainerRun:
        return self.pod_state.run(name)

    def entry(self, name: str = "c") -> Manifest:
        status = self.status()
        lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        found: Manifest = next(e for field in lists for e in status.get(field, ()) if e["name"] == name)
        return found

    def condition(self, kind: str) -> Manifest:
        found: Manifest = next(c for c in self.status()["conditions"] if c["type"] == kind)
        return found

    @property
    def phase(self) -> str:
        return self.pod_state.phase

    @property
    def starts(self) -> list[str]:
        return [line.removeprefix("start ") for line in self.performed if line.startswith("start ")]


def sidecar(name: str, **fields: Any) -> Manifest:
    return container(name, restartPolicy="Always", **fields)
