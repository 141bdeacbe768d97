"""Reads the history of runs that expected starts are computed from: finished pods, and recorded runs."""

from typing import TYPE_CHECKING, Final

from volcano.accounting.api import RUNS, parse_run
from volcano.base.clock import micro_timestamp
from volcano.cli.session import Session
from volcano.model.snapshot import Snapshot
from volcano.services.accounting import ask_all
from volcano.services.errors import ServiceError

if TYPE_CHECKING:
    from volcano.analysis.estimate.run_history import RunHistory

DAYS: Final = 30
MOST_RUNS: Final = 3000  # the newest


async def read_run_history(session: Session, snapshot: Snapshot) -> "RunHistory":
    """Runs of the jobs of a snapshot; where accounting answers, also of jobs that were deleted."""
    from volcano.analysis.estimate.recorded_runs import add_recorded
    from volcano.analysis.estimate.run_history import RunHistory, read_history

    earlier = RunHistory()
    since = micro_timestamp(session.clock.now().wall - DAYS * 86_400)
    try:
        items = await ask_all(session.client, RUNS, "", MOST_RUNS, **{"from": since})
    except ServiceError:  # not enabled, not reachable, or not permitted: the pods in the cluster tell
        items = []
    if len(items) >= MOST_RUNS:  # pods of the last job may be missing
        items = [item for item in items if item["jobUID"] != items[-1]["jobUID"]]
    add_recorded(earlier, map(parse_run, items), snapshot)
    return await read_history(session.client, snapshot.jobs.values(), earlier)
