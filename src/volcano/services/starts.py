"""Expected starts of the jobs that wait: estimates, and nodes that are reserved for gangs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from volcano.analysis.estimate.estimates import Estimate, estimate
from volcano.analysis.explain.case import shown_name
from volcano.analysis.rerun.state import MissingRights
from volcano.base.clock import Clock
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Query
from volcano.model.reservations import ReservedGang, reserved_gang
from volcano.services.cluster_state import read_case
from volcano.services.jobs import phase_of
from volcano.services.run_history import read_run_history
from volcano.views.jobs import WAITING


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job that waits, and what is known about its start."""

    job: Manifest
    estimate: Estimate | None
    reserved: ReservedGang | None

    @property
    def interval(self) -> tuple[float | None, float] | None:
        """Earliest and latest start; a reservation only gives the latest."""
        latest = self.reserved.start if self.reserved is not None else None
        if self.estimate is not None:
            most = self.estimate.latest if latest is None else min(self.estimate.latest, latest)
            return min(self.estimate.earliest, most), most
        return None if latest is None else (None, latest)

    @property
    def basis(self) -> str:
        if self.estimate is not None:
            return self.estimate.basis
        return "reservation" if self.interval is not None else ""

    @property
    def waits_for(self) -> list[str]:
        """The jobs whose end it waits for."""
        return [shown_name(each) for each in self.estimate.waits_for] if self.estimate is not None else []


@dataclass(frozen=True, slots=True)
class ExpectedStarts:
    """The jobs that wait, by namespace and name, and why some estimates are missing."""

    jobs: tuple[JobStart, ...]
    notes: tuple[str, ...] = ()


async def expected_starts(
    client: HttpClient,
    clock: Clock,
    *,
    namespace: str = "",
    labels: str = "",
    keep: Callable[[Manifest], bool] = lambda job: True,
) -> ExpectedStarts:
    """Starts of the jobs in a namespace, or in all, that wait."""
    jobs = (await client.list(JOB, Query(namespace=namespace, labels=labels))).items
    groups = (await client.list(POD_GROUP, Query(namespace=namespace))).items
    waiting = sorted((job for job in jobs if keep(job) and phase_of(job) in WAITING), key=key_of)
    estimates: Mapping[str, Estimate] = {}
    notes: tuple[str, ...] = ()
    if waiting:
        try:
            case = await read_case(client, clock)
            history = await read_run_history(client, clock, case.snapshot)
            estimates = estimate(case.state, case.config, history, case.state.now)
        except MissingRights as error:
            notes = (f"only reserved starts are shown: {error}",)
    return ExpectedStarts(tuple(_start(job, estimates, groups) for job in waiting), notes)


def _start(job: Manifest, estimates: Mapping[str, Estimate], groups: Sequence[Manifest]) -> JobStart:
    key = key_of(job)
    names = (f"{key.name}-{uid_of(job)}", key.name)
    found = next((estimates[uid] for name in names if (uid := f"{key.namespace}/{name}") in estimates), None)
    own = next(
        (group for group in groups if key_of(group) in [Key(key.namespace, name) for name in names]), None
    )
    return JobStart(job, found, reserved_gang(own) if own is not None else None)
