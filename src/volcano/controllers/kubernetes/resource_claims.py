"""Resource claim controller: creates the claims of pods from templates, and releases and deletes them after use."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from volcano.base.clock import Instant
from volcano.kube.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    controller_of,
    has_ended,
    is_deleting,
    key_of,
    uid_of,
)
from volcano.kube.client.operations import Create, Delete, Get, Operation, Patch, Update
from volcano.kube.client.protocol import Event, EventType, Options, Watch
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler
from volcano.kube.controllers.events import OnceRecorder
from volcano.kube.devices.dra.claims import (
    FINALIZER,
    POD_CLAIM,
    consumer_of,
    generated_claims,
    is_owned_by,
    pod_claim_references,
    reserved_uids,
    with_status,
    without_finalizer,
)

MOST_CONSUMERS: Final = 256
# Names of claims leave room for a hyphen and five characters that the server adds.
_LONGEST_PREFIX: Final = 57
_REMEMBERED: Final = 10_000
# `pod` or `claim`, and the key of that object.
ClaimKey = tuple[str, Key]


class ResourceClaimController(Reconciler[ClaimKey]):
    """Keys are pods, whose claims are created, and claims, whose reservations follow their pods."""

    name = "resource-claims"
    watches: Sequence[Watch] = (Watch(POD), Watch(RESOURCE_CLAIM), Watch(RESOURCE_CLAIM_TEMPLATE))

    def __init__(self) -> None:
        super().__init__()
        self.indexer.add_index(POD, "template", _templates)
        self.indexer.add_index(POD, "claim", _claim_keys)
        self.indexer.add_index(RESOURCE_CLAIM, "pod", _pods_of)
        self._events = OnceRecorder("resource-claim-controller")
        # Pods that do not exist any more, confirmed by their deletion or by the API server. A claim may be reserved
        # for a pod whose event has not arrived yet.
        self._gone: dict[str, None] = {}
        self._deallocated: set[str] = set()  # claims whose finalizer is to be removed

    def accepts(self, event: Event) -> bool:
        return event.kind is not POD or bool(event.object["spec"].get("resourceClaims"))

    def on_event(self, event: Event) -> None:
        if event.kind is POD and event.type is EventType.DELETED:
            self._remember_gone(uid_of(event.object))
        super().on_event(event)

    def keys(self, event: Event) -> Iterable[ClaimKey]:
        key = event.object_key()
        if event.kind is POD:
            claims = {*_claim_keys(event.object), *self._claims_of(uid_of(event.object))}
            return [("pod", key), *(("claim", claim) for claim in claims)]
        if event.kind is RESOURCE_CLAIM:
            pods = self.indexer.by_index(POD, "claim", key)
            owner = controller_of(event.object)
            owned = [("pod", Key(key.namespace, owner["name"]))] if owner is not None else []
            return [("claim", key), *owned, *(("pod", key_of(pod)) for pod in pods)]
        return [("pod", key_of(pod)) for pod in self.indexer.by_index(POD, "template", key)]

    def _claims_of(self, uid: str) -> list[Key]:
        return [key_of(claim) for claim in self.indexer.by_index(RESOURCE_CLAIM, "pod", uid)]

    def reconcile(self, key: ClaimKey, now: Instant) -> Plan:
        sort, object_key = key
        if sort == "claim":
            claim = self.indexer.get(RESOURCE_CLAIM, object_key)
            return NOTHING if claim is None else Plan(list(self._release(claim)))
        pod = self.indexer.get(POD, object_key)
        if pod is None or is_deleting(pod) or has_ended(pod):
            return NOTHING
        return Plan(list(self._create_claims(pod, now)) or list(self._reserve(pod)))

    # -- claims of pods ----------------------------------------------------------------------------------------------

    def _create_claims(self, pod: Manifest, now: Instant) -> Iterator[Operation]:
        """Creates the claims that a pod lacks, and names the existing ones in its status."""
        namespace = key_of(pod).namespace
        owned = {
            annotations_of(claim).get(POD_CLAIM, ""): claim
            for claim in self.indexer.by_index(RESOURCE_CLAIM, "pod", uid_of(pod))
            if is_owned_by(claim, pod) and not is_deleting(claim)
        }
        known = generated_claims(pod)
        named: dict[str, str] = {}
        for reference in pod["spec"]["resourceClaims"]:
            template_name, name = reference.get("resourceClaimTemplateName"), reference["name"]
            if not template_name:
                continue
            if name in owned:
                named[name] = key_of(owned[name]).name
                continue
            template = self.indexer.get(RESOURCE_CLAIM_TEMPLATE, Key(namespace, template_name))
            if template is None:
                yield from self._events.once(
                    pod,
                    POD,
                    "FailedResourceClaimCreation",
                    f'PodResourceClaim {name}: resource claim template "{template_name}": '
                    f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found',
                    now,
                    warning=True,
                )
                continue
            yield Create(RESOURCE_CLAIM, claim_from_template(template, pod, name))
        if any(known.get(name) != claim for name, claim in named.items()):
            statuses = [
                {"name": name, "resourceClaimName": claim} for name, claim in {**known, **named}.items()
            ]
            patch = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": statuses}}
            yield Patch(POD, key_of(pod), patch, "status", if_present=True)

    def _reserve(self, pod: Manifest) -> Iterator[Operation]:
        """Reserves allocated claims for a pod that was bound without the scheduler."""
        if not pod["spec"].get("nodeName"):
            return
        for key in _claim_keys(pod):
            claim = self.indexer.get(RESOURCE_CLAIM, key)
            if claim is None or is_deleting(claim):
                continue
            status = claim.get("status") or {}
            consumers = status.get("reservedFor") or []
            is_reserved = uid_of(pod) in reserved_uids(claim)
            if status.get("allocation") is None or is_reserved or len(consumers) >= MOST_CONSUMERS:
                continue
            changed = with_status(claim, reservedFor=[*consumers, consumer_of(pod)])
            yield Update(RESOURCE_CLAIM, changed, "status")

    # -- claims after use --------------------------------------------------------------------------------------------

    def _release(self, claim: Manifest) -> Iterator[Operation]:
        """Removes the reservations of finished pods; without any, deallocates and deletes the claim."""
        status = claim.get("status") or {}
        consumers = status.get("reservedFor") or []
        remaining = []
        for consumer in consumers:
            done = self._is_done(consumer, key_of(claim).namespace)
            if done is None:
                yield Get(POD, Key(key_of(claim).namespace, consumer["name"]), consumer["uid"])
            if not done:
                remaining.append(consumer)
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        unused = protected and not remaining
        if len(remaining) < len(consumers):
            changes: Manifest = {"reservedFor": remaining or None}
            if unused:
                changes["allocation"] = None
            yield Update(RESOURCE_CLAIM, with_status(claim, **changes), "status")
        elif unused and is_deleting(claim) and status.get("allocation") is not None:
            yield Update(RESOURCE_CLAIM, with_status(claim, allocation=None), "status")
        elif unused and status.get("allocation") is None and self._may_unprotect(claim):
            yield Update(RESOURCE_CLAIM, without_finalizer(claim))
        elif not remaining and not is_deleting(claim) and self._is_abandoned(claim):
            yield Delete(RESOURCE_CLAIM, key_of(claim), Options(uid=uid_of(claim)), if_present=True)

    def _may_unprotect(self, claim: Manifest) -> bool:
        """Whether the finalizer is not needed. The scheduler adds it just before it allocates the claim."""
        return is_deleting(claim) or uid_of(claim) in self._deallocated

    def _is_done(self, consumer: Mapping[str, Any], namespace: str) -> bool | None:
        """Whether a consumer does not need the claim any more; None if only the API server knows."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return False  # kinds of consumers that are not known here
        if consumer["uid"] in self._gone:
            return True
        pod = self.indexer.get(POD, Key(namespace, consumer["name"]))
        if pod is None or uid_of(pod) != consumer["uid"]:
            return None
        return _is_done(pod)

    def _is_abandoned(self, claim: Manifest) -> bool:
        """Whether the pod that a claim was created for has ended. The garbage collector deletes claims of pods that
        do not exist any more."""
        owner = controller_of(claim)
        if owner is None or owner.get("kind") != POD.kind:
            return False
        pod = self.indexer.get(POD, Key(key_of(claim).namespace, owner["name"]))
        return pod is not None and uid_of(pod) == owner["uid"] and _is_done(pod)

    def on_written(self, operation: Operation, result: Manifest) -> None:
        match operation:
            case Get() if not result:
                self._remember_gone(operation.uid)
            case Update(subresource="status") if (result.get("status") or {}).get("allocation") is None:
                self._deallocated.add(uid_of(result))
            case Update() | Delete():
                self._deallocated.discard(uid_of(result) if "metadata" in result else "")

    def _remember_gone(self, uid: str) -> None:
        while len(self._gone) >= _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._gone[uid] = None


def claim_from_template(template: Manifest, pod: Manifest, name: str) -> Manifest:
    """A new claim of a pod."""
    spec = template["spec"]
    metadata = spec.get("metadata") or {}
    pod_name = key_of(pod).name
    prefix = f"{pod_name}-{name}-"
    if len(prefix) > _LONGEST_PREFIX:
        shortened = (text[: len(text) * _LONGEST_PREFIX // len(prefix)] for text in (pod_name, name))
        prefix = "-".join(shortened)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": uid_of(pod), "controller": True}
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "generateName": prefix,
            "namespace": key_of(pod).namespace,
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM: name},
            "ownerReferences": [owner],
            **({"labels": dict(metadata["labels"])} if metadata.get("labels") else {}),
        },
        "spec": spec["spec"],
    }


def _is_done(pod: Manifest) -> bool:
    """Whether a pod will not run any more."""
    return has_ended(pod) or (is_deleting(pod) and not pod["spec"].get("nodeName"))


def _templates(pod: Manifest) -> Iterable[Hashable]:
    namespace = key_of(pod).namespace
    for claim in pod["spec"].get("resourceClaims") or ():
        if name := claim.get("resourceClaimTemplateName"):
            yield Key(namespace, name)


def _claim_keys(pod: Manifest) -> list[Key]:
    """The claims of a pod that exist as far as the pod knows."""
    return [Key(key_of(pod).namespace, name) for _, name in pod_claim_references(pod) if name]


def _pods_of(claim: Manifest) -> Iterable[Hashable]:
    """The pods that own a claim or that it is reserved for, by uid."""
    owner = controller_of(claim)
    return {*reserved_uids(claim), *([owner["uid"]] if owner is not None else ())}
