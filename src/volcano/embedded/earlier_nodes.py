"""Nodes of earlier starts of a cluster: those that are not started this time must not get pods.

Simulated nodes are only what was asked for, so they are deleted with the pods that run on them. Local nodes are marked
as not ready: they may be started again, with their labels, taints and volumes.
"""

from collections.abc import Collection

from volcano.base.clock import Clock, timestamp
from volcano.base.log import Log
from volcano.kube.api.errors import Conflict, NotFound
from volcano.kube.api.kinds import NODE, POD
from volcano.kube.api.manifest import Key, Manifest, has_ended, key_of, labels_of, uid_of
from volcano.kube.api.names import SIMULATED
from volcano.kube.client.protocol import Client, Options, Query

log = Log("local")

NOT_STARTED = "NodeNotStarted"
MESSAGE = "the last `volcano up` did not start this node"
_TAINT = "node.kubernetes.io/not-ready"
_RUNTIMES = "volcano-"  # how runtimes of local nodes begin


async def retire_nodes(client: Client, clock: Clock, started: Collection[str]) -> list[str]:
    """Retires all nodes that this program has made in earlier starts, but those that are started now; returns the names
    of the deleted ones."""
    deleted = []
    for node in (await client.list(NODE)).items:
        name = key_of(node).name
        if name in started:
            continue
        if labels_of(node).get(SIMULATED) == "true":
            await _delete(client, name)
            deleted.append(name)
        elif _runtime(node).startswith(_RUNTIMES):
            await _mark_not_ready(client, node, timestamp(clock.now().wall))
    if deleted:
        log.info("simulated nodes of earlier starts deleted", count=len(deleted))
    return deleted


async def _delete(client: Client, name: str) -> None:
    for pod in (await client.list(POD, Query(fields=f"spec.nodeName={name}"))).items:
        if has_ended(pod):
            continue
        try:
            await client.delete(POD, key_of(pod), options=Options(grace_seconds=0, uid=uid_of(pod)))
        except (NotFound, Conflict):
            continue
    try:
        await client.delete(NODE, Key("", name))
    except NotFound:
        return


async def _mark_not_ready(client: Client, node: Manifest, now: str) -> None:
    key = key_of(node)
    conditions = [
        {
            **condition,
            "status": "False" if condition["type"] == "Ready" else "Unknown",
            "reason": NOT_STARTED,
            "message": MESSAGE,
            "lastTransitionTime": now,
        }
        for condition in (node.get("status") or {}).get("conditions") or ()
    ]
    await client.patch(NODE, key, {"status": {"conditions": conditions}}, subresource="status")
    others = [taint for taint in node["spec"].get("taints") or () if taint["key"] != _TAINT]
    # The node lifecycle controller derives its taints from the conditions; the scheduler must not be faster.
    taints = [{"key": _TAINT, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")]
    await client.patch(NODE, key, {"spec": {"taints": [*others, *taints]}})
    log.info("local node of an earlier start marked as not ready", node=key.name)


def _runtime(node: Manifest) -> str:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("containerRuntimeVersion") or "")
