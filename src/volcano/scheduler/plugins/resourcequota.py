"""resourcequota: jobs that exceed a quota of their namespace are not admitted."""

from collections.abc import Mapping

from volcano.kube.api import quantity
from volcano.model import resources
from volcano.model.job import Job
from volcano.model.storage import Quota
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.diagnosis import Amount, Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.plugin import Plugin


class ResourceQuota(Plugin):
    """A job's minResources, by their names in the manifest, must fit into every quota of its namespace."""

    def open(self, arguments: Arguments) -> None:
        self.admitted: dict[
            str, dict[str, float]
        ] = {}  # namespace → resource name → amount admitted in this cycle

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        wanted = amounts(job)
        if not wanted:
            return Vote.PERMIT
        admitted = self.admitted.get(job.namespace, {})
        for quota in self.snapshot.quotas.get(job.namespace, ()):
            for name in sorted(quota.hard.keys() & wanted.keys()):
                need = quota.used.get(name, 0.0) + admitted.get(name, 0.0) + wanted[name]
                if need > quota.hard[name]:
                    return Rejection(
                        quota_message(quota, wanted),
                        Code.QUOTA_EXCEEDED,
                        resource=name,
                        need=need,
                        have=quota.hard[name],
                        amounts=(
                            Amount(
                                name,
                                resources.amount(name, wanted[name]),
                                resources.amount(name, quota.hard[name] - need + wanted[name]),
                                resources.amount(name, quota.hard[name]),
                            ),
                        ),
                    )
        return Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        admitted = self.admitted.setdefault(job.namespace, {})
        for name, amount in amounts(job).items():
            admitted[name] = admitted.get(name, 0.0) + amount


def amounts(job: Job) -> dict[str, float]:
    """Returns a job's minResources as numbers, for all resource names."""
    return {name: float(quantity.parse(text)) for name, text in (job.group.min_resources_text or {}).items()}


def quota_message(quota: Quota, wanted: Mapping[str, float]) -> str:
    """Returns the message for a job that exceeds a quota."""
    names = sorted(quota.hard.keys() & wanted.keys())

    def listed(values: Mapping[str, float]) -> str:
        return ",".join(f"{name}={values.get(name, 0.0):g}" for name in names)

    return (
        f"resource quota insufficient, requested: {listed(wanted)}, used: {listed(quota.used)}, "
        f"limited: {listed(quota.hard)}"
    )
