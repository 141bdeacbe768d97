"""A cluster whose scheduler uses `fairshare`, for tests of `vcctl priority` and `vcctl fairshare`."""

import orjson

from volcano.accounting.api import DecayedEntry, DecayedUsage, decayed_manifest
from volcano.apiserver.direct import DirectClient
from volcano.base.http.messages import Response
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Key

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: fairshare
    arguments: {fairshare.halfLife: 24h, fairshare.weight.size: 100}
"""
HOUR = 3600.0
USED = {("research", "alice"): 300.0, ("research", "bob"): 100.0, ("teaching", "carol"): 50.0}  # core hours


class RecordingClient(DirectClient):
    """A client whose server has accounting, unless `recorded` is false."""

    recorded = True
    now = 0.0

    async def raw(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Response:
        if not self.recorded or "/decayedusage?halfLifeSeconds=86400" not in target:
            raise NotFound("the server could not find the requested resource")
        items = [DecayedEntry(*account, {"cpu": hours * HOUR}) for account, hours in USED.items()]
        return Response(200, {}, orjson.dumps(decayed_manifest(DecayedUsage(self.now, tuple(items)))))


async def configure(client: DirectClient, config: str = CONFIG) -> None:
    """Adds the scheduler's configuration, a PriorityClass, shares of users, and waiting jobs of three users."""
    await client.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}
    )
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    data = {"volcano-scheduler.conf": config}
    await client.create(
        CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 100,
    }
    await client.create(PRIORITY_CLASS, high)
    shares = {"metadata": {"annotations": {"volcano.sh/user-shares": "alice=3"}}}
    await client.patch(QUEUE, Key("", "research"), shares)
    for name, queue, user, priority in (
        ("alice-1", "research", "alice", ""),
        ("bob-1", "research", "bob", "high"),
        ("carol-1", "teaching", "carol", ""),
    ):
        spec = {"queue": queue, "minMember": 1, "minResources": {"cpu": "16"}}
        spec |= {"priorityClassName": priority} if priority else {}
        metadata = {"name": name, "namespace": "default"}
        group = {
            "apiVersion": POD_GROUP.api_version,
            "kind": "PodGroup",
            "metadata": {**metadata, "annotations": {"volcano.sh/user": user}},
            "spec": spec,
        }
        await client.create(POD_GROUP, group)
