"""Summaries of a cycle as text: for replayed snapshots, and for /readyz."""

from collections.abc import Iterator, Mapping

from volcano.model.decisions import Bind, Evict, Nominate, SetPodGroup
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.faults import Fault
from volcano.scheduler.engine.session import Outcome

MOST_JOBS = 5  # of the skipped ones that /readyz names


def skipped_jobs(faults: Mapping[str, Fault]) -> str:
    """`1 skipped until it is tried again: team/train (plugin binpack failed in score_nodes: ...)`; "" for none."""
    if not faults:
        return ""
    named = [f"{uid} ({fault.reason})" for uid, fault in list(faults.items())[:MOST_JOBS]]
    more = f" and {len(faults) - MOST_JOBS} more" if len(faults) > MOST_JOBS else ""
    return f"{len(faults)} skipped, tried again with back-off: {', '.join(named)}{more}"


def report(outcome: Outcome, snapshot: Snapshot) -> Iterator[str]:
    """One line per binding, eviction, nomination and phase, then one per job that waits, with the reason."""
    yield f"{len(snapshot.nodes)} nodes, {len(snapshot.jobs)} jobs, {len(snapshot.queues)} queues"
    for decision in outcome.decisions:
        match decision:
            case Bind():
                yield f"bind      {decision.namespace}/{decision.name} → {decision.node}"
            case Evict():
                job = f" for {decision.on_behalf_of}" if decision.on_behalf_of else ""
                yield (
                    f"evict     {decision.namespace}/{decision.name} from {decision.node}: "
                    f"{decision.reason}{job}"
                )
            case Nominate():
                yield f"nominate  {decision.namespace}/{decision.name} → {decision.node}"
            case SetPodGroup(phase=str(phase)):
                yield f"phase     {decision.namespace}/{decision.name} {phase}"
            case _:
                pass
    for uid, diagnosis in outcome.diagnoses.items():
        shortage = f" ({diagnosis.shortage()})" if diagnosis.resource else ""
        yield f"waits     {uid} at {diagnosis.stage}: {diagnosis.message}{shortage}"
