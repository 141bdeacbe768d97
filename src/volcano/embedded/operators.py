"""Operators on a local cluster: their manifests are applied first, and workloads when the operators are available."""

import asyncio
from collections.abc import Iterable, Sequence

from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import Document, FileError
from volcano.kube.api.kinds import DEPLOYMENT
from volcano.kube.api.manifest import Key, Manifest, condition_of

AVAILABLE_WITHIN = 180.0
WEBHOOKS_WITHIN = 90.0  # an operator issues its certificates and stores them after it has started
POLL = 0.5
UNREACHABLE = "failed calling webhook"


async def apply_with_operators(
    cluster: LocalCluster, operators: Sequence[Document], documents: Sequence[Document]
) -> list[Manifest]:
    """Applies operators, waits until they are available, and applies the documents; returns the applied documents.

    Raises FileError if an object is rejected or an operator does not become available.
    """
    deployments = [one for one in await cluster.apply(operators) if one["kind"] == DEPLOYMENT.kind]
    if not documents:
        return []
    await _wait_available(cluster, deployments)
    deadline = cluster.clock.now().monotonic + (WEBHOOKS_WITHIN if operators else 0.0)
    applied: list[Manifest] = []
    while len(applied) < len(documents):
        try:
            applied += await cluster.apply([documents[len(applied)]])
        except FileError as error:
            if UNREACHABLE not in str(error) or cluster.clock.now().monotonic > deadline:
                raise
            await asyncio.sleep(POLL)
    return applied


async def _wait_available(cluster: LocalCluster, deployments: Iterable[Manifest]) -> None:
    deadline = cluster.clock.now().monotonic + AVAILABLE_WITHIN
    for deployment in deployments:
        metadata = deployment["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        while not _is_available(await cluster.client.get(DEPLOYMENT, key)):
            if cluster.clock.now().monotonic > deadline:
                raise FileError(
                    f"Deployment {key} is not available after {AVAILABLE_WITHIN:.0f} s; start a cluster that stays "
                    "(`volcano up --operator`), and look at the events and the log of its pods"
                )
            await asyncio.sleep(POLL)


def _is_available(deployment: Manifest) -> bool:
    found = condition_of(deployment, "Available")
    return found is not None and found.get("status") == "True"
