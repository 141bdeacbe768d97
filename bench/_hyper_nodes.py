"""HyperNodes of the benchmarks."""

from typing import Any

from tests.builders import metadata
from volcano.kube.api.manifest import Manifest


def hyper_node(name: str, tier: int, kind: str, members: list[str]) -> Manifest:
    """A HyperNode with exact members."""
    listed: list[Any] = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": metadata(name),
        "spec": {"tier": tier, "members": listed},
    }
