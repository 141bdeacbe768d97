"""What a restart is aimed at, as text that a job's status can carry: `task/worker`, `pod/worker/job-worker-0`."""

from collections.abc import Iterable, Iterator

from volcano.controllers.job.roster import Member, Roster
from volcano.controllers.job.spec import Job
from volcano.controllers.job.status import Status
from volcano.controllers.job.terms import OVER, POD_PHASES, Action

WHOLE_JOB = "job"
# So many targets one restart may have; more wait for the next.
MOST_TARGETS = 64


def render_target(action: Action, member: Member) -> str:
    """The target of an action that something about this pod called for; empty when it is not aimed."""
    match action:
        case Action.RESTART_TASK:
            return f"task/{member.task}"
        case Action.RESTART_POD:
            return f"pod/{member.task}/{member.name}"
        case Action.RESTART_PARTITION if member.partition:
            return f"partition/{member.task}/{member.partition}"
    return ""


def join_targets(targets: Iterable[str]) -> str:
    """Several targets as one text, each once."""
    return ",".join(list(dict.fromkeys(filter(None, targets)))[:MOST_TARGETS])


def aimed_at(roster: Roster, targets: str) -> Iterator[Member]:
    """The pods that targets name and that have not been asked to go."""
    for target in filter(None, targets.split(",")):
        scope, _, rest = target.partition("/")
        task, _, which = rest.partition("/")
        match scope:
            case "task":
                yield from roster.within(task, *POD_PHASES)
            case "pod" if (member := roster.members.get(which)) is not None and member.state in POD_PHASES:
                yield member
            case "partition":
                yield from (m for m in roster.within(task, *POD_PHASES) if m.partition == which)


def left_to_restart(job: Job, status: Status, roster: Roster) -> list[Member]:
    """The pods that the restart in progress has still to ask to go."""
    match status.restart:
        case "":  # a resumed job: what had ended stays
            return [
                m for m in roster.in_states("Pending", "Running", "Unknown") if m.version < status.version
            ]
        case "job":
            # The last try is left lying about, for inspection.
            spared = OVER if status.retries >= job.max_retry else ()
            return [
                member
                for member in roster.in_states(*POD_PHASES)
                if member.version < status.version and member.state not in spared
            ]
        case targets:
            return [member for member in aimed_at(roster, targets) if member.retry < status.retries]
