"""ResourceClaims as manifests: who owns and reserves them, and changed copies."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from volcano.kube.api.manifest import Manifest, controller_of, key_of, uid_of

# Keeps a claim while it is allocated.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
# Annotation of a generated claim: the name of the pod's entry it was made for.
POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"


def generated_claims(pod: Mapping[str, Any]) -> dict[str, str]:
    """Names of the claims that were generated for a pod, by the pod's names for them; empty if none was needed."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {status["name"]: status.get("resourceClaimName") or "" for status in statuses}


def pod_claim_references(pod: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The pod's names of its claims, each with the claim; None while that has not been generated.

    Claims that are not needed, as the status of the pod says with an entry without a claim, are left out.
    """
    generated = generated_claims(pod)
    for reference in pod["spec"].get("resourceClaims") or ():
        name = reference["name"]
        if claim := reference.get("resourceClaimName"):
            yield name, claim
        elif name not in generated:
            yield name, None
        elif generated[name]:
            yield name, generated[name]


def is_owned_by(claim: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether a claim was generated for a pod."""
    owner = controller_of(claim)
    return owner is not None and owner.get("kind") == "Pod" and owner.get("uid") == uid_of(pod)


def consumer_of(pod: Mapping[str, Any]) -> Manifest:
    """The entry of a pod in `status.reservedFor`."""
    return {"resource": "pods", "name": key_of(pod).name, "uid": uid_of(pod)}


def reserved_uids(claim: Mapping[str, Any]) -> list[str]:
    """The uids of the consumers that a claim is reserved for."""
    return [each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()]


def with_status(claim: Manifest, **changes: Any) -> Manifest:
    """A claim with some fields of its status changed; None removes a field. Keeps the resource version."""
    status = {**(claim.get("status") or {}), **changes}
    return {**claim, "status": {name: value for name, value in status.items() if value is not None}}


def without_finalizer(claim: Manifest) -> Manifest:
    """A claim that may be deleted."""
    metadata = {**claim["metadata"]}
    left = [name for name in metadata.pop("finalizers", ()) if name != FINALIZER]
    return {**claim, "metadata": {**metadata, **({"finalizers": left} if left else {})}}


def claim_problem(pod: Mapping[str, Any], find: Callable[[str], Mapping[str, Any] | None]) -> str:
    """Why a node may not start a pod yet: each of its claims is allocated and reserved for it. `find` gets a claim."""
    for name, claim_name in pod_claim_references(pod):
        if claim_name is None:
            return f"pod claim {name}: the ResourceClaim is not created yet"
        claim = find(claim_name)
        if claim is None:
            return f"ResourceClaim {claim_name} does not exist"
        if (claim.get("status") or {}).get("allocation") is None:
            return f"ResourceClaim {claim_name} is not allocated"
        if uid_of(pod) not in reserved_uids(claim):
            return f"ResourceClaim {claim_name} is not reserved for this pod"
    return ""
