"""Summary of a cycle as lines of text, printed when a snapshot is replayed."""

from collections.abc import Iterator

from volcano.model.decisions import Bind, Evict, Nominate, SetPodGroup
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.session import Outcome


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
