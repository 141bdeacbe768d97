"""What a cycle came to, in lines for people."""

from collections.abc import Iterator

from volcano.model.decisions import Bind, Evict, Nominate, SetPodGroup
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.session import Outcome


def report(outcome: Outcome, snapshot: Snapshot) -> Iterator[str]:
    """One line per decision that moves something, then one per job that waits, with why."""
    yield f"{len(snapshot.nodes)} nodes, {len(snapshot.jobs)} jobs, {len(snapshot.queues)} queues"
    for decision in outcome.decisions:
        match decision:
            case Bind():
                yield f"bind      {decision.namespace}/{decision.name} → {decision.node}"
            case Evict():
                yield (
                    f"evict     {decision.namespace}/{decision.name} from {decision.node}: "
                    f"{decision.reason} for {decision.on_behalf_of or 'nobody in particular'}"
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
