"""Resource-seconds of queues, kept up to date as runs start and end."""

from collections.abc import Iterator, Mapping

from volcano.accounting.api import GPU, Run, Workload

Totals = dict[tuple[str, str], float]  # resource-seconds by queue and resource


class Meter:
    """Sums up runs without reading the database: what has ended, and at which rate the rest goes on."""

    def __init__(self, origin: float) -> None:
        """`origin` is any time near those of the runs: small numbers keep their precision."""
        self._origin = origin
        self._base: Totals = {}  # of what has ended, and of the time before each run, negative
        self._rate: Totals = {}

    def set_past(self, totals: Mapping[tuple[str, str], float]) -> None:
        """Adds what the database has of runs that are not added here."""
        for key, seconds in totals.items():
            self._base[key] = self._base.get(key, 0.0) + seconds

    def add(self, run: Run, *, since: float | None = None) -> None:
        """A run has started; with `since`, only what follows is counted."""
        begun = run.started if since is None else max(run.started, since)
        self._change(run.workload, 1.0, begun)

    def end(self, run: Run, ended: float) -> None:
        """A run that was added has ended."""
        self._change(run.workload, -1.0, ended)

    def _change(self, workload: Workload, sign: float, at: float) -> None:
        for resource, amount in amounts(workload):
            key = (workload.queue, resource)
            self._rate[key] = self._rate.get(key, 0.0) + sign * amount
            self._base[key] = self._base.get(key, 0.0) - sign * amount * (at - self._origin)

    def totals(self, now: float) -> Totals:
        """Resource-seconds up to a time."""
        return {
            key: max(base + self._rate.get(key, 0.0) * (now - self._origin), 0.0)
            for key, base in self._base.items()
        }


def amounts(workload: Workload) -> Iterator[tuple[str, float]]:
    """Resources of one pod, GPUs of all kinds included."""
    yield from workload.requests.items()
    if workload.gpus:
        yield GPU, workload.gpus
