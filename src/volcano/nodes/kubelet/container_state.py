"""The containers of a pod, and what is remembered of each: how often it started, how it ended, when to try again."""

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcano.kube.manifest import Manifest
from volcano.nodes.kubelet.probe_state import (
    Probe,
    ProbeKind,
    Standing,
    failed,
    is_ready,
    is_started,
    probes_of,
)

FIRST_BACK_OFF = 10.0
LONGEST_BACK_OFF = 300.0
BACK_OFF_RESET = 600.0  # a container that ran for so long starts afresh
START_ERROR = 128


class Role(enum.StrEnum):
    """What a container is to its pod."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container that stays
    MAIN = "main"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class Container:
    """A container as its pod describes it."""

    name: str
    role: Role
    spec: Manifest
    policy: str  # Always, OnFailure, Never
    probes: Mapping[ProbeKind, Probe]

    def restarts_after(self, exit_code: int) -> bool:
        """Whether it is started again after ending with this code."""
        for rule in self.spec.get("restartPolicyRules") or () if self.spec.get("restartPolicy") else ():
            codes = rule.get("exitCodes") or {}
            named = exit_code in (codes.get("values") or ())
            if rule.get("action") == "Restart" and named == (codes.get("operator") == "In"):
                return True
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)

    def hook(self, name: str) -> Manifest | None:
        """The handler of `postStart` or `preStop`, if there is one."""
        handler: Manifest | None = (self.spec.get("lifecycle") or {}).get(name)
        return handler or None


def containers_of(pod: Mapping[str, Any]) -> dict[str, Container]:
    """Every container by name, in the order they start."""
    return {container.name: container for container in _containers(pod["spec"])}


def _containers(spec: Mapping[str, Any]) -> Iterator[Container]:
    policy = spec.get("restartPolicy", "Always")
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield Container(container["name"], Role.SIDECAR, container, "Always", probes_of(container))
        else:
            own = container.get("restartPolicy") or ("Never" if policy == "Never" else "OnFailure")
            yield Container(container["name"], Role.INIT, container, own, {})
    for container in spec.get("containers") or ():
        own = container.get("restartPolicy") or policy
        yield Container(container["name"], Role.MAIN, container, own, probes_of(container))
    for container in spec.get("ephemeralContainers") or ():
        yield Container(container["name"], Role.EPHEMERAL, container, "Never", {})


@dataclass(frozen=True, slots=True)
class Ended:
    """How one start of a container went. Times are wall; 0 is unknown."""

    attempt: int
    exit_code: int
    reason: str
    message: str = ""
    started: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container has not been created, and when that is tried again."""

    reason: str
    message: str
    again_at: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """A running container on its way out."""

    begun: float
    grace: float
    restart: bool = False  # whatever it ends with
    hook: bool = False  # its preStop hook is under way
    termed: float = math.inf  # when it was asked to end
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What is remembered of one container. `attempt` is that of the latest start; -1 before the first."""

    attempt: int = -1
    starting: bool = False
    started: float = 0.0
    running: bool = False
    hooked: bool = False  # its postStart hook, if any, is over
    ended: Ended | None = None  # the latest start, once it is over
    last: Ended | None = None  # the one before
    back_off: float = 0.0  # how long the next restart has to wait
    again_at: float = 0.0  # wall, the earliest next start
    pause: float = 0.0  # the wait that `again_at` came from
    waiting: Waiting | None = None
    stopping: Stopping | None = None
    restart: bool = False  # start again whatever the policy says of the exit code
    initialized: bool = False  # an init container that is done, a sidecar that has been up
    standings: Mapping[ProbeKind, Standing] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        """Whether something of it exists or is coming into being."""
        return self.starting or self.running

    @property
    def restarts(self) -> int:
        return max(self.attempt, 0)


NEVER_RUN = Run()


def starting(run: Run) -> Run:
    """A start is under way; what was known of the one before stays until it is there."""
    return replace(run, starting=True)


def started(run: Run, attempt: int, moment: float, *, hook: bool) -> Run:
    """The container runs; with `hook`, its postStart hook does, too."""
    return replace(
        run,
        attempt=attempt,
        starting=False,
        running=True,
        started=moment,
        hooked=not hook,
        last=run.ended or run.last,
        ended=None,
        waiting=None,
        stopping=None,
        restart=False,
        standings={},
    )


def not_created(run: Run, waiting: Waiting) -> Run:
    """It could not even be created: no start counts."""
    return replace(run, starting=False, waiting=waiting)


def ended(run: Run, how: Ended) -> Run:
    """The container is over; the next start, if there is one, waits as long as the earlier ones make it."""
    stable = how.finished - how.started > BACK_OFF_RESET and how.started > 0
    pause = 0.0 if stable else run.back_off
    if how.exit_code == START_ERROR and how.reason == "StartError":
        pause = pause or FIRST_BACK_OFF
    grown = FIRST_BACK_OFF if stable or not run.back_off else min(2 * run.back_off, LONGEST_BACK_OFF)
    return replace(
        run,
        attempt=how.attempt,
        starting=False,
        running=False,
        hooked=False,
        last=run.last if run.ended is None else run.ended,
        ended=how,
        back_off=grown,
        pause=pause,
        again_at=how.finished + pause,
        restart=run.stopping is not None and run.stopping.restart,
        stopping=None,
        waiting=None,
        standings={},
    )


def up(container: Container, run: Run) -> bool:
    """Whether it runs and counts as started."""
    return run.running and run.hooked and is_started(container.probes, run.standings)


def ready(container: Container, run: Run) -> bool:
    return run.running and run.hooked and is_ready(container.probes, run.standings)


def unhealthy(container: Container, run: Run) -> Probe | None:
    """The probe a running container has failed for good."""
    return failed(container.probes, run.standings) if run.running else None
