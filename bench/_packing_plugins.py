"""Plugins of the packing benchmark: domain choices to compare with."""

from collections.abc import Sequence

import numpy as np

from volcano.model.job import Job, SubJob
from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.domain_table import DomainTable
from volcano.scheduler.engine.plugin import Plugin


class FirstDomain(Plugin):
    """Takes the first domain by name that has room."""

    def score_domains(self, job: Job | SubJob, tasks: Sequence[Task], domains: DomainTable) -> Vector | None:
        return np.zeros(len(domains))
