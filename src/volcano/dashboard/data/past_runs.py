"""Recorded runs of pods that do not exist any more: earlier attempts and evicted pods on the timeline of a job."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from volcano.accounting.api import Outcome, Run
from volcano.dashboard.data.gang import JobView
from volcano.dashboard.data.timeline import EVICTED, FAILED, RUNNING, SUCCEEDED, WAITING, Bar, Line
from volcano.kube.api.manifest import controller_of, uid_of
from volcano.views.times import span

# How the end of a run is drawn; of other outcomes only the run itself is.
ENDS = {
    Outcome.COMPLETED: SUCCEEDED,
    Outcome.FAILED: FAILED,
    Outcome.EVICTED: EVICTED,
    Outcome.DELETED: EVICTED,
    Outcome.NODE_LOST: EVICTED,
}
NAMES = {Outcome.NODE_LOST: "Node lost", Outcome.UNKNOWN: "Unknown outcome"}
GONE = "deleted"


def owner_uid(view: JobView) -> str:
    """UID under which the runs of a job are recorded: that of the owner of its pods; "" when there is none."""
    if not view.item.row.grouped_only:
        return uid_of(view.manifest)
    owner = controller_of(view.manifest) or {}
    return str(owner.get("uid") or "")


def with_past_runs(lines: Sequence[Line], runs: Iterable[Run], present: Collection[str]) -> tuple[Line, ...]:
    """The lines with what was recorded of pods that are not `present` (UIDs). A pod that was created again has the name
    of the earlier one and is on the same line; names without a pod follow in the order of their first run."""
    ended: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda each: each.started):
        if run.uid not in present and run.ended is not None:
            ended[run.pod].append(run)
    found = [_with(line, ended.pop(line.pod, ())) for line in lines]
    found += [_with(Line(pod, "", (), GONE), past) for pod, past in ended.items()]
    return tuple(found)


def _with(line: Line, runs: Sequence[Run]) -> Line:
    if not runs:
        return line
    bars = tuple(bar for run in runs for bar in _bars(run))
    return replace(line, past=bars, outcomes=tuple(map(outcome_text, runs)))


def _bars(run: Run) -> Iterable[Bar]:
    ended = run.started if run.ended is None else max(run.ended, run.started)
    if run.created < run.started:
        yield Bar(WAITING, run.created, run.started)
    yield Bar(RUNNING, run.started, ended, run.node)
    if run.outcome in ENDS:
        yield Bar(ENDS[run.outcome], ended, ended, outcome=outcome_text(run))


def outcome_text(run: Run) -> str:
    """`Failed after 15s on node-3`, with the reason if one is recorded."""
    ended = run.started if run.ended is None else run.ended
    about = "about " if run.estimated else ""
    reason = f": {run.reason}" if run.reason and run.reason != run.outcome else ""
    name = NAMES.get(run.outcome, str(run.outcome))
    return f"{name} after {about}{span(max(ended - run.started, 0))} on {run.node}{reason}"
