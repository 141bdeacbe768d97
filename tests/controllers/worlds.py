"""The small worlds: controllers, what may befall them, and what of the outcome matters."""

import contextlib
from itertools import count
from typing import Any

import yaml

from tests.cluster import SmallCluster
from tests.controllers.test_cronjob import finish
from tests.controllers.test_cronjob import spec as cron_spec
from tests.controllers.test_jobflow import SPEC
from tests.controllers.test_podgroup import GROUP, pod
from tests.controllers.workloads import WORKLOADS
from tests.controllers.world import World, pod_gone
from volcano.controllers.cronjob import CronJobController
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.controllers.jobflow import JobFlowController, JobTemplateController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.podgroup import PodGroupController
from volcano.controllers.queue import CLOSED_BY_PARENT, QueueController
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    CRON_JOB,
    HYPER_NODE,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
)
from volcano.kube.api.manifest import Manifest, annotations_of, controller_of, labels_of, uid_of

# Queues: three of them, one below another.

PARENTS = {"q0": "root", "q1": "q0", "q2": "q1"}


async def _queue(cluster: SmallCluster, n: int) -> None:
    name = f"q{n % 3}"
    await cluster.create(QUEUE, name, spec={"parent": PARENTS[name]})


async def _command(cluster: SmallCluster, n: int) -> None:
    action, name = ("CloseQueue", "OpenQueue")[n % 2], f"q{n // 2 % 3}"
    target = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "name": name}
    target["uid"] = uid_of(await cluster.get(QUEUE, name))
    await cluster.create(COMMAND, f"c{cluster.registry.store.version}", action=action, target=target)


async def _group(cluster: SmallCluster, n: int) -> None:
    phase = ("Pending", "Running", "Completed", "Unknown")[n % 4]
    group = {"queue": f"q{n // 4 % 3}", "minMember": 1}
    await cluster.create(POD_GROUP, f"g{n % 5}", spec=group, status={"phase": phase})


async def _group_done(cluster: SmallCluster, n: int) -> None:
    await cluster.patch(POD_GROUP, f"g{n % 5}", {"status": {"phase": "Completed"}})


async def _group_gone(cluster: SmallCluster, n: int) -> None:
    await cluster.delete(POD_GROUP, f"g{n % 5}")


async def _queue_gone(cluster: SmallCluster, n: int) -> None:
    await cluster.delete(QUEUE, f"q{n % 3}")


async def _queues_seen(cluster: SmallCluster) -> Any:
    queues = {
        q["metadata"]["name"]: (q.get("status"), annotations_of(q).get(CLOSED_BY_PARENT), q["spec"]["parent"])
        for q in await cluster.all(QUEUE)
        if q["metadata"]["name"] != "root"
    }
    return queues, await cluster.names(COMMAND)


# PodGroups: bare pods and ReplicaSets.


def _replicas(n: int) -> Manifest:
    labels = {"app": f"w{n % 2}"}
    template = {"metadata": {"labels": labels}, "spec": pod()}
    return {"replicas": n % 3, "selector": {"matchLabels": labels}, "template": template}


async def _bare_pod(cluster: SmallCluster, n: int) -> None:
    await cluster.create(POD, f"p{n % 3}", spec=pod())


async def _replica_set(cluster: SmallCluster, n: int) -> None:
    await cluster.create(REPLICA_SET, f"w{n % 2}", spec=_replicas(n))


async def _scale(cluster: SmallCluster, n: int) -> None:
    await cluster.patch(REPLICA_SET, f"w{n % 2}", {"spec": {"replicas": n % 4}})


async def _size(cluster: SmallCluster, n: int) -> None:
    notes = {"scheduling.volcano.sh/group-min-member": str(n), "volcano.sh/zone": str(n)}
    await cluster.patch(REPLICA_SET, f"w{n % 2}", {"metadata": {"annotations": notes}})


async def _groups_seen(cluster: SmallCluster) -> Any:
    pods = await cluster.all(POD)
    seen = []
    for group in await cluster.all(POD_GROUP):
        owner = controller_of(group)
        members = [p for p in pods if annotations_of(p).get(GROUP) == group["metadata"]["name"]]
        seen.append((owner and owner["name"], group["spec"], annotations_of(group), len(members)))
    return sorted(seen, key=repr), sorted(bool(annotations_of(p).get(GROUP)) for p in pods)


# CronJobs, with time.


async def _cron(cluster: SmallCluster, n: int) -> None:
    policy = ("Allow", "Forbid", "Replace")[n % 3]
    limits: Any = {"successfulJobsHistoryLimit": n % 2, "failedJobsHistoryLimit": n % 3}
    await cluster.create(CRON_JOB, f"c{n % 2}", spec=cron_spec(concurrencyPolicy=policy, **limits))


async def _ended(cluster: SmallCluster, n: int) -> None:
    names = await cluster.names(JOB)
    if names:
        await finish(cluster, names[n % len(names)], ("Completed", "Failed", "Terminated")[n % 3])


async def _suspend(cluster: SmallCluster, n: int) -> None:
    await cluster.patch(CRON_JOB, f"c{n % 2}", {"spec": {"suspend": n % 3 == 0}})


async def _nothing(cluster: SmallCluster, n: int) -> None:
    await cluster.rest()


async def _crons_seen(cluster: SmallCluster) -> Any:
    seen = []
    for cron_job in await cluster.all(CRON_JOB):
        status = cron_job.get("status") or {}
        active = [reference["name"] for reference in status.get("active") or ()]
        seen.append((active, status.get("lastScheduleTime"), status.get("lastSuccessfulTime")))
    return seen, await cluster.names(JOB)


# JobFlows and their templates.


async def _template(cluster: SmallCluster, n: int) -> None:
    await cluster.create(JOB_TEMPLATE, "abc"[n % 3], spec=SPEC)


async def _flow(cluster: SmallCluster, n: int) -> None:
    flows = [
        {"name": "a"},
        {"name": "b", "dependsOn": {"targets": ["a"]}},
        {"name": "c", "dependsOn": {"targets": ["a", "b"]}},
    ]
    policy = {"jobRetainPolicy": "delete"} if n % 3 == 0 else {}
    await cluster.create(JOB_FLOW, f"f{n % 2}", spec={"flows": flows[: 1 + n % 3], **policy})


async def _job_phase(cluster: SmallCluster, n: int) -> None:
    names = await cluster.names(JOB)
    if names:
        phase = ("Running", "Completed", "Completed", "Failed", "Aborted")[n % 5]
        state = {"status": {"state": {"phase": phase}, "retryCount": n % 2}}
        await cluster.patch(JOB, names[n % len(names)], state, "status")


async def _job_gone(cluster: SmallCluster, n: int) -> None:
    names = await cluster.names(JOB)
    if names:
        await cluster.delete(JOB, names[n % len(names)])


async def _flow_gone(cluster: SmallCluster, n: int) -> None:
    await cluster.delete(JOB_FLOW, f"f{n % 2}")


async def _flows_seen(cluster: SmallCluster) -> Any:
    flows = [(f["metadata"]["name"], f.get("status")) for f in await cluster.all(JOB_FLOW)]
    used = [(t["metadata"]["name"], t.get("status")) for t in await cluster.all(JOB_TEMPLATE)]
    return flows, used, await cluster.names(JOB)


# HyperNodes found by labels.


def hyper_node_controller() -> HyperNodeController:
    numbers = count(1)
    # Every instance draws other names, as randomness would.
    instance = next(_INSTANCES)
    return HyperNodeController(lambda: f"{instance:03d}{next(numbers):03d}")


_INSTANCES = count(1)


async def _node(cluster: SmallCluster, n: int) -> None:
    labels = {"rack": f"r{n % 3}", "spine": f"s{n % 3 % 2}"}
    await cluster.create(NODE, f"n{n % 5}", metadata={"labels": labels}, spec={})


async def _relabel(cluster: SmallCluster, n: int) -> None:
    labels = {"rack": f"r{n % 2}", "spine": f"s{n % 2}"}  # a rack is in one spine
    await cluster.patch(NODE, f"n{n % 5}", {"metadata": {"labels": labels}})


async def _node_gone(cluster: SmallCluster, n: int) -> None:
    await cluster.delete(NODE, f"n{n % 5}")


async def _discovery(cluster: SmallCluster, n: int) -> None:
    levels = [{"nodeLabel": "spine"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    source = {"source": "label", "enabled": n % 4 != 0, "config": {"networkTopologyTypes": {"fab": levels}}}
    data = {"volcano-controller.conf": yaml.safe_dump({"networkTopologyDiscovery": [source]})}
    name, namespace = "volcano-controller-configmap", "volcano-system"
    with contextlib.suppress(ApiError):
        await cluster.create(NAMESPACE, namespace)
    try:
        await cluster.create(CONFIG_MAP, name, namespace=namespace, data=data)
    except ApiError:
        await cluster.patch(CONFIG_MAP, name, {"data": data}, namespace=namespace)


async def _own_hyper_node(cluster: SmallCluster, n: int) -> None:
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": f"n[0-{n % 5}]"}}}
    await cluster.create(HYPER_NODE, f"own{n % 2}", spec={"tier": 1, "members": [member]})


async def _hyper_nodes_seen(cluster: SmallCluster) -> Any:
    """Drawn names are replaced by what the HyperNodes stand for."""
    found = await cluster.all(HYPER_NODE)
    meaning = {h["metadata"]["name"]: repr(sorted(labels_of(h).items())) for h in found if labels_of(h)}
    seen = []
    for h in found:
        name = h["metadata"]["name"]
        members = [
            m["selector"].get("exactMatch", m["selector"]).get("name", "") for m in h["spec"]["members"]
        ]
        stood = sorted(meaning.get(member, member) for member in members)
        seen.append((meaning.get(name, name), h["spec"]["tier"], stood, h.get("status")))
    return sorted(seen, key=repr)


WORLDS = [
    World(
        "queues",
        lambda: (QueueController(),),
        (_queue, _queue, _command, _command, _group, _group_done, _group_gone, _queue_gone),
        _queues_seen,
        tale=((4, 1), (2, 0), (6, 1), (2, 1), (2, 4), (2, 0), (2, 5), (2, 1), (7, 2)),
        first=((0, 0), (0, 1), (0, 2)),
    ),
    World(
        "pod groups",
        lambda: (PodGroupController(), ReplicaSetController()),
        (_bare_pod, _replica_set, _scale, _size, pod_gone),
        _groups_seen,
        tale=((0, 0), (1, 5), (3, 5), (2, 3), (4, 0), (2, 7), (3, 3)),
    ),
    World(
        "cron jobs",
        lambda: (CronJobController(),),
        (_cron, _cron, _ended, _suspend, _job_gone, _nothing),
        _crons_seen,
        tale=((0, 2), (0, 1), (5, 0), (2, 0), (5, 0), (2, 1), (5, 0), (3, 0), (4, 0)),
        seconds=40,
    ),
    World(
        "flows",
        lambda: (JobFlowController(), JobTemplateController()),
        (_template, _flow, _job_phase, _job_phase, _job_gone, _flow_gone),
        _flows_seen,
        tale=((0, 2), (2, 0), (2, 6), (4, 1), (2, 6), (2, 1), (2, 2), (1, 3), (2, 1)),
        first=((0, 0), (0, 1), (1, 2)),
    ),
    World(
        "hyper nodes",
        lambda: (hyper_node_controller(),),
        (_node, _node, _relabel, _node_gone, _discovery, _own_hyper_node),
        _hyper_nodes_seen,
        tale=((5, 4), (2, 2), (3, 1), (0, 6), (4, 0), (0, 1), (4, 1)),
        first=((0, 0), (0, 1), (0, 2), (4, 1)),
    ),
    WORKLOADS,
]
