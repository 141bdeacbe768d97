"""Small clusters with HyperNodes: eight nodes, four leaves, two spines, one top; and jobs that ask for domains."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.builders import JobManifests, job, metadata, node, pod, podgroup
from tests.scenario import Result, schedule
from volcano.kube.api import names
from volcano.kube.api.manifest import Manifest

PLUGINS = ("priority", "gang", "predicates")
LEAVES = {f"s{i}": (f"n{2 * i}", f"n{2 * i + 1}") for i in range(4)}
SPINES = {"s4": ("s0", "s1"), "s5": ("s2", "s3")}
LEAF_OF = {name: leaf for leaf, members in LEAVES.items() for name in members}
SPINE_OF = {leaf: spine for spine, members in SPINES.items() for leaf in members}


def hypernode(
    name: str, tier: int, members: Iterable[str], kind: str = "Node", tier_name: str = ""
) -> Manifest:
    """A HyperNode with exact members."""
    spec: Manifest = {
        "tier": tier,
        "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
    }
    if tier_name:
        spec["tierName"] = tier_name
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": metadata(name),
        "spec": spec,
    }


def tree(**tier_names: str) -> list[Manifest]:
    """Leaves s0 to s3 of tier 1, spines s4 and s5 of tier 2, and s6 of tier 3."""
    return [
        *(hypernode(name, 1, members, tier_name=tier_names.get("leaf", "")) for name, members in LEAVES.items()),
        *(hypernode(name, 2, members, "HyperNode", tier_names.get("spine", "")) for name, members in SPINES.items()),
        hypernode("s6", 3, SPINES, "HyperNode"),
    ]  # fmt: skip


def nodes(cpu: int = 8, count: int = 8) -> list[Manifest]:
    return [node(f"n{i}", cpu=cpu, memory="64Gi") for i in range(count)]


def filler(name: str, cpu: int | str) -> list[Manifest]:
    """A running pod of no job that takes cpu on a node."""
    return [pod(f"filler-{name}", cpu=cpu, node=name, scheduler="other")] if cpu else []


def used(amounts: Mapping[str, int]) -> list[Manifest]:
    return [found for name, cpu in amounts.items() for found in filler(name, cpu)]


def topology(mode: str = "hard", tier: int | None = None, name: str = "") -> Manifest:
    found: Manifest = {"mode": mode}
    if tier is not None:
        found["highestTierAllowed"] = tier
    if name:
        found["highestTierName"] = name
    return found


def gang(name: str, replicas: int, cpu: int | None, wanted: Manifest | None, **options: Any) -> JobManifests:
    """A job that asks for a domain."""
    group = dict(options.pop("group", {}))
    if wanted is not None:
        group["networkTopology"] = wanted
    return job(name, replicas, cpu=cpu, group=group, **options)


def partitioned(
    name: str,
    partitions: int,
    size: int,
    cpu: int,
    *,
    own: Manifest | None = None,
    part: Manifest | None = None,
    min_groups: int = 0,
    min_available: int | None = None,
    on: Mapping[int, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "Inqueue",
) -> JobManifests:
    """A job of partitions, as the job controller makes it; `on` gives the nodes of pods that run."""
    policy: Manifest = {
        "name": "worker",
        "subGroupSize": size,
        "minSubGroups": min_groups,
        "labelSelector": {"matchLabels": {names.TASK_SPEC: "worker"}},
        "matchLabelKeys": [names.PARTITION_ID],
    }
    if part is not None:
        policy["networkTopology"] = part
    total = partitions * size
    spec: dict[str, Any] = {"subGroupPolicy": [policy]}
    if own is not None:
        spec["networkTopology"] = own
    group = podgroup(
        name,
        min_member=total if min_available is None else min_available,
        phase=phase,
        annotations=annotations,
        **spec,
    )
    pods = tuple(
        pod(
            f"{name}-{i}",
            cpu=cpu,
            group=name,
            role="worker",
            node=(on or {}).get(i, ""),
            labels={names.TASK_SPEC: "worker", names.PARTITION_ID: str(i // size)},
        )
        for i in range(total)
    )
    return JobManifests(group, pods)


def place(
    *jobs: JobManifests,
    used_cpu: Mapping[str, int] | None = None,
    hypernodes: Sequence[Manifest] | None = None,
    plugins: Sequence[Any] = PLUGINS,
    **options: Any,
) -> Result:
    """One cycle over the eight nodes."""
    options.setdefault("nodes", nodes())
    others = [*(tree() if hypernodes is None else hypernodes), *options.pop("others", ())]
    pods = [*used(used_cpu or {}), *options.pop("pods", ())]
    return schedule(jobs=jobs, plugins=plugins, others=others, pods=pods, **options)


def leaves(result: Result) -> set[str]:
    """Leaves that pods were bound to."""
    return {LEAF_OF[name] for name in result.bound().values()}


def spines(result: Result) -> set[str]:
    return {SPINE_OF[leaf] for leaf in leaves(result)}
