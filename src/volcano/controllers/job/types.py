"""Phases, actions and policy events of jobs, and the phases of pods."""

from enum import StrEnum


class Phase(StrEnum):
    """The phase of a job; NONE before its first status."""

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
    """An action of a policy or a command; `SYNC` only synchronizes."""

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
    """Events that policies match."""

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


# Other names of events.
EVENT_ALIASES = {"JobUnknown": PolicyEvent.UNKNOWN}

TARGETED = frozenset({Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION})
LIVE = frozenset({Phase.NONE, Phase.PENDING, Phase.RUNNING})
FINISHED = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
STOPPING = frozenset({Phase.ABORTING, Phase.COMPLETING, Phase.TERMINATING})
STOPPED = FINISHED | {Phase.ABORTED}

# The phases by which pods are counted, in the order of the job's status.
POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
TERMINATING = "Terminating"


def action_named(text: object) -> Action:
    """The action of that name; SYNC for unknown names."""
    return next((action for action in Action if action == text), Action.SYNC)
