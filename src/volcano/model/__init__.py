"""Model of a batch cluster: frozen values parsed from API objects, and the cluster cache that holds them."""

from volcano.model.decisions import Bind, Decision, Evict, Nominate, SetPodGroup
from volcano.model.job import Job, PodGroup
from volcano.model.node import Node, Taint
from volcano.model.queue import Queue, QueueTotals
from volcano.model.resources import Mask, ResourceIndex, ResourceList, Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Shape, Task

__all__ = [
    "Bind",
    "Decision",
    "Evict",
    "Job",
    "Mask",
    "Node",
    "Nominate",
    "PodGroup",
    "Queue",
    "QueueTotals",
    "ResourceIndex",
    "ResourceList",
    "SetPodGroup",
    "Shape",
    "Snapshot",
    "Status",
    "Taint",
    "Task",
    "Vector",
]
