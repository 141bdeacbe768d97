"""Kubernetes' own workloads on simulated nodes, as a small world."""

from collections.abc import Sequence
from typing import Any

from tests.cluster import SmallCluster
from tests.controllers.world import World, pod_gone
from volcano.controllers.kubernetes.daemonset import DaemonSetController
from volcano.controllers.kubernetes.deployment import DeploymentController
from volcano.controllers.kubernetes.endpoints import EndpointsController
from volcano.controllers.kubernetes.job.controller import BatchJobController
from volcano.controllers.kubernetes.node_lifecycle import NodeLifecycleController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.kubernetes.statefulset import StatefulSetController
from volcano.controllers.kubernetes.volumes import VolumeController
from volcano.kube.api.kinds import (
    BATCH_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    STATEFUL_SET,
)
from volcano.kube.api.manifest import Manifest, controller_of, key_of
from volcano.kube.controllers.controller import Controller
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes

LABELS = {"app": "web"}


def _workload(n: int, **fields: Any) -> Manifest:
    container = {"name": "web", "image": f"web:{n % 2}"}
    template = {"metadata": {"labels": LABELS}, "spec": {"nodeName": "node-0", "containers": [container]}}
    return {"selector": {"matchLabels": LABELS}, "template": template, **fields}


async def _deployment(cluster: SmallCluster, n: int) -> None:
    await cluster.create(DEPLOYMENT, "web", spec=_workload(n, replicas=n % 4))


async def _rollout(cluster: SmallCluster, n: int) -> None:
    changed = {"replicas": n % 4, "template": _workload(n)["template"]}
    await cluster.patch(DEPLOYMENT, "web", {"spec": changed})


async def _stateful_set(cluster: SmallCluster, n: int) -> None:
    labels = {"app": "db"}
    wanted = _workload(n, replicas=n % 3, serviceName="db", selector={"matchLabels": labels})
    wanted["template"]["metadata"]["labels"] = labels
    await cluster.create(STATEFUL_SET, "db", spec=wanted)


async def _daemon_set(cluster: SmallCluster, n: int) -> None:
    labels = {"app": "agent"}
    wanted = _workload(n, selector={"matchLabels": labels})
    wanted["template"]["metadata"]["labels"] = labels
    del wanted["template"]["spec"]["nodeName"]
    await cluster.create(DAEMON_SET, "agent", spec=wanted)


async def _batch_job(cluster: SmallCluster, n: int) -> None:
    spec = {
        "restartPolicy": "Never",
        "nodeName": "node-0",
        "containers": [{"name": "c", "image": "i", "command": ["sleep", "3"]}],
    }
    wanted = {"completions": 1 + n % 3, "parallelism": 1 + n % 2, "template": {"spec": spec}}
    await cluster.create(BATCH_JOB, f"j{n % 2}", spec=wanted)


async def _service(cluster: SmallCluster, n: int) -> None:
    await cluster.create(SERVICE, "web", spec={"selector": LABELS, "ports": [{"port": 80}]})


async def _claim(cluster: SmallCluster, n: int) -> None:
    size = {"requests": {"storage": f"{1 + n % 2}Gi"}}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": ""}
    await cluster.create(PERSISTENT_VOLUME_CLAIM, f"data{n % 2}", spec=wanted)


async def _tainted(cluster: SmallCluster, n: int) -> None:
    await cluster.patch(NODE, f"node-{n % 2}", {"spec": {"unschedulable": n % 3 == 0}})


async def _workloads_seen(cluster: SmallCluster) -> Any:
    def counts(manifest: Manifest) -> Any:
        status = manifest.get("status") or {}
        return {k: v for k, v in status.items() if isinstance(v, int) and k != "observedGeneration"}

    kinds = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, BATCH_JOB)
    workloads = [[(key_of(m), counts(m)) for m in await cluster.all(kind)] for kind in kinds]
    slices = [len(s.get("endpoints") or ()) for s in await cluster.all(ENDPOINT_SLICE)]
    pods: dict[str, int] = {}
    for made in await cluster.all(POD):
        owner = controller_of(made)
        place = (
            f"{owner and owner['kind']} {made['status']['phase']} {made['spec']['containers'][0]['image']}"
        )
        pods[place] = pods.get(place, 0) + 1
    claims = [
        (c["metadata"]["name"], c["status"].get("phase")) for c in await cluster.all(PERSISTENT_VOLUME_CLAIM)
    ]
    nodes = [(n["metadata"]["name"], n["spec"].get("taints")) for n in await cluster.all(NODE)]
    return (
        workloads,
        slices,
        pods,
        claims,
        [(name, [t["key"] for t in taints or ()]) for name, taints in nodes],
    )


def simulated() -> Sequence[Controller]:
    return (SimulatedNodes(nodes_of(parse_pools([2], []))),)


WORKLOADS = World(
    "workloads",
    lambda: (
        DeploymentController(),
        ReplicaSetController(),
        StatefulSetController(),
        DaemonSetController(),
        BatchJobController(),
        EndpointsController(),
        VolumeController(),
        NodeLifecycleController(),
    ),
    (
        _deployment,
        _rollout,
        _stateful_set,
        _daemon_set,
        _batch_job,
        _service,
        pod_gone,
        _claim,
        _tainted,
    ),
    _workloads_seen,
    tale=((5, 0), (0, 3), (6, 1), (1, 2), (4, 1), (2, 2), (6, 0), (7, 1), (3, 0), (8, 3), (8, 1)),
    beside=simulated,
    seconds=2,
)
