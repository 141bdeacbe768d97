"""Reads the history of runs that expected starts are computed from: finished pods, and recorded runs."""

from typing import Final

from volcano.accounting.api import RUNS, parse_run
from volcano.analysis.estimate.recorded_runs import add_recorded
from volcano.analysis.estimate.run_history import RunHistory, read_history
from volcano.base.clock import Clock, micro_timestamp
from volcano.kube.client.http import HttpClient
from volcano.model.snapshot import Snapshot
from volcano.services.accounting import ask_all
from volcano.services.errors import ServiceError

DAYS: Final = 30
MOST_RUNS: Final = 3000  # the newest


async def read_run_history(client: HttpClient, clock: Clock, snapshot: Snapshot) -> RunHistory:
    """Runs of the jobs of a snapshot; where accounting answers, also of jobs that were deleted."""
    earlier = RunHistory()
    since = micro_timestamp(clock.now().wall - DAYS * 86_400)
    try:
        items = await ask_all(client, RUNS, "", MOST_RUNS, **{"from": since})
    except ServiceError:  # not enabled, not reachable, or not permitted: the pods in the cluster tell
        items = []
    if len(items) >= MOST_RUNS:  # pods of the last job may be missing
        items = [item for item in items if item["jobUID"] != items[-1]["jobUID"]]
    add_recorded(earlier, map(parse_run, items), snapshot)
    return await read_history(client, snapshot.jobs.values(), earlier)
