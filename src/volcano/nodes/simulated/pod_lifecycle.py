"""Lifecycle of one simulated pod: its status now, and the time of the next change.

Pure functions of the manifest, the time and a `SimulatedPod`, which only refines the status (timestamps
there have whole seconds): a restarted process continues from the status.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.base.clock import Instant, parse_timestamp, timestamp
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest, has_ended
from volcano.nodes.kubelet.container_state import BACKOFF_RESET, restart_delay
from volcano.nodes.simulated.behaviour import FOREVER, Behaviour, behaviour_of, init_behaviour_of


@dataclass(slots=True)
class SimulatedRun:
    """One container: when (wall) it started, ended or may start again, and how often it restarted."""

    state: str = "waiting"  # waiting, running, terminated, backoff
    since: float = 0.0
    until: float = FOREVER
    exit_code: int = 0
    reason: str = ""
    restarts: int = 0
    crashes: int = 0  # consecutive ends that count for the back-off
    last: Manifest | None = None  # lastState


# Name, behaviour and role (init, sidecar, main).
Container = tuple[str, Behaviour, str]


@dataclass(slots=True)
class SimulatedPod:
    """State of one pod beyond its status."""

    address: str
    host_address: str
    accepted: float = 0.0
    start_delay: float = 0.0
    default_duration: float = FOREVER
    runs: dict[str, SimulatedRun] = field(default_factory=dict)
    finished: bool = False
    # The pod's containers, and the resource version they were read from.
    containers: tuple[str, Sequence[Container]] = ("", ())


def accept(pod: Manifest, simulated: SimulatedPod, now: Instant) -> None:
    """Initializes the state of a pod that is new to this process, from its status if it has one."""
    status = pod.get("status") or {}
    simulated.accepted = parse_timestamp(status["startTime"]) if status.get("startTime") else now.wall
    simulated.finished = has_ended(pod)
    behaviours = {name: behaviour for name, behaviour, _ in containers(pod, simulated)}
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        run = _restored_run(entry, behaviours.get(entry["name"], Behaviour(FOREVER)), now)
        simulated.runs[entry["name"]] = run


def advance(pod: Manifest, simulated: SimulatedPod, now: Instant) -> float:
    """Advances the containers to the present; returns the wall time of the next change."""
    if simulated.finished:
        return FOREVER
    if now.wall < simulated.accepted + simulated.start_delay and not simulated.runs:
        return simulated.accepted + simulated.start_delay
    deadline = pod["spec"].get("activeDeadlineSeconds")
    end = simulated.accepted + deadline if deadline is not None else FOREVER
    if now.wall >= end:
        for name, _, _ in containers(pod, simulated):
            _stop(simulated.runs.setdefault(name, SimulatedRun()), now.wall, 137, "Error")
        simulated.finished = True
        return FOREVER
    due = min(_advance_init(pod, simulated, now), end)
    if _initialized(pod, simulated):
        due = min(due, _advance_main(pod, simulated, now))
        simulated.finished = _all_terminated(pod, simulated)
        if simulated.finished:
            for name, _, role in containers(pod, simulated):
                if role == "sidecar":
                    _stop(simulated.runs[name], now.wall, 0, "Completed")
    elif _init_failed(pod, simulated):
        simulated.finished = True
    return due


def containers(pod: Manifest, simulated: SimulatedPod) -> Sequence[Container]:
    """Every container, in start order."""
    version = pod["metadata"].get("resourceVersion", "")
    if not version or version != simulated.containers[0]:
        simulated.containers = version, tuple(_containers(pod, simulated))
    return simulated.containers[1]


def _containers(pod: Manifest, simulated: SimulatedPod) -> Iterator[Container]:
    spec = pod["spec"]
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container["name"], Behaviour(FOREVER), "sidecar"
        else:
            yield container["name"], init_behaviour_of(container), "init"
    for container in spec.get("containers") or ():
        yield container["name"], behaviour_of(pod, container, simulated.default_duration), "main"


def _advance_init(pod: Manifest, simulated: SimulatedPod, now: Instant) -> float:
    policy = pod["spec"].get("restartPolicy", "Always")
    for name, behaviour, role in containers(pod, simulated):
        if role == "main":
            break
        run = simulated.runs.setdefault(name, SimulatedRun())
        due = _advance_container(
            run, behaviour, "Never" if role == "init" and policy == "Never" else "OnFailure", now
        )
        if role == "init" and not (run.state == "terminated" and run.exit_code == 0):
            return due
    return FOREVER


def _advance_main(pod: Manifest, simulated: SimulatedPod, now: Instant) -> float:
    policy = pod["spec"].get("restartPolicy", "Always")
    due = FOREVER
    for name, behaviour, role in containers(pod, simulated):
        if role == "main":
            due = min(
                due,
                _advance_container(simulated.runs.setdefault(name, SimulatedRun()), behaviour, policy, now),
            )
    return due


def _advance_container(run: SimulatedRun, behaviour: Behaviour, policy: str, now: Instant) -> float:
    """Applies all changes of one container that are due; returns the time of the next one."""
    for _ in range(4):  # waiting → running → terminated → back-off is the longest chain at one time
        if run.state == "waiting" or (run.state == "backoff" and now.wall >= run.until):
            restarted = run.state == "backoff"
            started = now.wall
            run.state, run.since, run.until = "running", started, started + behaviour.duration
            run.restarts += restarted
        elif run.state == "running" and now.wall >= run.until:
            ran = run.until - run.since
            _stop(run, run.until, behaviour.exit_code, "Completed" if behaviour.exit_code == 0 else "Error")
            if policy == "Always" or (policy == "OnFailure" and behaviour.exit_code != 0):
                _begin_back_off(run, ran)
        else:
            break
    return run.until if run.state in ("running", "backoff") else FOREVER


def _stop(run: SimulatedRun, moment: float, exit_code: int, reason: str) -> None:
    if run.state in ("running", "waiting", "backoff"):
        run.since = run.since or moment
        run.state, run.until, run.exit_code, run.reason = "terminated", moment, exit_code, reason


def _begin_back_off(run: SimulatedRun, ran: float) -> None:
    if ran >= BACKOFF_RESET:
        run.crashes = 0
    run.crashes += 1
    run.last = {"terminated": _terminated(run)}
    run.state, run.until = "backoff", run.until + restart_delay(run.crashes - 1)


def _initialized(pod: Manifest, simulated: SimulatedPod) -> bool:
    return all(
        role == "main"
        or (
            (run := simulated.runs.get(name)) is not None
            and (
                run.state == "running"
                if role == "sidecar"
                else run.state == "terminated" and run.exit_code == 0
            )
        )
        for name, _, role in containers(pod, simulated)
    )


def _init_failed(pod: Manifest, simulated: SimulatedPod) -> bool:
    return any(
        role == "init"
        and (run := simulated.runs.get(name)) is not None
        and run.state == "terminated"
        and run.exit_code != 0
        for name, _, role in containers(pod, simulated)
    )


def _all_terminated(pod: Manifest, simulated: SimulatedPod) -> bool:
    return all(
        simulated.runs[name].state == "terminated"
        for name, _, role in containers(pod, simulated)
        if role == "main"
    )


def _restored_run(entry: Mapping[str, Any], behaviour: Behaviour, now: Instant) -> SimulatedRun:
    """A container as described by its status."""
    restarts = entry.get("restartCount", 0)
    state = entry.get("state") or {}
    run = SimulatedRun(restarts=restarts, crashes=restarts, last=entry.get("lastState") or None)
    if "running" in state:
        run.state, run.since = "running", parse_timestamp(state["running"]["startedAt"])
        run.until = run.since + behaviour.duration
    elif "terminated" in state:
        ended = state["terminated"]
        run.state, run.exit_code, run.reason = "terminated", ended.get("exitCode", 0), ended.get("reason", "")
        run.since, run.until = parse_timestamp(ended["startedAt"]), parse_timestamp(ended["finishedAt"])
    elif (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        run.crashes += 1
        run.state, run.until = "backoff", now.wall + restart_delay(restarts)
    return run


def status_of(pod: Manifest, simulated: SimulatedPod, now: Instant) -> Manifest:
    """The status that a kubelet would report."""
    phase = _phase(pod, simulated)
    initialized, started = _initialized(pod, simulated), phase == "Running"
    ready = started and all(
        simulated.runs[name].state == "running"
        for name, _, role in containers(pod, simulated)
        if role == "main"
    )
    status: Manifest = {
        "phase": phase,
        "startTime": timestamp(simulated.accepted),
        "hostIP": simulated.host_address,
        "hostIPs": [{"ip": simulated.host_address}],
        "conditions": _conditions(
            pod, phase, initialized or phase == "Succeeded", ready, bool(simulated.runs), now
        ),
        "containerStatuses": [
            _container_status(
                pod, container, simulated, creating="ContainerCreating" if initialized else "PodInitializing"
            )
            for container in pod["spec"].get("containers") or ()
        ],
    }
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [
            _container_status(pod, container, simulated, creating="PodInitializing")
            for container in pod["spec"]["initContainers"]
        ]
    if simulated.runs:
        status["podIP"] = simulated.address
        status["podIPs"] = [{"ip": simulated.address}]
    if phase == "Failed" and now.wall >= simulated.accepted + pod["spec"].get(
        "activeDeadlineSeconds", FOREVER
    ):
        status["reason"] = "DeadlineExceeded"
        status["message"] = "Pod was active on the node longer than the specified deadline"
    return status


def _phase(pod: Manifest, simulated: SimulatedPod) -> str:
    if simulated.finished:
        failed = any(run.exit_code != 0 for run in simulated.runs.values() if run.state == "terminated")
        return "Failed" if failed else "Succeeded"
    return "Running" if _initialized(pod, simulated) and simulated.runs else "Pending"


def _conditions(
    pod: Manifest, phase: str, initialized: bool, ready: bool, started: bool, now: Instant
) -> list[Manifest]:
    over = phase in TERMINAL_PHASES
    unready = {"reason": "PodCompleted"} if over else {"reason": "ContainersNotReady"}
    wanted: dict[str, tuple[str, Mapping[str, str]]] = {
        "PodReadyToStartContainers": (_condition_status(started and not over), {}),
        "Initialized": (
            _condition_status(initialized),
            {"reason": "PodCompleted"} if phase == "Succeeded" else {},
        ),
        "Ready": (_condition_status(ready), {} if ready else unready),
        "ContainersReady": (_condition_status(ready), {} if ready else unready),
        "PodScheduled": ("True", {}),
    }
    known = {c.get("type", ""): c for c in (pod.get("status") or {}).get("conditions") or ()}
    conditions = [entry for kind, entry in known.items() if kind not in wanted]
    for kind, (status, extra) in wanted.items():
        before = known.get(kind)
        since = before.get("lastTransitionTime") if before and before.get("status") == status else None
        conditions.append(
            {"type": kind, "status": status, "lastTransitionTime": since or timestamp(now.wall), **extra}
        )
    return conditions


def _condition_status(value: bool) -> str:
    return "True" if value else "False"


def _container_status(
    pod: Manifest, container: Mapping[str, Any], simulated: SimulatedPod, *, creating: str
) -> Manifest:
    name = container["name"]
    run = simulated.runs.get(name)
    running = run is not None and run.state == "running"
    status: Manifest = {
        "name": name,
        "image": container.get("image", ""),
        "imageID": f"simulated://{container.get('image', '')}" if run else "",
        "ready": running or (run is not None and creating == "PodInitializing" and run.reason == "Completed"),
        "started": running,
        "restartCount": run.restarts if run else 0,
        "state": _state(run, creating, pod, name),
        "lastState": (run.last if run else None) or {},
    }
    if run is not None:
        status["containerID"] = f"simulated://{pod['metadata'].get('uid', '')}/{name}"
    return status


def _state(run: SimulatedRun | None, creating: str, pod: Manifest, name: str) -> Manifest:
    if run is None or run.state == "waiting":
        return {"waiting": {"reason": creating}}
    if run.state == "running":
        return {"running": {"startedAt": timestamp(run.since)}}
    if run.state == "backoff":
        delay = math.ceil(restart_delay(run.crashes - 1))
        text = f"back-off {delay}s restarting failed container={name} pod={pod['metadata']['name']}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    return {"terminated": _terminated(run)}


def _terminated(run: SimulatedRun) -> Manifest:
    return {
        "exitCode": run.exit_code,
        "reason": run.reason,
        "startedAt": timestamp(run.since),
        "finishedAt": timestamp(run.until),
    }
