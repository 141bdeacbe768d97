"""Workload files: nodes, queues and jobs in YAML, with arrivals and run times from distributions."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from volcano.base.yaml_loader import FILES, YamlDocument, YamlError, load_yaml
from volcano.kube.api import quantity
from volcano.model.annotations import walltime
from volcano.simulate.faults import seconds_of
from volcano.simulate.workload import (
    Attempt,
    Requests,
    SimNode,
    SimQueue,
    TraceError,
    TraceJob,
    TraceTask,
    Workload,
    by_arrival,
)

Amount = str | int | float


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of the parts of a workload file."""


class NodeEntry(_Strict, frozen=True):
    """Equal nodes; with `racks`, each has the label `rack` with one of rack-1, rack-2, ... in turn."""

    name: str
    cpu: Amount
    memory: Amount
    count: int = 1
    gpus: int = 0
    model: str = ""
    pods: int = 110
    racks: int = 0
    labels: dict[str, str] = {}
    resources: dict[str, Amount] = {}


class QueueEntry(_Strict, frozen=True):
    name: str
    weight: int = 1
    parent: str = ""
    priority: int = 0
    reclaimable: bool = True
    capability: dict[str, Amount] = {}
    deserved: dict[str, Amount] = {}
    guarantee: dict[str, Amount] = {}


class TaskEntry(_Strict, frozen=True):
    name: str = ""
    replicas: int = 1
    cpu: Amount = 0
    memory: Amount = 0
    gpus: int = 0
    gpu_share: float = 1.0
    models: list[str] = []
    resources: dict[str, Amount] = {}
    node_selector: dict[str, str] = {}
    usage: float = 1.0


class ArrivalEntry(_Strict, frozen=True):
    """`at`: the times; `every`: equal gaps; `rate`: random ones (Poisson), such as 10/m."""

    at: list[Amount] = []
    every: Amount = ""
    rate: str = ""
    start: Amount = 0


class RunTimeEntry(_Strict, frozen=True):
    """One distribution."""

    fixed: Amount = ""
    exponential: Amount = ""  # mean
    uniform: list[Amount] = []  # from, to
    lognormal: list[Amount] = []  # median, sigma


class JobEntry(_Strict, frozen=True):
    """Jobs of one kind: `count` of them, with arrivals and run times."""

    name: str
    tasks: list[TaskEntry]
    count: int = 1
    queue: str = "default"
    user: str = ""
    priority: int = 0
    min_available: int | None = None
    preemptable: bool = True
    arrivals: ArrivalEntry = ArrivalEntry()
    run_time: Amount | RunTimeEntry = "1m"
    failures: float = 0.0  # share of the attempts that fail
    retries: int = 0
    longest_wait: Amount = ""
    walltime: str = ""  # as in the annotation volcano.sh/walltime


class WorkloadFile(_Strict, frozen=True):
    jobs: list[JobEntry] = []
    nodes: list[NodeEntry] = []
    queues: list[QueueEntry] = []


def read_workload(path: Path, seed: int = 0) -> Workload:
    """A workload file; `seed` decides random arrivals, run times and failures."""
    parsed, document = _parse(path)
    reader = _Reader(path, document, Random(seed))
    jobs = [job for index, entry in enumerate(parsed.jobs) for job in reader.jobs(entry, ("jobs", index))]
    return Workload(
        by_arrival(jobs) if jobs else [],
        tuple(node for i, entry in enumerate(parsed.nodes) for node in reader.nodes(entry, ("nodes", i))),
        tuple(reader.queue(entry, ("queues", i)) for i, entry in enumerate(parsed.queues)),
    )


def _parse(path: Path) -> tuple[WorkloadFile, YamlDocument]:
    try:
        document = load_yaml(path.read_bytes(), FILES, lines=True)
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    except YamlError as error:
        raise TraceError(path, error.problem, error.line) from None
    if not isinstance(document.value, dict):
        raise TraceError(path, "a map with `jobs`, `nodes` and `queues` is expected")
    try:
        return msgspec.convert(document.value, WorkloadFile), document
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        where = tuple(
            int(part[1:-1]) if part.startswith("[") else part[1:]
            for part in re.findall(r"\.\w+|\[\d+\]", place.removesuffix("`"))
        )
        raise TraceError(path, f"{message}{_shown(where)}", _line(document, where)) from None


def _line(document: YamlDocument, where: tuple[Any, ...]) -> int:
    """Line of a value, or of the nearest part that contains it."""
    while where and where not in document.lines:
        where = where[:-1]
    return document.lines.get(where, document.line)


def _shown(where: tuple[Any, ...]) -> str:
    return f" (in {'.'.join(str(part) for part in where)})" if where else ""


class _Reader:
    """Entries as jobs, nodes and queues."""

    def __init__(self, path: Path, document: YamlDocument, random: Random) -> None:
        self._path = path
        self._document = document
        self._random = random
        self._names: set[str] = set()

    def _checked(self, where: tuple[Any, ...], read: Callable[[], Any]) -> Any:
        """Result of a function; an error gets the file and line."""
        try:
            return read()
        except (ValueError, TraceError) as error:
            raise TraceError(self._path, f"{error}{_shown(where)}", _line(self._document, where)) from None

    def _fail(self, where: tuple[Any, ...], message: str) -> None:
        raise TraceError(self._path, f"{message}{_shown(where)}", _line(self._document, where))

    def nodes(self, entry: NodeEntry, where: tuple[Any, ...]) -> Iterator[SimNode]:
        cpu = self._checked((*where, "cpu"), lambda: quantity.milli(entry.cpu)) / 1000
        memory = self._checked((*where, "memory"), lambda: quantity.units(entry.memory))
        for number in range(entry.count):
            labels = dict(entry.labels)
            if entry.racks:
                labels["rack"] = f"rack-{number % entry.racks + 1}"
            name = f"{entry.name}-{number}" if entry.count > 1 else entry.name
            if name in self._names:
                self._fail(where, f"two nodes are called {name!r}")
            self._names.add(name)
            yield SimNode(
                name, cpu, memory, entry.gpus, entry.model, entry.pods, labels, _quantities(entry.resources)
            )

    def queue(self, entry: QueueEntry, where: tuple[Any, ...]) -> SimQueue:
        lists = {
            name: dict(self._checked((*where, name), partial(_quantities, given)))
            for name, given in (
                ("capability", entry.capability),
                ("deserved", entry.deserved),
                ("guarantee", entry.guarantee),
            )
        }
        return SimQueue(
            entry.name,
            entry.weight,
            entry.parent,
            entry.priority,
            entry.reclaimable,
            lists["capability"],
            lists["deserved"],
            lists["guarantee"],
        )

    def jobs(self, entry: JobEntry, where: tuple[Any, ...]) -> Iterator[TraceJob]:
        if not entry.tasks:
            self._fail(where, "a job needs at least one task")
        tasks = tuple(
            self._checked((*where, "tasks", i), partial(_task, task)) for i, task in enumerate(entry.tasks)
        )
        times = self._checked((*where, "arrivals"), lambda: self._arrivals(entry))
        limit = (
            self._checked((*where, "walltime"), lambda: walltime.parse(entry.walltime))
            if entry.walltime
            else None
        )
        for number, arrival in enumerate(times):
            name = f"{entry.name}-{number}" if len(times) > 1 else entry.name
            attempts = self._checked((*where, "runTime"), lambda: self._attempts(entry))
            longest_wait = self._checked((*where, "longest_wait"), lambda: _seconds(entry.longest_wait, None))
            yield TraceJob(
                name,
                arrival,
                tasks,
                attempts,
                entry.queue,
                entry.user,
                entry.priority,
                entry.min_available,
                longest_wait,
                entry.preemptable,
                limit,
            )

    def _arrivals(self, entry: JobEntry) -> list[float]:
        arrivals = entry.arrivals
        start = _seconds(arrivals.start, 0.0) or 0.0
        if arrivals.at:
            return [start + (_seconds(at, 0.0) or 0.0) for at in arrivals.at]
        if arrivals.rate:
            rate = _rate(arrivals.rate)
            gaps = (self._random.expovariate(rate) for _ in count())
        else:
            every = _seconds(arrivals.every, 0.0) or 0.0
            gaps = (every for _ in count())
        times, now = [], start
        for index in range(entry.count):
            now += next(gaps) if index or arrivals.rate else 0.0
            times.append(now)
        return times

    def _attempts(self, entry: JobEntry) -> tuple[Attempt, ...]:
        attempts: list[Attempt] = []
        for _ in range(entry.retries + 1):
            failed = self._random.random() < entry.failures
            attempts.append(Attempt(self._run_time(entry.run_time), failed))
            if not failed:
                break
        return tuple(attempts)

    def _run_time(self, given: Amount | RunTimeEntry) -> float:
        if not isinstance(given, RunTimeEntry):
            return _seconds(given, 60.0) or 0.0
        if given.exponential:
            return self._random.expovariate(1 / max(_seconds(given.exponential, 1.0) or 1.0, 1e-9))
        if given.uniform:
            low, high = (_seconds(value, 0.0) or 0.0 for value in given.uniform)
            return self._random.uniform(low, high)
        if given.lognormal:
            median, sigma = given.lognormal
            return (_seconds(median, 0.0) or 0.0) * self._random.lognormvariate(0.0, float(sigma))
        return _seconds(given.fixed, 60.0) or 0.0


def _task(entry: TaskEntry) -> TraceTask:
    if not 0 < entry.gpu_share <= 1 or (entry.gpus != 1 and entry.gpu_share != 1):
        raise ValueError("gpuShare must be above 0 and at most 1, below 1 only with one GPU")
    if entry.replicas < 1:
        raise ValueError(f"replicas is {entry.replicas}; it must be 1 or more")
    requests = Requests(
        quantity.milli(entry.cpu) / 1000,
        quantity.units(entry.memory),
        entry.gpus,
        entry.gpu_share,
        tuple(entry.models),
        _quantities(entry.resources),
        tuple(sorted(entry.node_selector.items())),
    )
    return TraceTask(requests, entry.replicas, entry.name, entry.usage)


def _quantities(given: dict[str, Amount]) -> tuple[tuple[str, str], ...]:
    return tuple((name, quantity.canonical(value)) for name, value in sorted(given.items()))


def _seconds(given: Amount, default: float | None) -> float | None:
    return default if given == "" else seconds_of(str(given), "time")


def _rate(text: str) -> float:
    """Arrivals per second of `10/s`, `10/m`, `10/h` or `10/d`."""
    found = re.fullmatch(r"([\d.]+)/([smhd])", text)
    if found is None or float(found.group(1)) <= 0:
        raise ValueError(f"rate {text!r} should be a number per second, minute, hour or day, such as 10/m")
    return float(found.group(1)) / {"s": 1, "m": 60, "h": 3600, "d": 86400}[found.group(2)]
