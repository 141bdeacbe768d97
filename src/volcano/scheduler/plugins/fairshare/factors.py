"""Priority of a job: a weighted sum of factors between 0 and 1, as Slurm's multifactor priority.

| factor | 1 for | 0 for |
|---|---|---|
| priority | the largest PriorityClass | the smallest one, or 0 if that is smaller |
| age | jobs that wait for `maxAge` or longer | jobs created now |
| size | jobs as large as the cluster | jobs without requests; with `favorSmall`, the other way round |
| fairshare | users without usage in the queue | users far beyond their share |
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

from volcano.model.job import Job
from volcano.scheduler.plugins.fairshare.settings import Settings

# Larger values are those of Kubernetes' own system-critical classes.
HIGHEST_USER_PRIORITY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors of one job, each between 0 and 1."""

    priority: float
    age: float
    size: float
    fairshare: float

    def weighted(self, settings: Settings) -> "Factors":
        weights = settings.weights
        return Factors(
            weights.priority * self.priority,
            weights.age * self.age,
            weights.size * self.size,
            weights.fairshare * self.fairshare,
        )

    @property
    def total(self) -> float:
        return self.priority + self.age + self.size + self.fairshare


class PriorityRange:
    """Range of the values of PriorityClasses."""

    def __init__(self, values: Iterable[int]) -> None:
        usual = [value for value in values if value <= HIGHEST_USER_PRIORITY]
        self.lowest = min(0, *usual) if usual else 0
        self.highest = max(0, *usual) if usual else 0

    def factor(self, priority: int) -> float:
        """Position of a priority in the range; 0 if there are no different priorities."""
        width = self.highest - self.lowest
        return min(max((priority - self.lowest) / width, 0.0), 1.0) if width else float(priority > 0)


def age_factor(created: float, now: float, max_age: float) -> float:
    return min(max(now - created, 0.0) / max_age, 1.0)


def size_factor(job: Job, reciprocals: Sequence[float], *, favor_small: bool) -> float:
    """The largest fraction of the cluster that the job asks for, of any resource.

    `reciprocals` are those of the cluster's resources, 0 for resources that do not count.
    """
    wanted = map(max, job.requested.tolist(), job.min_resources.tolist())
    fraction: float = min(max(map(mul, wanted, reciprocals)), 1.0)
    return 1.0 - fraction if favor_small else fraction
