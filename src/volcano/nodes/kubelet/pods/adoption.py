"""A pod that was here before us: its record made again from its status and from what the runtime still knows."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from volcano.clock import parse_timestamp
from volcano.kube.manifest import Manifest
from volcano.nodes.kubelet.container_state import (
    FIRST_BACK_OFF,
    LONGEST_BACK_OFF,
    Container,
    Ended,
    Role,
    Run,
)
from volcano.nodes.kubelet.pods.checkpoint import Remembered
from volcano.nodes.kubelet.pods.lifecycle import TERMINAL, Containers, Record, Verdict
from volcano.nodes.kubelet.probe_state import ProbeKind, Standing
from volcano.nodes.shim.specs import ContainerState, SandboxState

LOST = "ContainerStatusUnknown"
LOST_CODE = 137
LOST_MESSAGE = "The container could not be located when the pod was terminated"


def adopted(
    pod: Manifest,
    containers: Containers,
    sandbox: SandboxState | None,
    found: Iterable[ContainerState],
    remembered: Remembered,
    now: float,
) -> Record:
    """The record of a pod as it stands. Containers that ran and are not found any more have ended, nobody knows how.

    What ended while nobody looked is left running in the record: its end is told afterwards, as any other.
    """
    status = pod.get("status") or {}
    record = Record(
        accepted=parse_timestamp(status["startTime"]) if status.get("startTime") else now,
        host_address=status.get("hostIP") or "",
        address=sandbox.address if sandbox else "",
        prepared=sandbox is not None,
        phase=status.get("phase") or "Pending",
    )
    if record.phase in TERMINAL:
        record.address = status.get("podIP") or ""
        record.released = sandbox is None
        if status.get("reason"):
            record.verdict = Verdict(status["reason"], status.get("message") or "")
    every = {(state.name, state.attempt): state for state in found}
    states = _latest(every.values())
    for entry in _entries(status):
        name = entry["name"]
        if name in containers:
            back_off = remembered.back_offs.get(name)
            record.runs[name] = _run(containers[name], entry, states.pop(name, None), back_off)
    for name, state in states.items():  # started, and we died before we could say so
        if name in containers:
            record.runs[name] = _live(Run(), state)
    for name, run in record.runs.items():
        record.runs[name] = _with_last(run, every.get((name, run.attempt - 1)))
    _note_what_was_up(containers, record)
    if sandbox is None and record.phase not in TERMINAL:
        lose_sandbox(containers, record)
    return record


def _with_last(run: Run, before: ContainerState | None) -> Run:
    """While a container waits, its status does not tell of the start before the last; the runtime may."""
    if run.last is not None or before is None or before.running:
        return run
    return replace(
        run,
        last=Ended(
            before.attempt,
            before.exit_code,
            before.reason or ("Completed" if before.exit_code == 0 else "Error"),
            before.message,
            before.started,
            before.finished,
        ),
    )


def _note_what_was_up(containers: Containers, record: Record) -> None:
    """Sidecars that something was started after have been up, whatever they do now."""
    later = False
    for name, container in reversed(list(containers.items())):
        run = record.run(name)
        if container.role is Role.SIDECAR and later:
            record.runs[name] = replace(run, initialized=True)
        later = later or (container.role is not Role.EPHEMERAL and run.attempt >= 0)


def lose_sandbox(containers: Containers, record: Record) -> None:
    """The pod begins again in a new sandbox: with its init containers, unless it is not to be restarted at all."""
    record.prepared = False
    for name, run in record.runs.items():
        again = containers[name].role is Role.INIT and containers[name].policy != "Never"
        restart = run.restart or (again and run.ended is not None)
        record.runs[name] = replace(run, initialized=False, restart=restart)


def _latest(found: Iterable[ContainerState]) -> dict[str, ContainerState]:
    latest: dict[str, ContainerState] = {}
    for state in found:
        if state.name not in latest or latest[state.name].attempt < state.attempt:
            latest[state.name] = state
    return latest


def _entries(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        yield from status.get(field) or ()


def _run(
    container: Container,
    entry: Mapping[str, Any],
    state: ContainerState | None,
    back_off: tuple[float, float] | None,
) -> Run:
    restarts = entry.get("restartCount") or 0
    created = bool(entry.get("containerID"))
    shown, last = entry.get("state") or {}, (entry.get("lastState") or {}).get("terminated")
    run = Run(
        attempt=restarts if created else -1,
        back_off=back_off[1] if back_off else back_off_after(restarts),
        last=_ended(last, restarts - 1),
        initialized=container.role is Role.SIDECAR and bool(entry.get("started")),
    )
    if not created and state is None:
        return run
    ended = _ended(shown.get("terminated"), restarts)
    if ended is None and "waiting" in shown:  # it waits for its next start: the last one is the latest
        ended, run = _ended(last, restarts), replace(run, last=None)
    if state is not None and (ended is None or state.attempt > ended.attempt):
        return _seen_before(_live(replace(run, last=ended or run.last), state), container, entry)
    if ended is None:
        if "running" not in shown:
            return run
        return replace(run, ended=Ended(restarts, LOST_CODE, LOST, LOST_MESSAGE))
    pause, grown = back_off or (back_off_after(restarts), back_off_after(restarts + 1))
    return replace(run, ended=ended, pause=pause, back_off=grown, again_at=ended.finished + pause)


def back_off_after(restarts: int) -> float:
    """How long a container that restarted so often waits, had none of its starts lasted."""
    return min(FIRST_BACK_OFF * 2.0 ** min(restarts - 1, 10), LONGEST_BACK_OFF) if restarts > 0 else 0.0


def _live(run: Run, state: ContainerState) -> Run:
    """A container that runs, or did until a moment ago."""
    return replace(run, attempt=state.attempt, running=True, hooked=True, started=state.started)


def _seen_before(run: Run, container: Container, entry: Mapping[str, Any]) -> Run:
    """What its probes have said already need not be asked again before it is believed."""
    standings = {}
    if ProbeKind.STARTUP in container.probes and entry.get("started"):
        standings[ProbeKind.STARTUP] = Standing(verdict=True, held=True)
    if ProbeKind.READINESS in container.probes and entry.get("ready"):
        standings[ProbeKind.READINESS] = Standing(verdict=True, latest=True, alike=1)
    return replace(run, standings=standings)


def _ended(terminated: Mapping[str, Any] | None, attempt: int) -> Ended | None:
    if not terminated:
        return None
    return Ended(
        attempt,
        terminated.get("exitCode") or 0,
        terminated.get("reason") or "",
        terminated.get("message") or "",
        parse_timestamp(terminated["startedAt"]) if terminated.get("startedAt") else 0.0,
        parse_timestamp(terminated["finishedAt"]) if terminated.get("finishedAt") else 0.0,
    )
