"""StatefulSet controller: pods with stable names and volumes, started and replaced in order."""

from collections.abc import Iterable
from types import MappingProxyType

from volcano.base.clock import Instant
from volcano.controllers.kubernetes.pods import (
    count_available,
    fingerprint,
    is_available,
    is_ready,
    min_ready,
    pod_from_template,
    present_counts,
    scaled,
    status_patch,
)
from volcano.kube.api.kinds import CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    has_ended,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
)
from volcano.kube.client.operations import Create, Delete, Operation
from volcano.kube.client.protocol import Event, Options, Watch
from volcano.kube.controllers.controller import ObjectReconciler, Plan, owner_keys

REVISION = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
BURST = 500  # pods created in one reconciliation


class StatefulSetController(ObjectReconciler):
    """Creates pods `<name>-0`, `<name>-1`, ... each after the one before it is ready, and replaces them in
    reverse."""

    name = "statefulset"
    kind, owns = STATEFUL_SET, (POD, CONTROLLER_REVISION)
    watches = (Watch(STATEFUL_SET), Watch(POD), Watch(PERSISTENT_VOLUME_CLAIM), Watch(CONTROLLER_REVISION))
    owner_kinds = MappingProxyType({POD: (STATEFUL_SET,)})

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or bool(owner_keys(event.object, STATEFUL_SET))

    def reconcile_object(self, owner: Manifest, now: Instant) -> Plan:
        update = f"{owner['metadata']['name']}-{fingerprint(owner['spec']['template'])}"
        current = (owner.get("status") or {}).get("currentRevision") or update
        pods = {key_of(pod).name: pod for pod in self.indexer.owned(POD, owner)}
        operations: list[Operation] = [*self._revisions(owner, update)]
        operations += self._next_pods(owner, pods, current, update, now)
        status = self._status(owner, pods, current, update, now)
        _, again = count_available(pods.values(), min_ready(owner), now)
        return Plan([*operations, *status_patch(STATEFUL_SET, owner, status)], again)

    def _revisions(self, owner: Manifest, update: str) -> Iterable[Operation]:
        """Records the templates of the set as ControllerRevisions."""
        known = self.indexer.owned(CONTROLLER_REVISION, owner)
        if all(key_of(revision).name != update for revision in known):
            number = max((int(revision.get("revision", 0)) for revision in known), default=0) + 1
            yield Create(
                CONTROLLER_REVISION,
                {
                    "apiVersion": CONTROLLER_REVISION.api_version,
                    "kind": CONTROLLER_REVISION.kind,
                    "metadata": {
                        "name": update,
                        "namespace": owner["metadata"]["namespace"],
                        "ownerReferences": [owner_reference(owner)],
                        "labels": dict((owner["spec"]["template"].get("metadata") or {}).get("labels") or {}),
                    },
                    "data": {"spec": {"template": owner["spec"]["template"]}},
                    "revision": number,
                },
            )

    def _next_pods(
        self, owner: Manifest, pods: dict[str, Manifest], current: str, update: str, now: Instant
    ) -> Iterable[Operation]:
        ordered = owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        start, wanted = _ordinals(owner)
        created = 0
        for ordinal in range(start, start + wanted):
            pod = pods.get(f"{owner['metadata']['name']}-{ordinal}")
            if pod is None:
                revision = update if ordinal >= _partition(owner) + start else current
                yield from self._create(owner, ordinal, revision)
                created += 1
                if ordered or created >= BURST:
                    return
            elif has_ended(pod) and not is_deleting(pod):
                yield Delete(POD, key_of(pod), Options(uid=uid_of(pod)))
                if ordered:
                    return
            elif ordered and (is_deleting(pod) or not is_available(owner, pod, now)):
                return
        surplus = sorted(
            (p for p in pods.values() if not start <= _ordinal(p) < start + wanted), key=_ordinal
        )
        for pod in reversed(surplus):
            if not is_deleting(pod):
                yield Delete(POD, key_of(pod), Options(uid=uid_of(pod)))
            if ordered:
                return
        yield from self._roll(owner, pods, update, now)

    def _roll(
        self, owner: Manifest, pods: dict[str, Manifest], update: str, now: Instant
    ) -> Iterable[Operation]:
        """Replaces pods of an older template, the highest ordinal first."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        start, wanted = _ordinals(owner)
        limit = max(
            scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), wanted, round_up=True), 1
        )
        unavailable = sum(is_deleting(pod) or not is_available(owner, pod, now) for pod in pods.values())
        for ordinal in reversed(range(start + _partition(owner), start + wanted)):
            pod = pods.get(f"{owner['metadata']['name']}-{ordinal}")
            if pod is None or unavailable >= limit:
                return
            if labels_of(pod).get(REVISION) != update and not is_deleting(pod):
                unavailable += 1
                yield Delete(POD, key_of(pod), Options(uid=uid_of(pod)))

    def _create(self, owner: Manifest, ordinal: int, revision: str) -> Iterable[Operation]:
        name = f"{owner['metadata']['name']}-{ordinal}"
        template = owner["spec"]["template"]
        for known in self.indexer.owned(CONTROLLER_REVISION, owner):
            if key_of(known).name == revision:
                template = known["data"]["spec"]["template"]
        pod = pod_from_template(template, owner, name=name)
        pod["metadata"].setdefault("labels", {}).update(
            {REVISION: revision, POD_NAME: name, POD_INDEX: str(ordinal)}
        )
        pod["spec"]["hostname"] = name
        if owner["spec"].get("serviceName"):
            pod["spec"]["subdomain"] = owner["spec"]["serviceName"]
        for claim in owner["spec"].get("volumeClaimTemplates") or ():
            volume_name = (claim.get("metadata") or {}).get("name", "")  # the server does not require one
            claim_name = f"{volume_name}-{name}"
            volume = {"name": volume_name, "persistentVolumeClaim": {"claimName": claim_name}}
            others = [v for v in pod["spec"].get("volumes") or () if v["name"] != volume["name"]]
            pod["spec"]["volumes"] = [*others, volume]
            key = Key(owner["metadata"]["namespace"], claim_name)
            if self.indexer.get(PERSISTENT_VOLUME_CLAIM, key) is None:
                yield Create(PERSISTENT_VOLUME_CLAIM, _claim(claim, key, owner))
        yield Create(POD, pod)

    def _status(
        self, owner: Manifest, pods: dict[str, Manifest], current: str, update: str, now: Instant
    ) -> Manifest:
        present = [pod for pod in pods.values() if not has_ended(pod)]
        updated = sum(labels_of(pod).get(REVISION) == update for pod in present)
        ready = sum(is_ready(pod) and not is_deleting(pod) for pod in present)
        _, wanted = _ordinals(owner)
        if updated == len(present) == wanted == ready:
            current = update
        counts = {
            "readyReplicas": ready,
            "currentReplicas": sum(labels_of(pod).get(REVISION) == current for pod in present),
            "updatedReplicas": updated,
        }
        return {
            "observedGeneration": owner["metadata"].get("generation", 1),
            "replicas": len(present),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": (owner.get("status") or {}).get("collisionCount", 0),
            "availableReplicas": sum(is_available(owner, pod, now) for pod in present),
            **present_counts(owner, counts),
        }


def _claim(template: Manifest, key: Key, owner: Manifest) -> Manifest:
    labels = {
        **((template.get("metadata") or {}).get("labels") or {}),
        **(owner["spec"]["selector"].get("matchLabels") or {}),
    }
    metadata: Manifest = {"name": key.name, "namespace": key.namespace, "labels": labels}
    retention = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if retention.get("whenDeleted") == "Delete":
        metadata["ownerReferences"] = [owner_reference(owner, controller=False)]
    kind = PERSISTENT_VOLUME_CLAIM
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def _ordinals(owner: Manifest) -> tuple[int, int]:
    return int((owner["spec"].get("ordinals") or {}).get("start", 0)), int(owner["spec"].get("replicas", 1))


def _partition(owner: Manifest) -> int:
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition", 0))


def _ordinal(pod: Manifest) -> int:
    text = pod["metadata"]["name"].rpartition("-")[2]
    return int(text) if text.isdigit() else -1
