"""Values that hooks of plugins receive and return."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final

from volcano.model.job import Job
from volcano.model.resources import Mask
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import Rows

MAX_SCORE: Final = 100.0

# Any sortable value; the smallest goes first.
OrderKey = Any


class Abstain(Enum):
    """The result of a hook that does not vote on these candidates."""

    ABSTAIN = "abstain"


ABSTAIN: Final = Abstain.ABSTAIN


class Vote(IntEnum):
    """A vote: one REJECT decides at once, one PERMIT decides its tier."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(frozen=True, slots=True)
class RejectedNodes:
    """Nodes rejected for one reason. `mask` has one element per row of the table passed to the hook."""

    mask: Mask
    reason: str  # as kube-scheduler has it: "node(s) had untolerated taint {key: value}"
    resolvable: bool = True  # whether evictions could make the nodes feasible
    now_only: bool = False  # feasible once what is being released there is free: a task may be pipelined
    code: Code = Code.REJECTED_BY_PLUGIN


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """How many more tasks of one shape each row of a table takes, by what is placed there, beside counted resources.

    `counts` are at most the number asked for; a mask will do for one. With `repeats`, they hold for several tasks
    placed together, and `score_nodes` takes into account how many of them a hypothetical row has. `explain` returns why
    rows take none.
    """

    counts: Rows | Mask
    explain: Callable[[], Iterable[RejectedNodes]]
    repeats: bool = True


class Purpose(Enum):
    """The action that evicts."""

    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    GANG_PREEMPT = "gangpreempt"
    GANG_RECLAIM = "gangreclaim"

    def __init__(self, action: str) -> None:
        self.across_queues = action.endswith("reclaim")


@dataclass(frozen=True, slots=True)
class EvictionContext:
    """A search for victims: its purpose, and the preemptor (job and task).

    `break_gangs` is true in the second round, when surplus members were not enough and gangs may be broken.
    """

    purpose: Purpose
    job: Job
    task: Task
    break_gangs: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """State that a plugin keeps for the next cycle, and when that cycle is needed although nothing changes.

    `due` is in seconds since the epoch; a time that is over asks for a cycle in every period. Without it, what is kept
    waits for the next change of the cluster.
    """

    state: Any
    due: float | None = None
