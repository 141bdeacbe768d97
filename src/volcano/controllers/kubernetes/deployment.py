"""Deployment controller: one ReplicaSet per revision of the template, replaced by rolling update or
recreation."""

from collections.abc import Iterable
from types import MappingProxyType

from volcano.base.clock import Instant, parse_timestamp
from volcano.controllers.kubernetes.pods import (
    fingerprint,
    present_counts,
    scaled,
    status_patch,
    with_condition,
)
from volcano.kube.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    condition_of,
    has_ended,
    is_deleting,
    key_of,
    owner_reference,
    whole_number,
)
from volcano.kube.client.operations import Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Event, Watch
from volcano.kube.controllers.controller import ObjectReconciler, Plan, owner_keys

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"


class DeploymentController(ObjectReconciler):
    """Scales a Deployment's ReplicaSets as its strategy allows."""

    name = "deployment"
    kind, owns = DEPLOYMENT, (REPLICA_SET, POD)
    watches = (Watch(DEPLOYMENT), Watch(REPLICA_SET), Watch(POD))
    owner_kinds = MappingProxyType({POD: (REPLICA_SET,)})

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or bool(owner_keys(event.object, REPLICA_SET))

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind != POD:
            return super().keys(event)
        # Recreation waits until the old pods are deleted.
        sets = [self.indexer.get(REPLICA_SET, key) for key in owner_keys(event.object, REPLICA_SET)]
        return [key for owner in sets if owner is not None for key in owner_keys(owner, DEPLOYMENT)]

    def reconcile_object(self, deployment: Manifest, now: Instant) -> Plan:
        sets = self.indexer.owned(REPLICA_SET, deployment)
        newest = next((s for s in sets if _template(s) == _template(deployment)), None)
        old = [s for s in sets if s is not newest]
        operations: list[Operation] = []
        if newest is None and not deployment["spec"].get("paused"):
            operations.append(Create(REPLICA_SET, self._new_set(deployment, sets)))
        elif newest is not None:
            operations.extend(self._revise(deployment, newest, sets))
            if deployment["spec"].get("paused"):
                sizes = _proportional(deployment, sets)
            elif (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
                sizes = self._recreate(deployment, newest, old)
            else:
                sizes = _rolling(deployment, newest, old)
            operations.extend(_resize(sets, sizes))
            if _complete(deployment, newest, old):
                operations.extend(_clean_up(deployment, old))
        status, again = _status(deployment, newest, sets, now)
        return Plan([*operations, *status_patch(DEPLOYMENT, deployment, status)], again)

    def _new_set(self, deployment: Manifest, sets: list[Manifest]) -> Manifest:
        template = deployment["spec"]["template"]
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        tag = fingerprint([template, collisions])
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: tag}
        selector = deployment["spec"]["selector"]
        recreate = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        return {
            "apiVersion": REPLICA_SET.api_version,
            "kind": REPLICA_SET.kind,
            "metadata": {
                "name": f"{deployment['metadata']['name']}-{tag}",
                "namespace": deployment["metadata"]["namespace"],
                "labels": labels,
                "annotations": _annotations(deployment, str(_newest_revision(sets) + 1)),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": 0 if recreate and sets else _room(deployment, sets),
                "minReadySeconds": deployment["spec"].get("minReadySeconds", 0),
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: tag}},
                "template": {
                    **template,
                    "metadata": {**(template.get("metadata") or {}), "labels": labels},
                },
            },
        }

    def _revise(self, deployment: Manifest, newest: Manifest, sets: list[Manifest]) -> Iterable[Operation]:
        """Gives the newest ReplicaSet the highest revision (it may be an old one after a rollback), and the
        Deployment too.

        The ReplicaSet inherits the Deployment's annotations, among them the minimum of a gang.
        """
        others = [s for s in sets if s is not newest]
        revision = max(_revision(newest), _newest_revision(others) + 1)
        known = annotations_of(newest)
        wanted = _annotations(deployment, str(revision))
        changed = {name: value for name, value in wanted.items() if known.get(name) != value}
        if changed:
            yield Patch(REPLICA_SET, key_of(newest), {"metadata": {"annotations": changed}})
        if annotations_of(deployment).get(REVISION) != str(revision):
            patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
            yield Patch(DEPLOYMENT, key_of(deployment), patch)

    def _recreate(self, deployment: Manifest, newest: Manifest, old: list[Manifest]) -> dict[str, int]:
        sizes = {s["metadata"]["name"]: 0 for s in old}
        still_there = [pod for s in old for pod in self.indexer.owned(POD, s) if not has_ended(pod)]
        if not still_there and all(not _wanted(s) for s in old):
            sizes[newest["metadata"]["name"]] = _wanted(deployment)
        return sizes


def _template(owner: Manifest) -> Manifest:
    """The pod template without the hash label, for comparison with the Deployment's."""
    template = owner["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH}
    kept = {k: v for k, v in metadata.items() if k not in ("labels", "creationTimestamp") and v}
    return {"metadata": {**kept, "labels": labels}, "spec": template.get("spec")}


def _wanted(owner: Manifest) -> int:
    return int(owner["spec"].get("replicas", 1))


def _count(owner: Manifest, name: str) -> int:
    return int((owner.get("status") or {}).get(name, 0))


def _limits(deployment: Manifest) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; never both zero."""
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    total = _wanted(deployment)
    surge = scaled(rolling.get("maxSurge", "25%"), total, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), total, round_up=False)
    return (surge, 1) if not surge and not unavailable else (surge, unavailable)


def _room(deployment: Manifest, sets: list[Manifest], newest: Manifest | None = None) -> int:
    """The largest size of the newest ReplicaSet within the surge."""
    surge, _ = _limits(deployment)
    present = sum(_wanted(s) for s in sets if s is not newest)
    return max(min(_wanted(deployment), _wanted(deployment) + surge - present), 0)


def _rolling(deployment: Manifest, newest: Manifest, old: list[Manifest]) -> dict[str, int]:
    """The next sizes: the new ReplicaSet grows within the surge, the old ones shrink as availability allows."""
    _, unavailable = _limits(deployment)
    sizes = {newest["metadata"]["name"]: max(_room(deployment, [newest, *old], newest), 0)}
    if _wanted(newest) > _wanted(deployment):
        sizes[newest["metadata"]["name"]] = _wanted(deployment)
    else:
        sizes[newest["metadata"]["name"]] = max(sizes[newest["metadata"]["name"]], _wanted(newest))
    floor = _wanted(deployment) - unavailable
    new_missing = max(_wanted(newest) - _count(newest, "availableReplicas"), 0)
    spare = sum(_wanted(s) for s in [newest, *old]) - floor - new_missing
    for replica_set in sorted(old, key=_revision):
        unhealthy = max(_wanted(replica_set) - _count(replica_set, "availableReplicas"), 0)
        loss = min(_wanted(replica_set), max(spare, 0))
        # Unavailable replicas can be deleted without reducing availability.
        loss = max(loss, min(unhealthy, _wanted(replica_set), max(spare, 0)))
        sizes[replica_set["metadata"]["name"]] = _wanted(replica_set) - loss
        spare -= loss
    return sizes


def _proportional(deployment: Manifest, sets: list[Manifest]) -> dict[str, int]:
    """The sizes of a paused rollout, which only follows a change of the total, on its largest ReplicaSet."""
    active = [s for s in sets if _wanted(s)]
    difference = _wanted(deployment) - sum(map(_wanted, active))
    if not active or not difference:
        return {}
    largest = max(active, key=_wanted)
    return {largest["metadata"]["name"]: max(_wanted(largest) + difference, 0)}


def _resize(sets: list[Manifest], sizes: dict[str, int]) -> Iterable[Operation]:
    for replica_set in sets:
        size = sizes.get(replica_set["metadata"]["name"])
        if size is not None and size != _wanted(replica_set):
            yield Patch(REPLICA_SET, key_of(replica_set), {"spec": {"replicas": size}})


def _complete(deployment: Manifest, newest: Manifest, old: list[Manifest]) -> bool:
    is_full = _count(newest, "availableReplicas") == _wanted(deployment) == _wanted(newest)
    return is_full and not any(_count(s, "replicas") or _wanted(s) for s in old)


def _clean_up(deployment: Manifest, old: list[Manifest]) -> Iterable[Operation]:
    """Deletes the oldest empty ReplicaSets beyond the history limit."""
    limit = int(deployment["spec"].get("revisionHistoryLimit", 10))
    excess = sorted(old, key=_revision)[: max(len(old) - limit, 0)]
    return [
        Delete(REPLICA_SET, key_of(s)) for s in excess if not _count(s, "replicas") and not is_deleting(s)
    ]


def _revision(replica_set: Manifest) -> int:
    return whole_number(annotations_of(replica_set).get(REVISION, "")) or 0


def _newest_revision(sets: list[Manifest]) -> int:
    return max(map(_revision, sets), default=0)


def _annotations(deployment: Manifest, revision: str) -> dict[str, str]:
    own = {
        key: value
        for key, value in annotations_of(deployment).items()
        if key != "kubectl.kubernetes.io/last-applied-configuration"
    }
    return {
        **own,
        REVISION: revision,
        "deployment.kubernetes.io/desired-replicas": str(_wanted(deployment)),
        "deployment.kubernetes.io/max-replicas": str(_wanted(deployment) + _limits(deployment)[0]),
    }


def _status(
    deployment: Manifest, newest: Manifest | None, sets: list[Manifest], now: Instant
) -> tuple[Manifest, float | None]:
    total, available = (sum(_count(s, name) for s in sets) for name in ("replicas", "availableReplicas"))
    ready = sum(_count(s, "readyReplicas") for s in sets)
    updated = _count(newest, "replicas") if newest else 0
    before = deployment.get("status") or {}
    counts = {
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(max(total, _wanted(deployment)) - available, 0),
    }
    status: Manifest = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        **present_counts(deployment, counts),
    }
    if before.get("collisionCount"):
        status["collisionCount"] = before["collisionCount"]
    conditions = list(before.get("conditions") or ())
    enough = available >= _wanted(deployment) - _limits(deployment)[1]
    text = (
        "Deployment has minimum availability." if enough else "Deployment does not have minimum availability."
    )
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    conditions = with_condition(conditions, "Available", "True" if enough else "False", reason, text, now)
    progress, again = _progress(deployment, newest, sets, status, now)
    status["conditions"] = with_condition(conditions, "Progressing", *progress, now)
    return status, again


def _progress(
    deployment: Manifest, newest: Manifest | None, sets: list[Manifest], status: Manifest, now: Instant
) -> tuple[tuple[str, str, str], float | None]:
    name = deployment["metadata"]["name"] if newest is None else newest["metadata"]["name"]
    old = [s for s in sets if s is not newest]
    if newest is not None and _complete(deployment, newest, old):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return ("True", "NewReplicaSetAvailable", text), None
    known = condition_of(deployment, "Progressing")
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    before = deployment.get("status") or {}
    moved = any(status.get(count, 0) != before.get(count, 0) for count in counts)
    limit = deployment["spec"].get("progressDeadlineSeconds", 600)
    updated = (known.get("lastUpdateTime") or known.get("lastTransitionTime")) if known is not None else None
    if known is not None and updated and not moved and known.get("reason") != "NewReplicaSetAvailable":
        waited = now.wall - parse_timestamp(updated)
        if waited >= limit:
            text = f'ReplicaSet "{name}" has timed out progressing.'
            return ("False", "ProgressDeadlineExceeded", text), None
        return (known["status"], known.get("reason", ""), known.get("message", "")), limit - waited + 1
    return ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'), float(limit) + 1
