"""Probes of containers: when they are due, and the state that follows from their results."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from volcano.kube.api.manifest import Manifest


class ProbeKind(enum.StrEnum):
    """Kinds of probes, by the field of a container."""

    STARTUP = "startupProbe"
    LIVENESS = "livenessProbe"
    READINESS = "readinessProbe"

    @property
    def label(self) -> str:
        """The name in messages, such as `liveness`."""
        return self.value.removesuffix("Probe")


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of a container (`handler` is its manifest), its schedule and its thresholds."""

    kind: ProbeKind
    handler: Manifest
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: float | None  # termination grace period after a failure


@dataclass(frozen=True, slots=True)
class ProbeState:
    """Results of one probe of a container. `result` is None until a threshold is reached."""

    result: bool | None = None
    latest: bool | None = None
    consecutive: int = 0  # latest results that are equal
    next_at: float = -math.inf  # wall
    in_progress: bool = False
    on_hold: bool = False  # not run again until the container is restarted


NOT_PROBED = ProbeState()
ProbeStates = Mapping[ProbeKind, ProbeState]


def probes_of(container: Mapping[str, Any]) -> dict[ProbeKind, Probe]:
    """The probes of a container, with the API server's defaults."""
    return {kind: _probe(kind, container[kind]) for kind in ProbeKind if container.get(kind)}


def _probe(kind: ProbeKind, manifest: Manifest) -> Probe:
    grace = manifest.get("terminationGracePeriodSeconds")
    return Probe(
        kind,
        manifest,
        delay=float(manifest.get("initialDelaySeconds") or 0),
        period=float(manifest.get("periodSeconds") or 10),
        timeout=float(manifest.get("timeoutSeconds") or 1),
        successes=manifest.get("successThreshold") or 1,
        failures=manifest.get("failureThreshold") or 3,
        grace=None if grace is None else float(grace),
    )


def startup_succeeded(probes: Mapping[ProbeKind, Probe], probe_states: ProbeStates) -> bool:
    """Whether the startup probe, if any, has succeeded."""
    return ProbeKind.STARTUP not in probes or _result(probe_states, ProbeKind.STARTUP) is True


def readiness_succeeded(probes: Mapping[ProbeKind, Probe], probe_states: ProbeStates) -> bool:
    """Whether the container is ready for requests."""
    return startup_succeeded(probes, probe_states) and (
        ProbeKind.READINESS not in probes or _result(probe_states, ProbeKind.READINESS) is True
    )


def failed_probe(probes: Mapping[ProbeKind, Probe], probe_states: ProbeStates) -> Probe | None:
    """The probe for whose failure the container has to be killed, if any."""
    for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP):
        if kind in probes and _result(probe_states, kind) is False:
            return probes[kind]
    return None


def next_probe_at(
    probe: Probe,
    probes: Mapping[ProbeKind, Probe],
    probe_states: ProbeStates,
    started_at: float,
    *,
    ending: bool,
) -> float:
    """The wall time of the next run; infinity if it waits for another event."""
    state = probe_states.get(probe.kind, NOT_PROBED)
    if state.in_progress or state.on_hold:
        return math.inf
    if probe.kind is not ProbeKind.STARTUP and not startup_succeeded(probes, probe_states):
        return math.inf
    if ending and probe.kind is not ProbeKind.READINESS:
        return math.inf
    # A kubelet starts probing at a random time within the first period; the first liveness probe waits a
    # whole one.
    first = max(probe.delay, probe.period) if probe.kind is ProbeKind.LIVENESS else probe.delay
    return max(started_at + first, state.next_at)


def probe_started(state: ProbeState, probe: Probe, now: float) -> ProbeState:
    """The state while the probe runs; it is due again one period after `now`."""
    return replace(state, in_progress=True, next_at=now + probe.period)


def probe_finished(state: ProbeState, probe: Probe, success: bool | None) -> ProbeState:
    """The state after one more result; None means that the probe could not be run."""
    if success is None:
        return replace(state, in_progress=False)
    consecutive = state.consecutive + 1 if state.latest is success else 1
    updated = replace(state, in_progress=False, latest=success, consecutive=consecutive)
    if consecutive < (probe.successes if success else probe.failures):
        return updated
    final = probe.kind is ProbeKind.STARTUP or (probe.kind is ProbeKind.LIVENESS and not success)
    return replace(updated, result=success, on_hold=final, consecutive=0 if final else consecutive)


def _result(probe_states: ProbeStates, kind: ProbeKind) -> bool | None:
    return probe_states.get(kind, NOT_PROBED).result
