"""Python SDK: submit functions and scripts as gangs, read and write jobs, queues and pod groups, and report usage.

>>> from volcano.sdk import run
>>> def double(number):
...     return 2 * number
>>> run(double, 21, cpus="100m", memory="64Mi").results(timeout=120)
[42]
"""

from volcano.kube.api.errors import ApiError
from volcano.sdk.accounting import usage
from volcano.sdk.analysis import explain, plan
from volcano.sdk.cluster import Cluster
from volcano.sdk.errors import JobFailed, NotFinished, SdkError, WorkerFailed
from volcano.sdk.objects import Job, PodGroup, Queue, Task
from volcano.sdk.run import Run, run
from volcano.services.usage import UsageGroup, UsageReport

__all__ = [
    "ApiError",
    "Cluster",
    "Job",
    "JobFailed",
    "NotFinished",
    "PodGroup",
    "Queue",
    "Run",
    "SdkError",
    "Task",
    "UsageGroup",
    "UsageReport",
    "WorkerFailed",
    "explain",
    "plan",
    "run",
    "usage",
]
