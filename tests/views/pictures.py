"""Small clusters to look at: queues, nodes, jobs and pods as the server shows them."""

from collections.abc import Sequence
from typing import Any

from volcano.cli.top.screen import render
from volcano.cli.top.view import View
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.views.board import Board, Picture

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:50:00Z"  # ten minutes before NOW


def queue(name: str, *, parent: str = "root", weight: int = 1, state: str = "Open", **spec: Any) -> Manifest:
    allocated = spec.pop("allocated", {})
    return {
        "metadata": {"name": name},
        "spec": {"weight": weight, **({"parent": parent} if name != "root" else {}), **spec},
        "status": {"state": state, "allocated": allocated},
    }


def node(name: str, ready: str = "True", taints: Sequence[Manifest] = (), **allocatable: str) -> Manifest:
    return {
        "metadata": {"name": name, "creationTimestamp": CREATED},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }


def job(name: str, queue_name: str = "default", phase: str = "Running", replicas: int = 2) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": CREATED},
        "spec": {"queue": queue_name, "minAvailable": 2, "tasks": [{"name": "worker", "replicas": replicas}]},
        "status": {"state": {"phase": phase}, "running": replicas if phase == "Running" else 0},
    }


def pod(of: str, index: int, cpu: str = "2", node_name: str = "n1", phase: str = "Running") -> Manifest:
    labels = {
        "volcano.sh/job-name": of,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": str(index),
    }
    return {
        "metadata": {
            "name": f"{of}-worker-{index}",
            "namespace": "team",
            "labels": labels,
            "creationTimestamp": CREATED,
        },
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": phase},
    }


def picture() -> Picture:
    waiting = {
        "metadata": {
            "name": "big-group",
            "namespace": "team",
            "ownerReferences": [{"uid": "big", "controller": True, "apiVersion": JOB.api_version, "kind": "Job"}],
        },
        "spec": {"queue": "vision"},
        "status": {"conditions": [{"type": "Unschedulable", "status": "True", "message": "not enough cpu"}]},
    }  # fmt: skip
    return Picture(
        queues=[
            queue("root", allocated={"cpu": "4"}),
            queue("default"),
            queue("research", weight=3, capability={"cpu": "12"}, guarantee={"resource": {"cpu": "2"}}),
            queue("vision", parent="research", allocated={"cpu": "4", "pods": "2"}),
        ],
        jobs=[job("train", "vision"), job("big", "vision", "Pending", 9), job("old", "default", "Completed")],
        groups=[waiting],
        pods=[pod("train", 1), pod("train", 0), pod("old", 0, phase="Succeeded")],
        nodes=[node("n1", cpu="8", memory="16Gi", pods="110"), node("n2", cpu="8", memory="16Gi")],
        now=NOW,
    )


def text_of(seen: Board, view: View, width: int = 110, height: int = 20) -> list[str]:
    return ["".join(text for text, _ in line) for line in render(seen, view, "https://host", width, height)]
