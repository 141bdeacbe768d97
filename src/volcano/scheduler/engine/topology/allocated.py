"""Allocated domains: stored on the PodGroup when they change, so that a restarted scheduler and users know them."""

from collections.abc import Mapping

import msgspec

from volcano.kube.api.names import ALLOCATED_HYPERNODE, SUB_GROUP_HYPERNODES
from volcano.model.job import Job
from volcano.scheduler.engine.topology.cycle import TopologyCycle
from volcano.scheduler.engine.topology.session_topology import key_of, recorded_sub_groups


def changed_annotations(session: TopologyCycle, job: Job) -> Mapping[str, str] | None:
    """Annotations of a job's PodGroup that differ from the domains that its pods hold; None when none does."""
    topology = session.topology
    demand = topology.demand(job)
    if demand is None or demand.problem or not session.ledger.holding(job):
        return None
    known = job.group.annotations
    changed: dict[str, str] = {}
    if demand.job is not None:
        name = _widened(session, known.get(ALLOCATED_HYPERNODE, ""), topology.held_now(job))
        if name != known.get(ALLOCATED_HYPERNODE, ""):
            changed[ALLOCATED_HYPERNODE] = name
    if demand.parts:
        text = _sub_groups(session, job, known.get(SUB_GROUP_HYPERNODES, ""))
        if text != known.get(SUB_GROUP_HYPERNODES, ""):
            changed[SUB_GROUP_HYPERNODES] = text
    return changed or None


def _sub_groups(session: TopologyCycle, job: Job, text: str) -> str:
    recorded = recorded_sub_groups(text)
    found: dict[str, str] = {}
    for sub_job in job.sub_jobs.values():
        if sub_job.policy and session.ledger.holding(sub_job):
            key = key_of(sub_job)
            found[key] = _widened(session, recorded.get(key, ""), session.topology.held_now(sub_job))
    if found == recorded:
        return text
    return msgspec.json.encode(dict(sorted(found.items()))).decode()


def _widened(session: TopologyCycle, recorded: str, held: int | None) -> str:
    """The recorded domain while it contains all pods, else the one that they hold."""
    view = session.topology.view
    if held is None:
        return recorded
    before = view.number.get(recorded)
    if before is not None and view.below(before)[held]:
        return recorded
    return view.domains[held].name
