"""Objects of small clusters."""

from collections.abc import Mapping, Sequence
from typing import Any

from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import Scopes
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest


def objects(now: float = 1000.0, **by_kind: Sequence[Manifest]) -> Objects:
    """Objects by the plural of their kind in upper case, such as NODE=[...]."""
    from volcano.kube.api import kinds

    found: Mapping[Kind, Sequence[Manifest]] = {getattr(kinds, name): each for name, each in by_kind.items()}
    return Objects(1, now, found, Scopes())


def queue(name: str, *, parent: str = "", weight: int = 1, allocated: Any = None, **spec: Any) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {"weight": weight, **({"parent": parent} if parent else {}), **spec},
        "status": {"state": "Open", "allocated": allocated or {}},
    }


def node(
    name: str,
    allocatable: Mapping[str, str],
    *,
    ready: bool = True,
    cordoned: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    return {
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(
    name: str,
    node: str,
    requests: Mapping[str, str],
    *,
    job: str = "",
    phase: str = "Running",
    annotations: Mapping[str, str] | None = None,
    owner: str = "Job",
    **spec: Any,
) -> Manifest:
    """A pod of namespace `team`."""
    references = [{"kind": owner, "apiVersion": "v1", "name": "owner", "uid": "1", "controller": True}]
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"volcano.sh/job-name": job} if job else {},
            "annotations": dict(annotations or {}),
            "ownerReferences": references if owner else [],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": dict(requests)}}],
            **spec,
        },
        "status": {"phase": phase},
    }


def hyper_node(name: str, tier: int, *nodes: str) -> Manifest:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": each}}} for each in nodes]
    return {"metadata": {"name": name}, "spec": {"tier": tier, "members": members}}
