"""PodGroup controller: creates PodGroups for pods of our scheduler that have none, one for each owner."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from volcano.base.clock import Instant
from volcano.kube.api import names
from volcano.kube.api.kinds import BATCH_JOB, DAEMON_SET, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    controller_of,
    has_ended,
    is_deleting,
    key_of,
    labels_of,
    owner_reference,
    owners_of,
    uid_of,
)
from volcano.kube.api.quantity import Quantity
from volcano.kube.client.operations import Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Event, Options, Watch
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler, WorkResult
from volcano.kube.controllers.events import OnceRecorder
from volcano.kube.patches.patch import merge_diff
from volcano.kube.resources.pod_requests import usage

WORKLOADS: tuple[Kind, ...] = (REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB)
# Without the feature gate WorkLoadSupport, PodGroups do not follow their ReplicaSets and StatefulSets.
UNGATED_WORKLOADS: tuple[Kind, ...] = (DAEMON_SET, BATCH_JOB)
INHERITED = "volcano.sh/"
REVISION = "controller-revision-hash"
TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"
# Annotations and labels that a PodGroup inherits from its pods.
CARRIED = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.USER)


class PodGroupController(Reconciler[Key]):
    """Creates one PodGroup for each owner of pods, or for each pod without one."""

    name = "pg-controller"

    def __init__(
        self,
        *,
        scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,),
        inherit_annotations: bool = True,
        workloads: tuple[Kind, ...] = WORKLOADS,
    ) -> None:
        super().__init__()
        self._workloads = workloads
        # Pods of jobs share the Job controller's watch; of the others, only those of our schedulers are
        # watched.
        self.watches = (
            Watch(POD, labels=names.JOB_NAME),
            *(
                Watch(POD, labels=f"!{names.JOB_NAME}", fields=f"spec.schedulerName={name}")
                for name in dict.fromkeys(scheduler_names)
            ),
            Watch(POD_GROUP),
            *(Watch(kind) for kind in workloads),
        )
        self._schedulers = scheduler_names
        self._inherit = inherit_annotations
        self._recorder = OnceRecorder(self.name)
        self._rejections: dict[Key, str] = {}  # rejected groups and the reasons
        self.indexer.add_index(POD, "group", self._group_of)

    def _group_of(self, pod: Manifest) -> Iterable[Key]:
        """The PodGroup a pod is in or should be in, if this controller creates it."""
        if pod["spec"].get("schedulerName") not in self._schedulers:
            return ()
        group = annotations_of(pod).get(names.GROUP_NAME, "")
        wanted = _group_name(pod)
        return (Key(pod["metadata"]["namespace"], wanted),) if group in ("", wanted) else ()

    def accepts(self, event: Event) -> bool:
        return event.kind != POD or bool(self._group_of(event.object))

    def keys(self, event: Event) -> Iterable[Key]:
        if event.kind == POD:
            return self._group_of(event.object)
        if event.kind == POD_GROUP:
            return (key_of(event.object),) if key_of(event.object).name.startswith("podgroup-") else ()
        return (Key(event.object["metadata"]["namespace"], f"podgroup-{uid_of(event.object)}"),)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        pods = [p for p in self.indexer.by_index(POD, "group", key) if not is_deleting(p)]
        group = self.indexer.get(POD_GROUP, key)
        if not pods:
            self._rejections.pop(key, None)
            return Plan(list(self._delete_of_scaled_down(key, group)))
        operations: list[Operation] = []
        if group is None:
            if all(map(has_ended, pods)):
                return NOTHING
            model = self._model(pods)
            if key in self._rejections:  # otherwise its pods would wait without an explanation
                text = f"PodGroup {key.name} could not be created: {self._rejections[key]}"
                operations.extend(self._recorder.once(model, POD, "FailedCreate", text, now, warning=True))
            operations.append(Create(POD_GROUP, self._build(key, model), if_absent=True))
        elif not is_deleting(group) and self._workload(group) is not None:
            # Pods of an operator may differ: their group is built from the first of them.
            change = _change(group, self._build(key, self._model(pods)))
            if change:
                operations.append(Patch(POD_GROUP, key, change))
        for pod in pods:
            if annotations_of(pod).get(names.GROUP_NAME):
                continue
            notes = {"annotations": {names.GROUP_NAME: key.name}, "uid": uid_of(pod)}
            operations.append(Patch(POD, key_of(pod), {"metadata": notes}, if_present=True))
        return Plan(operations)

    def on_done(self, key: Key, done: WorkResult, now: Instant) -> None:
        self._rejections.pop(key, None)
        if done.error is not None and done.failed is not None and done.failed.kind == POD_GROUP:
            self._rejections[key] = done.error.message

    def group_for(self, pod: Manifest) -> Manifest:
        """The PodGroup that is created for a pod without one."""
        return self._build(Key(pod["metadata"]["namespace"], _group_name(pod)), pod)

    def _model(self, pods: list[Manifest]) -> Manifest:
        """The pod a group is built from: the oldest of those of their owner's newest template."""
        owner = self._workload(pods[0])
        newest = ((owner or {}).get("status") or {}).get("updateRevision")
        current = [p for p in pods if newest and labels_of(p).get(REVISION) == newest]
        return min(current or pods, key=_age)

    def _delete_of_scaled_down(self, key: Key, group: Manifest | None) -> Iterable[Operation]:
        """Deletes the PodGroup of a workload scaled to zero."""
        if group is None or is_deleting(group):
            return
        owner = self._workload(group)
        if owner is not None and owner["spec"].get("replicas") == 0:
            yield Delete(POD_GROUP, key, Options(uid=uid_of(group)), if_present=True)

    def _workload(self, manifest: Manifest) -> Manifest | None:
        reference = controller_of(manifest)
        return self._owner(manifest["metadata"]["namespace"], reference) if reference else None

    def _owner(self, namespace: str, reference: Mapping[str, str]) -> Manifest | None:
        for kind in self._workloads:
            if kind.kind == reference["kind"] and kind.api_version == reference["apiVersion"]:
                owner = self.indexer.get(kind, Key(namespace, reference["name"]))
                return owner if owner is not None and uid_of(owner) == reference["uid"] else None
        return None

    def _build(self, key: Key, pod: Manifest) -> Manifest:
        """The PodGroup that a pod and its owners ask for."""
        inherited = self._inherited(pod)
        asked = _integer(inherited.get(names.GROUP_MIN_MEMBER))
        minimum = asked if asked is not None and asked >= 0 else 1
        workload = self._workload(pod)
        if workload is not None and "replicas" in workload["spec"]:
            # A rolling update begins with fewer pods than the whole gang has.
            minimum = min(minimum, max(int(workload["spec"]["replicas"]), 1))
        kept = {name: value for name, value in inherited.items() if name.startswith(INHERITED)}
        own = annotations_of(pod)
        kept |= {name: own[name] for name in CARRIED if name in own}
        budget = next((n for n in (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE) if n in own), None)
        if budget:
            kept[budget] = own[budget]
        metadata: Manifest = {
            "name": key.name,
            "namespace": key.namespace,
            "ownerReferences": [dict(o) for o in owners_of(pod)]
            if controller_of(pod)
            else [owner_reference(pod)],
        }
        labels = {
            n: labels_of(pod)[n] for n in (names.PREEMPTABLE, names.COOLDOWN_TIME) if n in labels_of(pod)
        }
        if kept:
            metadata["annotations"] = kept
        if labels:
            metadata["labels"] = labels
        return {
            "apiVersion": POD_GROUP.api_version,
            "kind": POD_GROUP.kind,
            "metadata": metadata,
            "spec": _spec(pod, minimum),
            "status": {"phase": "Pending"},
        }

    def _inherited(self, pod: Manifest) -> dict[str, str]:
        """Annotations of the pod's owners; the first owner that has one decides."""
        inherited: dict[str, str] = {}
        if self._inherit:
            for reference in owners_of(pod):
                owner = self._owner(pod["metadata"]["namespace"], reference)
                for name, value in annotations_of(owner).items() if owner else ():
                    inherited.setdefault(name, value)
        return inherited


def _group_name(pod: Manifest) -> str:
    owner = controller_of(pod)
    return f"podgroup-{owner['uid'] if owner else uid_of(pod)}"


def _spec(pod: Manifest, minimum: int) -> Manifest:
    used = usage(pod["spec"])
    spec: Manifest = {
        "minMember": minimum,
        "minResources": {
            name: str(Quantity(quantity.amount * Decimal(minimum), quantity.family))
            for name, quantity in used.items()
        },
    }
    queue = annotations_of(pod).get(names.POD_QUEUE_NAME)
    if queue:
        spec["queue"] = queue
    if pod["spec"].get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    mode, tier = annotations_of(pod).get(TOPOLOGY_MODE), annotations_of(pod).get(TOPOLOGY_TIER)
    if mode is not None or tier is not None:
        spec["networkTopology"] = {
            "mode": mode.lower() if mode and mode.lower() in ("hard", "soft") else "hard"
        }
        if (highest := _integer(tier)) is not None:
            spec["networkTopology"]["highestTierAllowed"] = highest
    return spec


def _change(group: Manifest, built: Manifest) -> Manifest:
    """A merge patch that updates a PodGroup; fields of others are kept."""
    change: Manifest = {}
    for part, mine in (("spec", built["spec"]), ("metadata", built["metadata"])):
        known = group[part]
        for name, value in mine.items():
            if name in ("annotations", "labels"):
                missing = {k: v for k, v in value.items() if (known.get(name) or {}).get(k) != v}
                if missing:
                    change.setdefault(part, {})[name] = missing
            elif name not in ("name", "namespace", "ownerReferences"):
                other = merge_diff(known.get(name), value)  # removes what is no longer wanted
                if other is not None:
                    change.setdefault(part, {})[name] = other
    return change


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]{1,9}", text) else None


def _age(pod: Manifest) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]
