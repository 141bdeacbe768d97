"""Demands: the domains that a job and its sub-groups ask for, in the tiers of the current HyperNodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from volcano.model.hypernodes.view import TopologyView
from volcano.model.job import Job, NetworkTopology, SubJob

SOFT = "soft"
NO_HYPERNODES = (
    "networkTopology asks for one hypernode of tier ≤ {}, but no HyperNode exists; create HyperNodes, use mode soft, "
    "or remove networkTopology"
)
UNKNOWN_TIER_NAME = 'networkTopology asks for the tier "{}", which no HyperNode has as its tierName; {}'
NO_TIER = "networkTopology asks for one hypernode of tier ≤ {}, but the lowest tier of a HyperNode is {}"
WITHOUT_LIMIT = (
    "networkTopology has mode hard without highestTierAllowed or highestTierName: the pods are placed in the lowest "
    "tier that fits, as with mode soft"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """The highest tier of the one domain that pods may be spread over."""

    tier: int
    hard: bool  # otherwise a preference: as low as possible, up to the whole cluster
    problem: str = ""  # why no domain can ever meet it, as things are


@dataclass(frozen=True, slots=True)
class Demand:
    """Limits of a job and of its sub-groups, these by the name of their policy; None where there is none."""

    job: Limit | None
    parts: Mapping[str, Limit] = field(default_factory=dict)
    without_limit: bool = False  # mode hard without a limit somewhere

    def part(self, sub_job: SubJob) -> Limit | None:
        """Limit of a sub-group inside the domain of its job; the job's own domain is enough where there is none."""
        return self.parts.get(sub_job.policy)

    @property
    def problem(self) -> str:
        """Why the job cannot be placed whatever is free; "" when it can."""
        limits = [*([self.job] if self.job else []), *self.parts.values()]
        return next((limit.problem for limit in limits if limit.problem), "")

    @property
    def is_hard(self) -> bool:
        """Whether the job or a sub-group must stay in one domain; otherwise domains are only preferred."""
        limits = [*([self.job] if self.job else []), *self.parts.values()]
        return any(limit.hard for limit in limits)


def demand_of(job: Job, topology: TopologyView) -> Demand | None:
    """Demand of a job; None when its pods may go anywhere."""
    group = job.group
    asked = [group.topology, *(policy.topology for policy in group.sub_groups)]
    if not any(asked):
        return None
    own = _limit(group.topology, topology, _top(topology))
    widest = own.tier if own is not None else _top(topology)
    parts = {
        policy.name: limit
        for policy in group.sub_groups
        if (limit := _limit(policy.topology, topology, widest)) is not None
    }
    if own is None and not parts:
        return None
    return Demand(own, parts, any(spec is not None and _is_without_limit(spec) for spec in asked))


def _limit(spec: NetworkTopology | None, topology: TopologyView, widest: int) -> Limit | None:
    if spec is None:
        return None
    if spec.mode.lower() == SOFT or _is_without_limit(spec):
        # A preference among domains needs domains.
        return Limit(widest, hard=False) if topology.exists else None
    tier = spec.highest_tier
    if tier is None:
        tier = topology.tree.tier_names.get(spec.highest_tier_name)
        if tier is None:
            return Limit(0, hard=True, problem=_unknown(spec.highest_tier_name, topology))
    if not topology.exists:
        return Limit(tier, hard=True, problem=NO_HYPERNODES.format(tier))
    lowest = int(topology.tiers[0])
    return Limit(tier, hard=True, problem=NO_TIER.format(tier, lowest) if tier < lowest else "")


def _is_without_limit(spec: NetworkTopology) -> bool:
    return spec.mode.lower() != SOFT and spec.highest_tier is None and not spec.highest_tier_name


def _unknown(name: str, topology: TopologyView) -> str:
    known = sorted(topology.tree.tier_names)
    if known:
        hint = f"known tier names: {', '.join(known)}"
    elif topology.exists:
        hint = "no HyperNode has a tierName; use highestTierAllowed"
    else:
        hint = "no HyperNode exists"
    return UNKNOWN_TIER_NAME.format(name, hint)


def _top(topology: TopologyView) -> int:
    return topology.tree.root.tier
