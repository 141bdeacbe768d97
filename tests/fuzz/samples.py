"""A valid object of every served kind, to start mutations from."""

import copy
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver import conformance
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

MANIFESTS = Path(__file__).parents[1] / "manifests"
NAMESPACE = "fuzz"
CONTAINER: Manifest = {
    "name": "c",
    "image": "i",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
}
POD_SPEC: Manifest = {"restartPolicy": "Never", "containers": [CONTAINER]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TASK: Manifest = {
    "name": "worker",
    "replicas": 2,
    "minAvailable": 1,
    "maxRetry": 3,
    "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
}
METADATA: Manifest = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
TARGET: Manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "u"}
OURS: dict[Kind, Manifest] = {
    kinds.JOB: {
        "spec": {
            "minAvailable": 1,
            "schedulerName": "volcano",
            "queue": "default",
            "ttlSecondsAfterFinished": 1,
            "plugins": {"svc": [], "ssh": ["--no-root"], "env": []},
            "policies": [{"events": ["TaskCompleted"], "action": "CompleteJob", "timeout": "10s"}],
            "volumes": [{"mountPath": "/v", "volumeClaim": CLAIM}],
            "tasks": [TASK, {**TASK, "name": "ps", "dependsOn": {"name": ["worker"], "iteration": "any"}}],
        }
    },
    kinds.CRON_JOB: {
        "spec": {
            "schedule": "*/5 * * * *",
            "concurrencyPolicy": "Forbid",
            "suspend": False,
            "jobTemplate": {"spec": {"tasks": [TASK]}},
        }
    },
    kinds.QUEUE: {
        "spec": {
            "weight": 1,
            "parent": "root",
            "reclaimable": True,
            "capability": {"cpu": "4"},
            "deserved": {"cpu": "2"},
            "guarantee": {"resource": {"cpu": "1"}},
        }
    },
    kinds.POD_GROUP: {
        "spec": {
            "minMember": 2,
            "queue": "default",
            "minResources": {"cpu": "1"},
            "minTaskMember": {"worker": 1},
            "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
        }
    },
    kinds.COMMAND: {"action": "AbortJob", "target": TARGET},
    kinds.JOB_FLOW: {
        "spec": {
            "jobRetainPolicy": "delete",
            "flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}],
        }
    },
    kinds.JOB_TEMPLATE: {"spec": {"tasks": [TASK]}},
    kinds.HYPER_NODE: {
        "spec": {
            "tier": 1,
            "members": [
                {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
                {"type": "Node", "selector": {"regexMatch": {"pattern": "n.*"}}},
            ],
        }
    },
    kinds.NUMATOPOLOGY: {
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "best-effort"},
            "resReserved": {"cpu": "1"},
            "numares": {"cpu": {"allocatable": "0-3", "capacity": 4}},
            "cpuDetail": {"0": {"numa": 0, "socket": 0, "core": 0}},
        }
    },
}
STATUS: dict[str, Manifest] = {
    "Pod": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"},
    "Node": {"capacity": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
    "Job": {"state": {"phase": "Running"}, "running": 1, "retryCount": 1, "version": 1, "minAvailable": 1},
    "PodGroup": {"phase": "Inqueue", "running": 1, "conditions": [{"type": "Unschedulable", "status": "True"}]},
    "Queue": {"state": "Open", "allocated": {"cpu": "1"}, "running": 1},
    "Deployment": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]},
    "PodDisruptionBudget": {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1},
}  # fmt: skip


def samples() -> list[Manifest]:
    """Valid objects: built-in kinds, documented manifests of ours, and full ones of ours."""
    found = conformance.minimal_manifests()
    for path in sorted(MANIFESTS.glob("*.yaml")):
        found += [m for m in yaml.safe_load_all(path.read_text()) if "volcano.sh" in m["apiVersion"]]
    for kind, fields in OURS.items():
        found.append({"apiVersion": kind.api_version, "kind": kind.kind, **copy.deepcopy(fields)})
    return [_prepared(manifest) for manifest in found]


def _prepared(manifest: Manifest) -> Manifest:
    metadata: dict[str, Any] = {**copy.deepcopy(METADATA), **(manifest.get("metadata") or {})}
    metadata.pop("namespace", None)
    prepared: Manifest = {**manifest, "metadata": metadata}
    if manifest["kind"] in STATUS:
        prepared.setdefault("status", copy.deepcopy(STATUS[manifest["kind"]]))
    return prepared
