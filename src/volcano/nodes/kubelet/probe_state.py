"""Probes: when a container is asked how it is, and what its answers come to."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from volcano.kube.manifest import Manifest


class ProbeKind(enum.StrEnum):
    """The three questions, by the field of a container that asks them."""

    STARTUP = "startupProbe"
    LIVENESS = "livenessProbe"
    READINESS = "readinessProbe"

    @property
    def word(self) -> str:
        """As messages name it: liveness."""
        return self.value.removesuffix("Probe")


@dataclass(frozen=True, slots=True)
class Probe:
    """One question: how it is asked (`handler` is the probe's manifest) and how often it must be answered alike."""

    kind: ProbeKind
    handler: Manifest
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: float | None  # of a container that is killed for it


@dataclass(frozen=True, slots=True)
class Standing:
    """What the answers so far come to. `verdict` is None until enough of them agree."""

    verdict: bool | None = None
    latest: bool | None = None
    alike: int = 0  # how many of the latest answers agree
    next_at: float = -math.inf  # wall
    asking: bool = False
    held: bool = False  # not asked again of this start of the container


UNASKED = Standing()
Standings = Mapping[ProbeKind, Standing]


def probes_of(container: Mapping[str, Any]) -> dict[ProbeKind, Probe]:
    """The probes of a container. A server fills in the defaults; the same ones hold where it did not."""
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


def is_started(probes: Mapping[ProbeKind, Probe], standings: Standings) -> bool:
    """Whether a running container counts as started: its startup probe has succeeded, if it has one."""
    return ProbeKind.STARTUP not in probes or _verdict(standings, ProbeKind.STARTUP) is True


def is_ready(probes: Mapping[ProbeKind, Probe], standings: Standings) -> bool:
    """Whether a running container may be sent requests."""
    return is_started(probes, standings) and (
        ProbeKind.READINESS not in probes or _verdict(standings, ProbeKind.READINESS) is True
    )


def failed(probes: Mapping[ProbeKind, Probe], standings: Standings) -> Probe | None:
    """The probe for which a container has to be killed, if any."""
    for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP):
        if kind in probes and _verdict(standings, kind) is False:
            return probes[kind]
    return None


def next_ask(
    probe: Probe, probes: Mapping[ProbeKind, Probe], standings: Standings, started_at: float, *, ending: bool
) -> float:
    """The wall time at which to ask next; infinity when not before something else happens."""
    standing = standings.get(probe.kind, UNASKED)
    if standing.asking or standing.held:
        return math.inf
    if probe.kind is not ProbeKind.STARTUP and not is_started(probes, standings):
        return math.inf
    if ending and probe.kind is not ProbeKind.READINESS:
        return math.inf
    # A kubelet asks at some moment of its own within the first period; a container is not killed for that.
    first = max(probe.delay, probe.period) if probe.kind is ProbeKind.LIVENESS else probe.delay
    return max(started_at + first, standing.next_at)


def asking(standing: Standing, probe: Probe, now: float) -> Standing:
    """The standing while the question is under way; the next one is due a period later."""
    return replace(standing, asking=True, next_at=now + probe.period)


def answered(standing: Standing, probe: Probe, answer: bool | None) -> Standing:
    """Takes an answer in; None is no answer: the question itself could not be put."""
    if answer is None:
        return replace(standing, asking=False)
    alike = standing.alike + 1 if standing.latest is answer else 1
    heard = replace(standing, asking=False, latest=answer, alike=alike)
    if alike < (probe.successes if answer else probe.failures):
        return heard
    final = probe.kind is ProbeKind.STARTUP or (probe.kind is ProbeKind.LIVENESS and not answer)
    return replace(heard, verdict=answer, held=final, alike=0 if final else alike)


def _verdict(standings: Standings, kind: ProbeKind) -> bool | None:
    return standings.get(kind, UNASKED).verdict
