"""`vcctl topology`: prints the tree."""

import argparse
import asyncio

from volcano.cli import flags
from volcano.cli.errors import UsageError, near
from volcano.cli.printing.output import render
from volcano.cli.printing.tables import Column, Place
from volcano.cli.quantities import parse_resources
from volcano.cli.session import Session
from volcano.kube.api.kinds import HYPER_NODE, NODE, POD, POD_GROUP
from volcano.kube.api.manifest import Manifest
from volcano.services.errors import NotFoundError
from volcano.views.amounts import Amounts, amounts, short_name, shown
from volcano.views.topology import DomainUsage, TopologyUsage, rows, topology_usage

MOST_HOLDERS = 3


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "domain", nargs="?", default="", metavar="HYPERNODE", help="only this part of the tree"
    )
    parser.add_argument(
        "-r",
        "--resource",
        default="",
        metavar="NAME",
        help="resource to show (default: nvidia.com/gpu where there are any, otherwise cpu)",
    )
    parser.add_argument(
        "-p",
        "--pod",
        default="",
        metavar="SIZE",
        help="size of the pods of the largest gang, such as nvidia.com/gpu=8,cpu=16 (default: one of the resource)",
    )
    parser.add_argument("--nodes", action="store_true", help="list the nodes too")
    flags.add_data_output(parser, "json or yaml: the tree as nested data")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Prints the tree of HyperNodes, or one part of it."""
    pod = _size(arguments.pod)
    kinds = (HYPER_NODE, NODE, POD, POD_GROUP)
    hyper_nodes, nodes, pods, groups = (
        listing.items for listing in await asyncio.gather(*(session.client.list(kind) for kind in kinds))
    )
    usage = topology_usage(hyper_nodes, nodes, pods, groups, resource=arguments.resource, pod=pod)
    _check_resource(arguments.resource, usage)
    top = _part(usage.root, arguments.domain)
    if arguments.output:
        session.write(render(arguments.output, as_data(usage, top)))
        return 0
    if not hyper_nodes:
        session.warn("there are no HyperNodes; `volcano up --topology rack=8` or discovery creates them")
    drawn = list(rows(top, with_nodes=arguments.nodes, pod=usage.pod))
    columns = _columns(usage, {id(row): rails for rails, row in drawn}, session.namespace)
    session.table(columns, [row for _, row in drawn])
    for problem in sorted(usage.problems.values(), key=lambda problem: problem.hypernode):
        session.write(f"! {problem.hypernode}: {problem.reason}: {problem.message}")
    return 0


def _size(text: str) -> Amounts | None:
    size = {name: amount for name, amount in amounts(parse_resources(text, "--pod")).items() if amount > 0}
    if text and not size:
        raise UsageError(f"--pod: {text!r} requests nothing; write such as nvidia.com/gpu=8,cpu=16")
    return size or None


def _check_resource(resource: str, usage: TopologyUsage) -> None:
    known = {name for node in usage.root.nodes for name in node.allocatable}
    if resource and known and resource not in known:
        raise UsageError(f"--resource: no node has {resource!r}; there are {', '.join(sorted(known))}")


def _part(usage: DomainUsage, name: str) -> DomainUsage:
    if not name:
        return usage
    known: dict[str, DomainUsage] = {}
    pending = [usage]
    while pending:
        found = pending.pop()
        known[found.name] = found
        pending += found.children
    if name not in known:
        raise NotFoundError(f"there is no HyperNode {name!r} in the tree" + near(name, known))
    return known[name]


def _columns(usage: TopologyUsage, rails: dict[int, str], namespace: str) -> list[Column]:
    resource, word = usage.resource, short_name(usage.resource)
    size = ",".join(f"{short_name(name)}={shown(name, amount)}" for name, amount in usage.pod.items())
    return [
        Column("HyperNode", lambda row: rails[id(row)] + row.name),
        Column("Tier", lambda row: row.tier, spare=2),
        Column("Nodes", _nodes),
        Column(f"Used {word}", lambda row: shown(resource, row.used)),
        Column(f"Free {word}", lambda row: shown(resource, row.free)),
        Column(f"Gang of {size}", lambda row: str(row.gang)),
        Column("Holders", lambda row: ", ".join(row.holders), only_in=Place.FILE),
        Column("Holders", lambda row: _holders(row, namespace), sentence=True, only_in=Place.TERMINAL),
    ]


def _nodes(row: DomainUsage) -> str:
    return str(len(row.nodes)) if row.usable == len(row.nodes) else f"{row.usable}/{len(row.nodes)}"


def _holders(row: DomainUsage, namespace: str) -> str:
    """The first holders; those of the session's namespace by their name alone."""
    shown_ones = [holder.removeprefix(f"{namespace}/") for holder in row.holders[:MOST_HOLDERS]]
    if len(row.holders) > MOST_HOLDERS:
        shown_ones.append(f"and {len(row.holders) - MOST_HOLDERS} more")
    return ", ".join(shown_ones)


def as_data(usage: TopologyUsage, top: DomainUsage) -> Manifest:
    """The tree as nested data, with numbers instead of texts."""
    return {
        "resource": usage.resource,
        "pod": dict(usage.pod),
        "tree": _domain_data(top),
        "problems": [
            {"hyperNode": problem.hypernode, "reason": problem.reason, "message": problem.message}
            for problem in usage.problems.values()
        ],
    }


def _domain_data(row: DomainUsage) -> Manifest:
    tier, _, tier_name = row.tier.partition(" ")
    data: Manifest = {"name": row.name}
    if tier:
        data |= {"tier": int(tier), "tierName": tier_name}
    return data | {
        "nodes": [node.name for node in row.nodes],
        "usableNodes": row.usable,
        "used": row.used,
        "free": row.free,
        "largestGang": row.gang,
        "holders": list(row.holders),
        "children": list(map(_domain_data, row.children)),
    }
