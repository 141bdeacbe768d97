"""The life of one simulated pod: what its status should say now, and when to look again.

A pure function of the manifest, the time and what this node remembers of the pod. The memory only sharpens what the
status already says (timestamps there have whole seconds), so that a restarted process carries on from the status.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.clock import Instant, parse_timestamp, timestamp
from volcano.kube.manifest import Manifest
from volcano.nodes.simulated.programs import FOREVER, Program, init_program_of, program_of

FIRST_BACK_OFF = 10.0
LONGEST_BACK_OFF = 300.0
BACK_OFF_RESET = 600.0


@dataclass(slots=True)
class Run:
    """One container's present: when (wall) it started, ended or may start again, and how often it restarted."""

    state: str = "waiting"  # waiting, running, terminated, backoff
    since: float = 0.0
    until: float = FOREVER
    exit_code: int = 0
    reason: str = ""
    restarts: int = 0
    back_off: float = 0.0
    last: Manifest | None = None  # lastState


# Name, program and role (init, sidecar, main).
Container = tuple[str, Program, str]


@dataclass(slots=True)
class Memory:
    """What a node remembers of one pod beyond its status."""

    address: str
    host_address: str
    accepted: float = 0.0
    start_delay: float = 0.0
    default_duration: float = FOREVER
    runs: dict[str, Run] = field(default_factory=dict)
    finished: bool = False
    # The pod's containers, and the version of the pod they were read from.
    containers: tuple[str, Sequence[Container]] = ("", ())


def accept(pod: Manifest, memory: Memory, now: Instant) -> None:
    """Fills the memory of a pod that is new to this process, from its status where it has one."""
    status = pod.get("status") or {}
    memory.accepted = parse_timestamp(status["startTime"]) if status.get("startTime") else now.wall
    memory.finished = status.get("phase") in ("Succeeded", "Failed")
    programs = {name: program for name, program, _ in containers(pod, memory)}
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        run = _adopted(entry, programs.get(entry["name"], Program(FOREVER)), now)
        memory.runs[entry["name"]] = run


def advance(pod: Manifest, memory: Memory, now: Instant) -> float:
    """Moves the pod's containers to where they should be now; returns the wall time of the next change."""
    if memory.finished:
        return FOREVER
    if now.wall < memory.accepted + memory.start_delay and not memory.runs:
        return memory.accepted + memory.start_delay
    deadline = pod["spec"].get("activeDeadlineSeconds")
    end = memory.accepted + deadline if deadline is not None else FOREVER
    if now.wall >= end:
        for name, _, _ in containers(pod, memory):
            _stop(memory.runs.setdefault(name, Run()), now.wall, 137, "Error")
        memory.finished = True
        return FOREVER
    due = min(_advance_init(pod, memory, now), end)
    if _initialized(pod, memory):
        due = min(due, _advance_main(pod, memory, now))
        memory.finished = _all_over(pod, memory)
        if memory.finished:
            for name, _, role in containers(pod, memory):
                if role == "sidecar":
                    _stop(memory.runs[name], now.wall, 0, "Completed")
    elif _init_failed(pod, memory):
        memory.finished = True
    return due


def containers(pod: Manifest, memory: Memory) -> Sequence[Container]:
    """Every container, in start order."""
    version = pod["metadata"].get("resourceVersion", "")
    if not version or version != memory.containers[0]:
        memory.containers = version, tuple(_containers(pod, memory))
    return memory.containers[1]


def _containers(pod: Manifest, memory: Memory) -> Iterator[Container]:
    spec = pod["spec"]
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container["name"], Program(FOREVER), "sidecar"
        else:
            yield container["name"], init_program_of(container), "init"
    for container in spec.get("containers") or ():
        yield container["name"], program_of(pod, container, memory.default_duration), "main"


def _advance_init(pod: Manifest, memory: Memory, now: Instant) -> float:
    policy = pod["spec"].get("restartPolicy", "Always")
    for name, program, role in containers(pod, memory):
        if role == "main":
            break
        run = memory.runs.setdefault(name, Run())
        due = _move(run, program, "Never" if role == "init" and policy == "Never" else "OnFailure", now)
        if role == "init" and not (run.state == "terminated" and run.exit_code == 0):
            return due
    return FOREVER


def _advance_main(pod: Manifest, memory: Memory, now: Instant) -> float:
    policy = pod["spec"].get("restartPolicy", "Always")
    due = FOREVER
    for name, program, role in containers(pod, memory):
        if role == "main":
            due = min(due, _move(memory.runs.setdefault(name, Run()), program, policy, now))
    return due


def _move(run: Run, program: Program, policy: str, now: Instant) -> float:
    """Takes one container through as many changes as are due; returns when the next one is."""
    for _ in range(4):  # waiting → running → terminated → back-off is the longest chain of one moment
        if run.state == "waiting" or (run.state == "backoff" and now.wall >= run.until):
            restarted = run.state == "backoff"
            started = now.wall
            run.state, run.since, run.until = "running", started, started + program.duration
            run.restarts += restarted
        elif run.state == "running" and now.wall >= run.until:
            ran = run.until - run.since
            _stop(run, run.until, program.exit_code, "Completed" if program.exit_code == 0 else "Error")
            if policy == "Always" or (policy == "OnFailure" and program.exit_code != 0):
                _back_off(run, ran)
        else:
            break
    return run.until if run.state in ("running", "backoff") else FOREVER


def _stop(run: Run, moment: float, exit_code: int, reason: str) -> None:
    if run.state in ("running", "waiting", "backoff"):
        run.since = run.since or moment
        run.state, run.until, run.exit_code, run.reason = "terminated", moment, exit_code, reason


def _back_off(run: Run, ran: float) -> None:
    if ran >= BACK_OFF_RESET:
        run.back_off = 0.0
    pause = run.back_off
    run.back_off = min(max(FIRST_BACK_OFF, run.back_off * 2), LONGEST_BACK_OFF)
    run.last = {"terminated": _terminated(run)}
    run.state, run.until = "backoff", run.until + pause


def _initialized(pod: Manifest, memory: Memory) -> bool:
    return all(
        role == "main"
        or (
            (run := memory.runs.get(name)) is not None
            and (
                run.state == "running"
                if role == "sidecar"
                else run.state == "terminated" and run.exit_code == 0
            )
        )
        for name, _, role in containers(pod, memory)
    )


def _init_failed(pod: Manifest, memory: Memory) -> bool:
    return any(
        role == "init"
        and (run := memory.runs.get(name)) is not None
        and run.state == "terminated"
        and run.exit_code != 0
        for name, _, role in containers(pod, memory)
    )


def _all_over(pod: Manifest, memory: Memory) -> bool:
    return all(
        memory.runs[name].state == "terminated" for name, _, role in containers(pod, memory) if role == "main"
    )


def _adopted(entry: Mapping[str, Any], program: Program, now: Instant) -> Run:
    """A container as its status describes it."""
    restarts = entry.get("restartCount", 0)
    state = entry.get("state") or {}
    pause = min(FIRST_BACK_OFF * 2 ** max(restarts - 1, 0), LONGEST_BACK_OFF) if restarts else 0.0
    run = Run(restarts=restarts, back_off=pause, last=entry.get("lastState") or None)
    if "running" in state:
        run.state, run.since = "running", parse_timestamp(state["running"]["startedAt"])
        run.until = run.since + program.duration
    elif "terminated" in state:
        ended = state["terminated"]
        run.state, run.exit_code, run.reason = "terminated", ended.get("exitCode", 0), ended.get("reason", "")
        run.since, run.until = parse_timestamp(ended["startedAt"]), parse_timestamp(ended["finishedAt"])
    elif (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        run.state, run.until = "backoff", now.wall + pause
    return run


def status_of(pod: Manifest, memory: Memory, now: Instant) -> Manifest:
    """The status a kubelet would report for the pod as its containers are now."""
    phase = _phase(pod, memory)
    initialized, started = _initialized(pod, memory), phase == "Running"
    ready = started and all(
        memory.runs[name].state == "running" for name, _, role in containers(pod, memory) if role == "main"
    )
    status: Manifest = {
        "phase": phase,
        "startTime": timestamp(memory.accepted),
        "hostIP": memory.host_address,
        "hostIPs": [{"ip": memory.host_address}],
        "conditions": _conditions(
            pod, phase, initialized or phase == "Succeeded", ready, bool(memory.runs), now
        ),
        "containerStatuses": [
            _container_status(
                pod, container, memory, creating="ContainerCreating" if initialized else "PodInitializing"
            )
            for container in pod["spec"].get("containers") or ()
        ],
    }
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [
            _container_status(pod, container, memory, creating="PodInitializing")
            for container in pod["spec"]["initContainers"]
        ]
    if memory.runs:
        status["podIP"] = memory.address
        status["podIPs"] = [{"ip": memory.address}]
    if phase == "Failed" and now.wall >= memory.accepted + pod["spec"].get("activeDeadlineSeconds", FOREVER):
        status["reason"] = "DeadlineExceeded"
        status["message"] = "Pod was active on the node longer than the specified deadline"
    return status


def _phase(pod: Manifest, memory: Memory) -> str:
    if memory.finished:
        failed = any(run.exit_code != 0 for run in memory.runs.values() if run.state == "terminated")
        return "Failed" if failed else "Succeeded"
    return "Running" if _initialized(pod, memory) and memory.runs else "Pending"


def _conditions(
    pod: Manifest, phase: str, initialized: bool, ready: bool, started: bool, now: Instant
) -> list[Manifest]:
    over = phase in ("Succeeded", "Failed")
    unready = {"reason": "PodCompleted"} if over else {"reason": "ContainersNotReady"}
    wanted: dict[str, tuple[str, Mapping[str, str]]] = {
        "PodReadyToStartContainers": (_truth(started and not over), {}),
        "Initialized": (_truth(initialized), {"reason": "PodCompleted"} if phase == "Succeeded" else {}),
        "Ready": (_truth(ready), {} if ready else unready),
        "ContainersReady": (_truth(ready), {} if ready else unready),
        "PodScheduled": ("True", {}),
    }
    known = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    conditions = [entry for kind, entry in known.items() if kind not in wanted]
    for kind, (status, extra) in wanted.items():
        before = known.get(kind)
        since = before.get("lastTransitionTime") if before and before.get("status") == status else None
        conditions.append(
            {"type": kind, "status": status, "lastTransitionTime": since or timestamp(now.wall), **extra}
        )
    return conditions


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _container_status(
    pod: Manifest, container: Mapping[str, Any], memory: Memory, *, creating: str
) -> Manifest:
    name = container["name"]
    run = memory.runs.get(name)
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


def _state(run: Run | None, creating: str, pod: Manifest, name: str) -> Manifest:
    if run is None or run.state == "waiting":
        return {"waiting": {"reason": creating}}
    if run.state == "running":
        return {"running": {"startedAt": timestamp(run.since)}}
    if run.state == "backoff":
        pause = math.ceil(min(max(run.back_off / 2, 0), LONGEST_BACK_OFF))
        text = f"back-off {pause}s restarting failed container={name} pod={pod['metadata']['name']}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    return {"terminated": _terminated(run)}


def _terminated(run: Run) -> Manifest:
    return {
        "exitCode": run.exit_code,
        "reason": run.reason,
        "startedAt": timestamp(run.since),
        "finishedAt": timestamp(run.until),
    }
