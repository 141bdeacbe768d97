"""Resource-seconds of queues, kept up to date as runs start and end."""

from collections.abc import Iterator, Mapping
from typing import Final

from volcano.accounting.api import GPU, Run, Workload

MOST_WORKLOADS: Final = 1000  # beyond, those of which nothing runs are summed up
Totals = dict[tuple[str, str], float]  # resource-seconds by queue and resource


class _Running:
    """The runs of one workload: how many go on, and the seconds of all of them up to the meter's origin."""

    __slots__ = ("number", "seconds", "workload")

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.number = 0
        self.seconds = 0.0


class Meter:
    """Sums up runs without reading the database: what has ended, and at which rate the rest goes on.

    A run changes two numbers of its workload; its resources are multiplied when the totals are read.
    """

    def __init__(self, origin: float) -> None:
        """`origin` is any time near those of the runs: small numbers keep their precision."""
        self._origin = origin
        self._ended: Totals = {}  # of workloads whose runs have ended, and of the past
        self._workloads: dict[int, _Running] = {}  # by identity of the workload

    def set_past(self, totals: Mapping[tuple[str, str], float]) -> None:
        """Adds what the database has of runs that are not added here."""
        for key, seconds in totals.items():
            self._ended[key] = self._ended.get(key, 0.0) + seconds

    def add(self, run: Run, *, since: float | None = None) -> None:
        """A run has started; with `since`, only what follows is counted."""
        begun = run.started if since is None else max(run.started, since)
        self._change(run.workload, 1, begun)

    def end(self, run: Run, ended: float) -> None:
        """A run that was added has ended."""
        self._change(run.workload, -1, ended)

    def _change(self, workload: Workload, sign: int, at: float) -> None:
        running = self._workloads.get(id(workload))
        if running is None:
            if len(self._workloads) >= MOST_WORKLOADS:
                self._fold()
            running = self._workloads[id(workload)] = _Running(workload)
        running.number += sign
        running.seconds -= sign * (at - self._origin)

    def totals(self, now: float) -> Totals:
        """Resource-seconds up to a time."""
        self._fold()
        found = dict(self._ended)
        for running in self._workloads.values():
            _add(found, running.workload, running.seconds + running.number * (now - self._origin))
        return {key: max(seconds, 0.0) for key, seconds in found.items()}

    def _fold(self) -> None:
        """Sums up the workloads of which nothing runs."""
        over = [identity for identity, running in self._workloads.items() if not running.number]
        for identity in over:
            running = self._workloads.pop(identity)
            _add(self._ended, running.workload, running.seconds)


def _add(totals: Totals, workload: Workload, seconds: float) -> None:
    for resource, amount in amounts(workload):
        key = (workload.queue, resource)
        totals[key] = totals.get(key, 0.0) + amount * seconds


def amounts(workload: Workload) -> Iterator[tuple[str, float]]:
    """Resources of one pod, GPUs of all kinds included."""
    yield from workload.requests.items()
    if workload.gpus:
        yield GPU, workload.gpus
