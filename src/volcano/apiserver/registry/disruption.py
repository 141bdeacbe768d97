"""Disruption budgets: covered pods, healthy pods and allowed disruptions."""

import orjson

from volcano.apiserver.interfaces import Lookup
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.storage.store import Store
from volcano.kube.api.kinds import POD, REPLICA_SET
from volcano.kube.api.manifest import Key, Manifest, controller_of
from volcano.kube.resources.disruption import Replicas, selector_of


def covered_pods(store: Store, budget: Manifest) -> list[Manifest]:
    """The pods that a budget covers; only those are decoded."""
    selector, pods = selector_of(budget), store.collection(POD.resource)
    records = (pods.records[key] for key in pods.range(budget["metadata"]["namespace"]))
    return [orjson.loads(record.data) for record in records if selector.matches(record.labels)]


def replicas_of_owner(lookup: Lookup, kinds: KindTable) -> Replicas:
    """Finds the controller of a pod, or the controller of that, and reads its replicas."""

    def find(pod: Manifest) -> tuple[str, int] | None:
        holder, found = pod, None
        while (owner := controller_of(holder)) is not None:
            served = kinds.by_manifest(owner["apiVersion"], owner["kind"])
            if served is None or "scale" not in served.kind.subresources:
                break
            namespace = pod["metadata"]["namespace"] if served.kind.namespaced else ""
            manifest = lookup.find(served.kind, Key(namespace, owner["name"]))
            if manifest is None or manifest["metadata"]["uid"] != owner["uid"]:
                break
            holder, found = manifest, (owner["uid"], (manifest.get("spec") or {}).get("replicas", 1))
            if served.storage.resource != REPLICA_SET.resource:
                break
        return found

    return find
