"""The words of a job's life: its phases, what can happen to it and what can be done about it."""

from enum import StrEnum


class Phase(StrEnum):
    """Where a job stands; a job nobody has looked at yet has none."""

    NONE = ""
    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class Action(StrEnum):
    """What a policy or a command may ask for; `SYNC` is the ordinary look."""

    SYNC = "SyncJob"
    ENQUEUE = "EnqueueJob"
    ABORT = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"
    RESUME = "ResumeJob"


class PolicyEvent(StrEnum):
    """What policies react to."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"


# Names that mean a happening we know under another name.
EVENT_ALIASES = {"JobUnknown": PolicyEvent.UNKNOWN}

TARGETED = frozenset({Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION})
LIVE = frozenset({Phase.NONE, Phase.PENDING, Phase.RUNNING})
FINISHED = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
STOPPING = frozenset({Phase.ABORTING, Phase.COMPLETING, Phase.TERMINATING})
STOPPED = FINISHED | {Phase.ABORTED}

# The phases a pod is counted under, in the order its job's status names them.
POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
TERMINATING = "Terminating"
OVER = ("Succeeded", "Failed")


def action_named(text: object) -> Action:
    """The action of that name; a name we do not know asks for nothing beyond a look."""
    return next((action for action in Action if action == text), Action.SYNC)
