"""Clusters whose documents are compared with golden ones, and the commands that are asked there."""

from typing import Any

from tests.builders import (
    START,
    JobManifests,
    job,
    metadata,
    node,
    pod,
    podgroup,
    priority_class,
    queue,
    resources,
)
from tests.cli import fair_shares, test_plan_screens, test_screens
from tests.cli.explain import test_explain, test_explain_screens
from tests.cli.golden.world import World, filled
from tests.cluster import SmallCluster
from tests.dra import claim, claiming, gpu_class, gpus
from tests.scheduler.plugins.deviceshare.cards import ask, gpu_node
from tests.scheduler.plugins.reservation.test_windows import window
from tests.scheduler.topology import clusters as topology
from volcano.base.clock import timestamp
from volcano.kube.api import kinds, names
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.engine.config import PRESETS, shipped

HOUR = 3600.0
# Reclaims by the amounts that queues deserve, in a tree of queues.
CAPACITY_CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
"""
TOPOLOGY_CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}, {name: network-topology-aware}]
"""
DEVICES_CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: proportion
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true}
"""


def batch_job(name: str, phase: str, *, scheduler: str = names.SCHEDULER_NAME, message: str = "") -> Manifest:
    """A Job without a PodGroup."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    task = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    state = {"phase": phase, **({"message": message} if message else {})}
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": metadata(name, "default"),
        "spec": {"schedulerName": scheduler, "queue": "default", "minAvailable": 2, "tasks": [task]},
        "status": {"state": state},
    }


def happened(name: str, kind: str, about: str, reason: str, message: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": kind, "namespace": "default", "name": about},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": 1,
        "lastTimestamp": timestamp(START - 60),
    }


# -- worlds -------------------------------------------------------------------------------------------


CAMPUS = World(
    test_explain_screens.fill,
    {
        "job-waits-for-capacity": "explain job large -v nodes -v scores -v victims -v plugins",
        "job-second-of-its-queue": "explain job second -v victims",
        "job-larger-than-the-nodes": "explain job never -v nodes",
        "job-behind-a-capability": "explain job behind -v plugins",
        "job-runs": "explain job train",
        "job-runs-in-a-full-queue": "explain job holder -v nodes",
        "job-few-reruns": "explain job large --reruns 3",
        "job-in-a-past-cycle": "explain job large --cycle 1",
        "job-that-preempted-in-a-past-cycle": "explain job urgent --cycle 2",
        "pod-runs": "explain pod train-worker-0",
        "pod-runs-all-scores": "explain pod holder-worker-1 -v scores",
        "pod-waits": "explain pod large-worker-0 -v nodes",
        "pod-behind-a-capability": "explain pod behind-worker-0",
        "pod-was-preempted": "explain pod old-worker-3",
        "pod-in-a-past-cycle": "explain pod old-worker-3 --cycle 2",
        "queue-over-its-share": "explain queue research",
        "queue-at-its-capability": "explain queue teaching",
        "queue-idle": "explain queue default",
        "queue-in-a-past-cycle": "explain queue research --cycle 1",
        "node-full-of-gpus": "explain node gpu-1",
        "node-without-gpus": "explain node cpu-0",
        "node-cordoned": "explain node old-0",
        "cluster": "explain cluster",
        "cluster-in-a-past-cycle": "explain cluster --cycle 1",
        "cycles": "explain cycle",
        "cycle": "explain cycle 1",
        "cycle-that-preempted": "explain cycle 2",
        "campus-queue-tree": "queue tree",
        "campus-top": "top --once",
    },
    history=test_explain_screens.history,
)
RESTRICTED = World(
    test_explain_screens.fill,
    {
        "job-waits-seen-from-its-namespace": "explain job large",
        "job-runs-seen-from-its-namespace": "explain job train",
        "pod-runs-seen-from-its-namespace": "explain pod train-worker-0",
        "pod-waits-seen-from-its-namespace": "explain pod large-worker-0",
    },
    client=test_explain.NamespaceOnly,
)
SCORED = World(
    filled(),
    {
        "pod-in-a-past-cycle-with-scores": "explain pod gang-worker-0 --cycle 1 -v scores",
        "pod-in-a-past-cycle-with-scores-of-another": "explain pod gang-worker-2 --cycle 1 -v scores",
    },
    history=test_explain.scored,
)

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}
IN_ZONE_9 = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z9"]}]}]
        }
    }
}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def _with_port(port: int) -> dict[str, Any]:
    amounts = {"requests": {"cpu": "1"}}
    ports = [{"containerPort": port, "hostPort": port}]
    return {"containers": [{"name": "main", "image": "busybox", "resources": amounts, "ports": ports}]}


def _not_ready(name: str) -> Manifest:
    found = node(name)
    found["status"] |= NOT_READY
    return found


CONSTRAINTS = World(
    filled(
        priority_class("high", 1000),
        node("n0", 4, labels={"zone": "z0"}),
        node("n1", 4, labels={"zone": "z1"}, taints=[TAINT]),
        _not_ready("n2"),
        node("n3", 16, labels={"zone": "z1"}, taints=[TAINT]),
        queue("default"),
        queue("closed", state="Closed"),
        queue("small", capability=resources(cpu=2)),
        job("busy", 2, on=["n0", "n0"], phase="Running"),
        job("elastic", 4, min_available=1, on=["n0"], phase="Running"),
        job("selector", 2, spec={"nodeSelector": {"disk": "ssd"}}),
        job("tainted", 1, cpu=3),
        job("affinity", 1, spec={"affinity": IN_ZONE_9}),
        job("apart", 3, cpu="100m", labels={"app": "web"}, spec={"affinity": APART}),
        job("port", 2, spec=_with_port(8080)),
        job("gated", 1, gates=["example.com/wait"]),
        JobManifests(podgroup("few", min_member=3), (pod("few-0", group="few"),)),
        job("lost", 1, queue="absent"),
        job("shut", 1, queue="closed"),
        job("oversized", 3, queue="small", phase="Pending", min_resources=resources(cpu=3)),
        job("awaited", 0, min_available=2, phase="Pending", min_resources=resources(cpu=2)),
        job("urgent", 1, cpu=2, priority_class="high"),
        job("mixed", 1, cpu="500m", memory="64Gi"),
        JobManifests(podgroup("done", phase="Completed"), (pod("done-0", group="done", phase="Succeeded"),)),
        batch_job("ended", "Completed"),
        batch_job("broken", "Failed", message="the job failed too often: maxRetry 3"),
        batch_job("foreign", "Pending", scheduler="other"),
        pod("guest", 1, node="n0", scheduler="other"),
        happened("moved.1", "Pod", "moved", "Evict", "evicted for default/urgent"),
        happened("selector.1", "PodGroup", "selector", "Unschedulable", "2/2 tasks in gang unschedulable"),
    ),
    {
        "job-gang-partially-placed": "explain job elastic",
        "job-impossible-selector": "explain job selector -v nodes -v plugins",
        "job-taint-not-tolerated": "explain job tainted -v nodes",
        "job-impossible-affinity": "explain job affinity",
        "job-anti-affinity": "explain job apart",
        "job-host-port": "explain job port",
        "job-gated": "explain job gated",
        "job-with-too-few-pods": "explain job few",
        "job-of-an-absent-queue": "explain job lost",
        "job-of-a-closed-queue": "explain job shut",
        "job-not-admitted": "explain job oversized -v plugins",
        "job-whose-pods-are-to-come": "explain job awaited",
        "job-of-high-priority": "explain job urgent -v victims",
        "job-larger-than-memory": "explain job mixed",
        "job-finished": "explain job done",
        "job-completed": "explain job ended",
        "job-failed": "explain job broken",
        "job-of-another-scheduler": "explain job foreign",
        "pod-runs-in-a-gang": "explain pod elastic-worker-0 -v scores",
        "pod-of-another-scheduler": "explain pod guest",
        "pod-evicted-by-its-event": "explain pod moved",
        "pod-of-an-absent-queue": "explain pod lost-worker-0",
        "pod-gated": "explain pod gated-worker-0",
        "queue-closed": "explain queue closed",
        "queue-with-a-rejected-job": "explain queue small",
        "node-tainted": "explain node n1",
        "node-not-ready": "explain node n2",
        "node-with-another-scheduler": "explain node n0",
        "cluster-with-many-reasons": "explain cluster",
    },
)

SHARES = World(
    filled(
        node("n0", 8, "16Gi"),
        node("n1", 8, "16Gi"),
        queue("root"),
        queue("default"),
        queue("lab", 2, parent="root", deserved=resources(cpu=10, memory="20Gi")),
        queue("vision", parent="lab", deserved=resources(cpu=4, memory="8Gi")),
        queue("speech", 3, parent="lab", deserved=resources(cpu=6), guarantee=resources(cpu=2)),
        queue("guests", parent="root", deserved=resources(cpu=4), capability=resources(cpu=12)),
        queue("fixed", parent="root", deserved=resources(cpu=2), reclaimable=False),
        job("sees", 2, queue="vision", cpu=3, on=["n0", "n1"], phase="Running"),
        job("visit", 9, min_available=1, queue="guests", on=[*["n0"] * 4, *["n1"] * 5], phase="Running"),
        job("kept", 1, queue="fixed", on=["n0"], phase="Running"),
        job("talks", 2, queue="speech", cpu=2),
        job("more", 1, queue="guests", cpu=4),
        job("inner", 1, queue="lab"),
        conf=CAPACITY_CONF,
    ),
    {
        "job-reclaims": "explain job talks -v victims -v plugins",
        "job-over-the-capability-of-its-queue": "explain job more",
        "job-of-a-parent-queue": "explain job inner",
        "queue-parent": "explain queue lab",
        "queue-borrows": "explain queue vision",
        "queue-lends-with-guarantee": "explain queue speech",
        "queue-borrows-with-capability": "explain queue guests",
        "queue-not-reclaimable": "explain queue fixed",
        "queue-root": "explain queue root",
        "shares-cluster": "explain cluster",
        "shares-queue-tree": "queue tree",
        "shares-top": "top --once",
    },
)
WEIGHTS = World(
    filled(
        node("n0", 6, "16Gi"),
        node("n1", 6, "16Gi"),
        queue("default"),
        queue("heavy", 3),
        queue("light", 1),
        queue("modest", 4, guarantee=resources(cpu=1)),
        job("borrows", 10, min_available=1, queue="light", on=[*["n0"] * 5, *["n1"] * 5], phase="Running"),
        job("small", 1, queue="modest", cpu=1, on=["n0"], phase="Running"),
        job("claims", 4, queue="heavy", cpu=2),
        job("wants", 2, queue="light", cpu=1),
        conf=shipped(PRESETS["preempt"]),
    ),
    {
        "job-reclaims-by-weight": "explain job claims -v victims",
        "job-of-an-overused-queue": "explain job wants",
        "queue-below-its-share": "explain queue modest",
        "queue-above-its-share": "explain queue light",
        "queue-that-reclaims": "explain queue heavy",
        "weights-queue-tree": "queue tree",
    },
)
PREEMPTING = World(
    filled(
        priority_class("low", 1),
        priority_class("high", 1000),
        node("n0", 4),
        node("n1", 4),
        queue("default"),
        job("cheap", 4, min_available=1, on="n0", phase="Running", priority_class="low", preemptable=True),
        job("bound", 4, min_available=1, on="n1", phase="Running", priority_class="low", preemptable=False),
        job("urgent", 2, cpu=1, priority_class="high"),
        job("late", 1, cpu=1, priority_class="low"),
        job("never", 1, cpu=3, priority_class="high"),
        conf=shipped(PRESETS["preempt"]),
        deleted=("cheap-worker-0",),
    ),
    {
        "job-preempts": "explain job urgent -v victims -v nodes",
        "job-behind-a-preemptor": "explain job late",
        "pod-that-is-deleted": "explain pod cheap-worker-0",
        "pod-that-preempts": "explain pod urgent-worker-0 -v victims",
        "node-that-releases": "explain node n0",
    },
)

RACKS = World(
    filled(
        *topology.nodes(cpu=4),
        *topology.tree(leaf="rack", spine="spine"),
        queue("default"),
        job("holder", 8, cpu=2, on=[f"n{i}" for i in range(8)], phase="Running"),
        topology.gang("rack", 5, 2, topology.topology(tier=1)),
        topology.gang("spine", 4, 2, topology.topology(tier=2)),
        topology.gang("soft", 2, 2, topology.topology("soft")),
        topology.gang("wrong", 2, 2, topology.topology(name="block")),
        topology.partitioned("parts", 2, 3, 2, own=topology.topology(tier=2), part=topology.topology(tier=1)),
        pod("waits", 1),
        conf=TOPOLOGY_CONF,
    ),
    {
        "job-topology-full": "explain job rack -v scores",
        "job-topology-starts": "explain job spine",
        "job-topology-soft": "explain job soft",
        "job-topology-of-an-unknown-tier": "explain job wrong",
        "job-topology-of-partitions": "explain job parts",
        "topology": "topology --pod cpu=2",
        "topology-nodes": "topology --nodes",
    },
)
DEVICES = World(
    filled(
        gpu_node("g0"),
        node("n0", 8, gpu=2),
        queue("default"),
        job("shares", 1, cpu="10m", **ask(1, memory=4000)),
        job("greedy", 1, cpu="10m", **ask(1, memory=40000)),
        job("many", 2, cpu="10m", gpu=2),
        gpu_class(),
        gpus("n0", 1),
        claim("held"),
        job("claims", 2, **claiming("held")),
        conf=DEVICES_CONF,
    ),
    {
        "job-shares-a-gpu": "explain job shares",
        "job-asks-for-too-much-gpu-memory": "explain job greedy -v nodes",
        "job-asks-for-gpus": "explain job many -v plugins",
        "job-with-resource-claims": "explain job claims",
        "node-with-shared-gpus": "explain node g0",
    },
)
TWO_HOURS = {"annotations": {names.WALLTIME: "2h"}}
STARTED = {"startTime": timestamp(START - HOUR)}
RESERVED = World(
    filled(
        node("n1", 4),
        node("n2", 4),
        queue("default"),
        window(-1, 1, reason="new kernel"),
        job("long", 4, on="n2", phase="Running", group=TWO_HOURS, status=STARTED),
        job("short", 1, cpu=1, group={"annotations": {names.WALLTIME: "10m"}}),
        conf=shipped(PRESETS["reservation"]),
    ),
    {
        "job-beside-a-reservation": "explain job short",
        "node-reserved": "explain node n1",
        "reservations": "reservation list",
    },
)
WALLTIMES = World(
    filled(
        node("n1", 4),
        node("n2", 4),
        queue("default"),
        job("long", 4, on="n2", phase="Running", group=TWO_HOURS, status=STARTED),
        job("wide", 2, cpu=4, group=TWO_HOURS),
        job("after", 2, cpu=3, group=TWO_HOURS),
        conf=shipped(PRESETS["reservation"]),
    ),
    {
        "job-waits-for-a-walltime": "explain job wide",
        "job-that-may-start-before": "explain job after",
        "walltimes-cluster": "explain cluster",
    },
)


async def _fill_fair_shares(cluster: SmallCluster) -> None:
    await test_screens.fill(cluster)
    client = cluster.client = fair_shares.RecordingClient(cluster.registry)
    client.now = cluster.clock.now().wall
    await fair_shares.configure(client)


FAIR_SHARES = World(
    _fill_fair_shares,
    {
        "priorities": "priority",
        "fair-shares": "fairshare",
        "job-by-fair-share": "explain job bob-1 -v plugins",
    },
    client=lambda client, history: client,
)
LISTS = World(
    test_screens.fill,
    {
        "lists-job-list": "job list",
        "lists-job-starts": "job list --start",
        "lists-job-describe-runs": "job describe train",
        "lists-job-describe-waits": "job describe large",
        "lists-job-describe-failed": "job describe broken-preprocessing",
        "lists-queue-list": "queue list",
        "lists-queue-get": "queue get research",
        "lists-queue-tree": "queue tree",
        "lists-podgroup-list": "podgroup list",
        "lists-podgroup-describe": "podgroup describe large",
        "lists-pod-list": "pod list",
        "lists-top": "top --once",
        "lists-topology": "topology --pod nvidia.com/gpu=4",
        "lists-job-waits": "explain job large",
        "lists-job-failed": "explain job broken-preprocessing",
    },
)
PLANS = World(
    test_plan_screens.fill,
    {
        "plan-fits": "plan -f plan-fits.yaml",
        "plan-waits": "plan -f plan-waits.yaml",
        "plan-evicts": "plan -f plan-evicts.yaml --allow-preempt",
        "plan-may-not-evict": "plan -f plan-may-not-evict.yaml",
        "plan-by-another-configuration": "plan -f plan-waits.yaml --scheduler-conf default",
    },
    files={
        f"{name}.yaml": test_plan_screens.manifest(**options)
        for name, (options, _, _) in test_plan_screens.CASES.items()
    },
)
WORLDS = {
    "campus": CAMPUS,
    "restricted": RESTRICTED,
    "scored": SCORED,
    "constraints": CONSTRAINTS,
    "shares": SHARES,
    "weights": WEIGHTS,
    "preempting": PREEMPTING,
    "racks": RACKS,
    "devices": DEVICES,
    "reserved": RESERVED,
    "walltimes": WALLTIMES,
    "fair-shares": FAIR_SHARES,
    "lists": LISTS,
    "plans": PLANS,
}
# On a database of runs.
ACCOUNTING = {
    "usage": "usage",
    "usage-by-user": "usage --by user,gpu-type --from 2027-01-01",
    "usage-by-day": "usage --by queue --period day --from 4d",
    "usage-with-prices": "usage --by queue --prices prices.yaml",
    "usage-of-a-user": "usage --by job --for-user jane -n team",
    "job-list-history": "job list --history -n team",
    "job-list-history-everywhere": "job list --history -A",
    "job-show": "job show train -n team",
    "job-show-deleted": "job show pretrain -n team",
    "job-view-deleted": "job view pretrain -n team",
}
