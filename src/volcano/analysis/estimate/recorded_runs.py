"""Recorded runs: the run times of jobs that are no longer in the cluster, from accounting."""

from collections.abc import Iterable, Sequence

from volcano.accounting.api import Outcome, Run
from volcano.analysis.estimate.run_history import Arrival, RunHistory, RunKey, key_of_job, shape_of
from volcano.kube.resources.pod_requests import NOT_COUNTED
from volcano.model import resources
from volcano.model.resources import PODS, ResourceIndex, Vector
from volcano.model.snapshot import Snapshot

FINISHED = frozenset((Outcome.COMPLETED, Outcome.FAILED))  # others did not end by themselves


def add_recorded(history: RunHistory, runs: Iterable[Run], snapshot: Snapshot) -> None:
    """Adds the jobs that runs were recorded of, except those that the snapshot has. Walltimes and priorities are not
    recorded: they are taken from similar jobs of the snapshot."""
    jobs: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        work = run.workload
        jobs.setdefault((work.namespace, work.job, work.job_uid), []).append(run)
    similar = {key_of_job(job, job.tasks.values()): job for job in snapshot.jobs.values() if job.tasks}
    for (namespace, name, uid), found in sorted(jobs.items(), key=lambda item: _end(item[1])):
        present = f"{namespace}/{name}-{uid}" in snapshot.jobs or f"{namespace}/{name}" in snapshot.jobs
        key = None if present else _key(found, snapshot.resources)
        if key is None:
            continue
        like = similar.get(key)
        walltime = None if like is None else like.group.walltime
        has_minimum = like is None or like.group.min_resources is not None
        priority = 0 if like is None else like.priority
        created = min(run.created for run in found)
        history.add_arrival(Arrival(created, key, walltime, priority, has_minimum))
        if all(run.ended is not None and run.outcome in FINISHED and not run.estimated for run in found):
            history.add(key, _end(found) - min(run.started for run in found))


def _end(runs: Sequence[Run]) -> float:
    return max(run.started if run.ended is None else run.ended for run in runs)


def _key(runs: Sequence[Run], index: ResourceIndex) -> RunKey | None:
    """The key that the job had in a snapshot; None when it used resources that the cluster does not know now."""
    requests = []
    for run in runs:
        request = _request(run, index)
        if request is None:
            return None
        requests.append(request)
    work = runs[0].workload
    return RunKey(work.queue, work.user, shape_of(requests))


def _request(run: Run, index: ResourceIndex) -> Vector | None:
    wanted = {
        name: resources.amount(name, amount)
        for name, amount in run.workload.requests.items()
        if resources.counted(name) and name != "pods" and not NOT_COUNTED.fullmatch(name)
    }
    if not wanted.keys() <= index.column.keys():
        return None
    vector = index.vector(wanted)
    vector[PODS] = 1.0
    return vector
