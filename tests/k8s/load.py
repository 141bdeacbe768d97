"""Load for the fault tests: jobs of several kinds with known final phases, submitted by a thread."""

import threading
import time
from collections import defaultdict
from typing import Any

from tests.k8s import invariants
from tests.k8s.plain import GROUPS, JOBS, PODS, Api, History, Object, until

FINISHED = ("Completed", "Failed", "Terminated", "Aborted")
NEVER = 10_000  # pods of a gang that fits on no test cluster


def job(
    name: str,
    replicas: int,
    *,
    cpu: str = "1",
    seconds: float = 1.0,
    exit_code: int = 0,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A job of one task whose pods run for `seconds` and exit with `exit_code`."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": replicas,
            "queue": "default",
            "tasks": [task("work", replicas, cpu=cpu, seconds=seconds, exit_code=exit_code)],
            **spec,
        },
    }


def task(
    name: str, replicas: int, *, cpu: str = "1", seconds: float = 1.0, exit_code: int = 0, **more: Any
) -> Object:
    container = {
        "name": "c",
        "image": "i",
        "command": ["sh", "-c", f"sleep {seconds}; exit {exit_code}"],
        "resources": {"requests": {"cpu": cpu}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


# The final phase of each kind of job, and the largest number of its retries.
KINDS: dict[str, tuple[str, int]] = {
    "plain": ("Completed", 0),
    "sturdy": ("Completed", 50),
    "abort": ("Aborted", 0),
    "retry": ("Failed", 2),
    "leader": ("Completed", 0),
    "giant": ("Pending", 0),
}


def make(kind: str, name: str) -> Object:
    """A job of one of `KINDS`."""
    match kind:
        case "sturdy":  # a kubelet may reject a pod when two schedulers bind to its node
            return job(name, 5, policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=50)
        case "abort":
            policies = [{"event": "PodFailed", "action": "AbortJob"}]
            return job(name, 3, exit_code=1, policies=policies)
        case "retry":
            policies = [{"event": "PodFailed", "action": "RestartJob"}]
            return job(name, 2, seconds=0.5, exit_code=1, policies=policies, maxRetry=2)
        case "leader":
            # Long enough to retry rejected bindings: the other pods are not started any more once it completes.
            completing = [{"event": "TaskCompleted", "action": "CompleteJob"}]
            leading = task("lead", 1, seconds=5, policies=completing)
            manifest = job(name, 3)
            manifest["spec"]["tasks"] = [leading, task("follow", 2, seconds=600)]
            return manifest
        case "giant":
            return job(name, 3, cpu="100")
        case _:
            return job(name, 5)


class Load:
    """Jobs of several kinds in one namespace, submitted one after another, with retries while the server is down."""

    def __init__(self, api: Api, namespace: str, kinds: dict[str, int], *, every: float = 0.15) -> None:
        self._api = api
        self.namespace = namespace
        self.names = [f"{kind}-{number}" for kind, count in kinds.items() for number in range(count)]
        self.names.sort(key=lambda name: int(name.rpartition("-")[2]))
        self._every = every
        self.error: Exception | None = None
        api.create_persistently("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._thread = threading.Thread(target=self._submit, daemon=True)
        self._thread.start()

    def _submit(self) -> None:
        try:
            for name in self.names:
                manifest = make(name.partition("-")[0], name)
                self._api.create_persistently(JOBS.format(self.namespace), manifest)
                time.sleep(self._every)
        except Exception as error:
            self.error = error

    def phases(self) -> dict[str, str]:
        """The phase of each job."""
        jobs = self._api.items(JOBS.format(self.namespace))
        return {j["metadata"]["name"]: j.get("status", {}).get("state", {}).get("phase", "") for j in jobs}

    def under_way(self, pods: int = 5) -> bool:
        """Whether at least this many pods are bound."""
        found = self._api.items(PODS.format(self.namespace))
        return sum(1 for pod in found if pod["spec"].get("nodeName")) >= pods

    def finish(self, within: float, logs: Any) -> None:
        """Waits until every job has its expected phase; fails early when one finished with another phase."""
        until(
            lambda: not self.unexpected() or self._finished_wrongly(),
            within,
            lambda: "\n".join([*self.unexpected(), logs()]),
        )
        assert self.unexpected() == [], logs()

    def _finished_wrongly(self) -> bool:
        return any(f"is {phase!r}" in text for text in self.unexpected() for phase in FINISHED)

    def unexpected(self) -> list[str]:
        """Jobs whose phase is not the expected one."""
        if self.error is not None:
            raise self.error
        phases = self.phases()
        wanted = {name: KINDS[name.partition("-")[0]][0] for name in self.names}
        return [
            f"job {name} is {phases.get(name, 'absent')!r}, not {phase}"
            for name, phase in wanted.items()
            if phases.get(name) != phase
        ]

    def retries(self) -> dict[str, int]:
        return {f"{self.namespace}/{name}": KINDS[name.partition("-")[0]][1] for name in self.names}

    def broken(self, history: History, *, several_schedulers: bool = False) -> list[str]:
        """Violations of `invariants` by this load."""
        events = history.caught_up()
        nodes = self._api.items("/api/v1/nodes")
        return [
            *invariants.bound_twice(events),
            *invariants.over_allocated(events, nodes, accepted=several_schedulers),
            *([] if several_schedulers else invariants.started_twice(events, self.retries())),
            *self._partially_placed(events),
            *invariants.broken_gangs(
                self._api.items(GROUPS.format(self.namespace)), self._api.items(PODS.format(self.namespace))
            ),
        ]

    def _partially_placed(self, events: invariants.Events) -> list[str]:
        """Jobs that never had more than a part of their pods placed; for `giant` jobs, any pod at all."""
        placed: dict[str, set[str]] = defaultdict(set)
        for _, pod in events:
            if pod["metadata"]["namespace"] == self.namespace and pod["spec"].get("nodeName"):
                placed[pod["metadata"]["labels"]["volcano.sh/job-name"]].add(pod["metadata"]["name"])
        least = {"plain": 5, "sturdy": 5, "leader": 3, "giant": NEVER}
        return [
            f"{name} had only {len(placed[name])} of its pods placed"
            for name in self.names
            if 0 < len(placed[name]) < least.get(name.partition("-")[0], 1)
        ]
