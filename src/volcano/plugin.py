"""Public names for authors of scheduler plugins; `docs/plugins.md` explains them."""

from volcano.model.decisions import ClaimVolume, ReserveClaim
from volcano.model.job import Condition, Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import CPU, MEMORY, PODS, STEP, Mask, Vector
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.answers import (
    ABSTAIN,
    MAX_SCORE,
    Abstain,
    EvictionContext,
    Memory,
    NodeCapacity,
    OrderKey,
    Purpose,
    RejectedNodes,
    Vote,
)
from volcano.scheduler.engine.arguments import Argument, Arguments, Finding, Type
from volcano.scheduler.engine.diagnosis import Amount, Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.domain_table import DomainTable
from volcano.scheduler.engine.inputs import ConfigMapInput, Input, LoadInput, UsageInput
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.plugin_metrics import MetricSample

__all__ = [
    "ABSTAIN", "CPU", "MAX_SCORE", "MEMORY", "PODS", "STEP", "Abstain", "Amount", "Argument", "Arguments",
    "ClaimVolume", "Code", "Condition", "ConfigMapInput", "DomainTable", "EvictionContext", "Finding", "Input",
    "Job", "LoadInput", "Mask", "Memory", "MetricSample", "NodeCapacity", "NodeTable", "OrderKey", "Plugin",
    "Purpose", "Queue", "RejectedNodes", "Rejection", "ReserveClaim", "Shape", "Snapshot", "Status", "SubJob",
    "Task", "Type", "UsageInput", "Vector", "Vote",
]  # fmt: skip
