"""The life of a pod: from what it asks for, what is known of its containers and the time, what to do next.

Pure: `decide` reads a `Record`, which its owner (a worker) keeps up to date with what really happened.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from volcano.clock import parse_timestamp
from volcano.kube.manifest import Manifest, is_deleting
from volcano.nodes.kubelet.container_state import NEVER_RUN, Container, Role, Run, Stopping, unhealthy, up
from volcano.nodes.kubelet.probe_state import ProbeKind, next_ask

FOREVER = math.inf
SHORTEST_GRACE = 2.0  # seconds between asking and killing, however little was granted
DEFAULT_GRACE = 30.0
TERMINAL = frozenset(("Succeeded", "Failed"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod as a whole has failed, and the seconds its containers are left where it is not for the pod to say."""

    reason: str
    message: str
    grace: float | None = None


DEADLINE = Verdict("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


@dataclass(slots=True)
class Record:
    """What is known of one pod. Times are wall."""

    accepted: float = 0.0
    host_address: str = ""
    address: str = ""
    runs: dict[str, Run] = field(default_factory=dict)
    prepared: bool = False  # it has its volumes and a sandbox
    preparing: bool = False
    prepare_at: float = -FOREVER
    verdict: Verdict | None = None
    phase: str = "Pending"  # as last reported; a terminal one stays
    releasing: bool = False
    released: bool = False  # sandbox and volumes are gone for good

    def run(self, name: str) -> Run:
        return self.runs.get(name, NEVER_RUN)


# What is to be done.


@dataclass(frozen=True, slots=True)
class Prepare:
    """Volumes and sandbox."""


@dataclass(frozen=True, slots=True)
class Start:
    name: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin to stop a container: its preStop hook, then the rest as time passes."""

    name: str
    message: str
    grace: float
    restart: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """To a container that is being stopped: ask it to end, or with `kill` end it."""

    name: str
    kill: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Put one of its probes to a container."""

    name: str
    kind: ProbeKind


@dataclass(frozen=True, slots=True)
class Fail:
    """The pod has failed as a whole."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing runs any more: sandbox and volumes may go."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Everything is gone and said: the pod may leave the API."""


Action = Prepare | Start | Stop | Signal | Ask | Fail | Release | Remove
Containers = Mapping[str, Container]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and the wall time to look again even if nothing happens."""

    actions: Sequence[Action] = ()
    again_at: float = FOREVER


def decide(pod: Manifest, containers: Containers, record: Record, now: float) -> Decision:
    """The next steps of a pod; the same question asked again before anything changed has the same answer."""
    if record.verdict is None and record.phase not in TERMINAL and now >= _deadline(pod, record):
        return Decision((Fail(DEADLINE),))
    if is_ending(pod, containers, record):
        steps = [*_ending(pod, containers, record, now)]
    else:
        steps = [*_living(pod, containers, record, now)]
        steps.append(_deadline(pod, record))
    steps += _stopping(pod, containers, record, now)
    steps += _asking(pod, containers, record, now)
    return Decision(
        tuple(step for step in steps if not isinstance(step, float)),
        min((step for step in steps if isinstance(step, float)), default=FOREVER),
    )


def is_ending(pod: Manifest, containers: Containers, record: Record) -> bool:
    """Whether nothing more is started: the pod is deleted, has failed, or has done its work."""
    return (
        is_deleting(pod)
        or record.verdict is not None
        or record.phase in TERMINAL
        or init_failed(containers, record)
        or work_done(containers, record)
    )


def will_restart(container: Container, run: Run) -> bool:
    """Whether a container that is over is started again."""
    return run.restart or (run.ended is not None and container.restarts_after(run.ended.exit_code))


def initialized(containers: Containers, record: Record) -> bool:
    """Whether init containers are done and sidecars have been up."""
    return all(_is_initialized(container, record.run(container.name)) for container in containers.values())


def remember_sidecars(containers: Containers, record: Record) -> None:
    """Notes which sidecars have been up: what starts after them need not wait for them again."""
    for container in containers.values():
        run = record.run(container.name)
        if container.role is Role.SIDECAR and not run.initialized and up(container, run):
            record.runs[container.name] = replace(run, initialized=True)


def init_failed(containers: Containers, record: Record) -> bool:
    """Whether an init container failed and is not tried again."""
    return any(
        container.role is Role.INIT
        and (run := record.run(container.name)).ended is not None
        and not run.busy
        and run.ended.exit_code != 0
        and not will_restart(container, run)
        for container in containers.values()
    )


def work_done(containers: Containers, record: Record) -> bool:
    """Whether every main container is over for good."""
    return all(
        (run := record.run(container.name)).ended is not None
        and not run.busy
        and not will_restart(container, run)
        for container in containers.values()
        if container.role is Role.MAIN
    )


def grace_of(pod: Manifest) -> float:
    """The seconds a container of the pod is given between being asked to end and being killed."""
    if is_deleting(pod):
        return float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    given = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if given is None else float(given)


def _last_grace(pod: Manifest, record: Record) -> float:
    """The seconds that the containers of a pod that ends are given."""
    given = record.verdict.grace if record.verdict is not None else None
    return grace_of(pod) if given is None else given


def _deadline(pod: Manifest, record: Record) -> float:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    return FOREVER if seconds is None or not record.accepted else record.accepted + float(seconds)


def _is_initialized(container: Container, run: Run) -> bool:
    match container.role:
        case Role.INIT:
            return run.ended is not None and run.ended.exit_code == 0 and not run.busy and not run.restart
        case Role.SIDECAR:
            return run.initialized or up(container, run)
        case _:
            return True


def _ending(pod: Manifest, containers: Containers, record: Record, now: float) -> Iterator[Action | float]:
    for container in containers.values():
        run = record.run(container.name)
        if run.running and run.stopping is None:
            yield Stop(container.name, f"Stopping container {container.name}", _last_grace(pod, record))
    if record.preparing or any(run.busy for run in record.runs.values()):
        return
    if not record.released:
        if not record.releasing:
            yield Release()
    elif is_deleting(pod):
        yield Remove()


def _living(pod: Manifest, containers: Containers, record: Record, now: float) -> Iterator[Action | float]:
    """Starts what should run and stops what is unhealthy. Containers start one after the other."""
    if not record.prepared:
        if not record.preparing:
            yield Prepare() if now >= record.prepare_at else record.prepare_at
        return
    blocked = any(run.starting or (run.running and not run.hooked) for run in record.runs.values())
    for container in _wanted(containers, record):
        step = _kept_up(pod, container, record.run(container.name), now)
        if isinstance(step, Start):
            if not blocked:
                yield step
            blocked = True
        elif step is not None:
            yield step


def _wanted(containers: Containers, record: Record) -> Iterator[Container]:
    """The containers whose turn has come: init containers in order, then all others."""
    for container in containers.values():
        if container.role is Role.EPHEMERAL:
            yield container
    for container in containers.values():
        run = record.run(container.name)
        if container.role is Role.SIDECAR or not _is_initialized(container, run):
            yield container
        if not _is_initialized(container, run):
            return
        if container.role is Role.MAIN:
            yield container


def _kept_up(pod: Manifest, container: Container, run: Run, now: float) -> Action | float | None:
    """What a container whose turn it is needs."""
    if run.running:
        probe = unhealthy(container, run) if run.stopping is None else None
        if probe is None:
            return None
        restart = container.policy != "Never"
        init = "Init container" if container.role is Role.SIDECAR else "Container"
        message = f"{init} {container.name} failed {probe.kind.word} probe"
        grace = grace_of(pod) if probe.grace is None else probe.grace
        return Stop(
            container.name, f"{message}, will be restarted" if restart else message, grace, restart=restart
        )
    if run.starting:
        return None
    if run.waiting is not None:
        return Start(container.name) if now >= run.waiting.again_at else run.waiting.again_at
    if run.ended is not None:
        if not will_restart(container, run):
            return None
        if now < run.again_at:
            return run.again_at
    return Start(container.name)


def _stopping(pod: Manifest, containers: Containers, record: Record, now: float) -> Iterator[Action | float]:
    """Takes containers that are being stopped further: hook, their turn, TERM, KILL."""
    for container in containers.values():
        run = record.run(container.name)
        if run.stopping is None or not run.running or run.stopping.killed:
            continue
        limit = _patience_ends(pod, run.stopping)
        if run.stopping.termed == FOREVER:
            if now < limit and (run.stopping.hook or not _is_its_turn(container, containers, record)):
                yield limit
            else:
                yield Signal(container.name, kill=False)
        else:
            kill_at = max(limit, run.stopping.termed + SHORTEST_GRACE)
            yield Signal(container.name, kill=True) if now >= kill_at else kill_at


def _patience_ends(pod: Manifest, stop: Stopping) -> float:
    """When a container must be gone; a deletion that came later may leave it less."""
    limit = stop.begun + stop.grace
    if is_deleting(pod):
        limit = min(limit, max(stop.begun, parse_timestamp(pod["metadata"]["deletionTimestamp"])))
    return limit


def _is_its_turn(container: Container, containers: Containers, record: Record) -> bool:
    """Sidecars of a pod that ends are asked to end after everything that started later."""
    run = record.run(container.name)
    if container.role is not Role.SIDECAR or (run.stopping is not None and run.stopping.restart):
        return True
    later = list(containers)[list(containers).index(container.name) + 1 :]
    return not any(record.run(name).busy for name in later if containers[name].role is not Role.EPHEMERAL)


def _asking(pod: Manifest, containers: Containers, record: Record, now: float) -> Iterator[Action | float]:
    for container in containers.values():
        run = record.run(container.name)
        if not run.running or not run.hooked:
            continue
        ending = is_deleting(pod) or run.stopping is not None
        for probe in container.probes.values():
            at = next_ask(probe, container.probes, run.standings, run.started, ending=ending)
            yield Ask(container.name, probe.kind) if now >= at else at
