"""NodeRestriction: a kubelet changes only its own Node, lease and CSINode and the pods on its node."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from volcano.apiserver.authz.actions import Action
from volcano.apiserver.authz.nodes import LEASE_NAMESPACE, MIRROR, node_of
from volcano.apiserver.authz.pod_references import pod_references
from volcano.apiserver.authz.rbac import Authorizer
from volcano.apiserver.errors import forbidden, not_found
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.base.http.certificate_requests import BadRequestPem, parse
from volcano.kube.api import kinds
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, labels_of, uid_of

RESTRICTED = "node-restriction.kubernetes.io"
KUBELET_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
# Labels of kubernetes.io and k8s.io that a kubelet may set on its node, and the prefixes of others.
KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
# Parts of a claim that a kubelet reports.
_CLAIM_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")


class NodeRestriction:
    """Admission plugin for the users of group system:nodes; requests of other users pass."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._checks: Mapping[Kind, Callable[[_Request], None]] = {
            kinds.POD: _check_pod,
            kinds.NODE: _check_node,
            kinds.PERSISTENT_VOLUME_CLAIM: _check_claim,
            kinds.SERVICE_ACCOUNT: self._check_token,
            kinds.LEASE: _check_lease,
            kinds.CSI_NODE: _check_csi_node,
            kinds.RESOURCE_SLICE: _check_resource_slice,
            kinds.CERTIFICATE_SIGNING_REQUEST: _check_certificate_request,
        }

    def handles(self, kind: Kind) -> bool:
        return kind in self._checks

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        node = node_of(request.user)
        if node is None:
            return new
        checked = _Request(node, request, new, old, lookup)
        if not node:
            raise checked.denied(f'could not determine node from user "{request.user.name}"')
        self._checks[request.kind](checked)
        return new

    def _check_token(self, request: "_Request") -> None:
        """A token must be bound to a pod on the node, and be for an audience that the pod asks for."""
        if request.operation != "CREATE" or request.subresource != "token":
            return
        spec = (request.new or {}).get("spec") or {}
        reference = spec.get("boundObjectRef") or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            raise request.denied("node requested token not bound to a pod")
        if not reference.get("uid"):
            raise request.denied("node requested token with a pod binding without a uid")
        pod = request.stored_pod(str(reference["name"]))
        if reference["uid"] != uid_of(pod):
            raise request.denied(
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if pod["spec"].get("nodeName") != request.node:
            raise request.denied("node requested token bound to a pod scheduled on a different node")
        self._check_audience(request, spec.get("audiences") or [], pod)

    def _check_audience(self, request: "_Request", audiences: list[str], pod: Manifest) -> None:
        if len(audiences) > 1:
            raise request.denied("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        if audience in _audiences(pod, request.lookup):
            return
        user, key = request.attributes.user, request.attributes.key
        verb = "request-serviceaccounts-token-audience"
        action = Action(verb, resource=audience, name=key.name, namespace=key.namespace)
        if not self._authorizer.allowed(user, action):
            raise request.denied(
                f'audience "{audience}" not found in pod spec volume, {user.name} is not authorized to request '
                "tokens for this audience"
            )


class _Request:
    """One request of a kubelet."""

    def __init__(
        self,
        node: str,
        attributes: Attributes,
        new: Manifest | None,
        old: Manifest | None,
        lookup: Lookup,
    ) -> None:
        self.node = node
        self.attributes = attributes
        self.new = new
        self.old = old
        self.lookup = lookup
        self.operation = attributes.operation
        self.subresource = attributes.subresource

    def denied(self, why: str) -> Forbidden:
        return forbidden(self.attributes.kind, self.attributes.key.name, why)

    def stored_pod(self, name: str) -> Manifest:
        pod = self.lookup.find(kinds.POD, Key(self.attributes.key.namespace, name))
        if pod is None:
            raise not_found(kinds.POD, name)
        return pod


def _check_pod(request: _Request) -> None:
    match (request.subresource, request.operation):
        case ("", "CREATE"):
            _check_mirror_pod(request, request.new or {})
        case ("", "DELETE"):
            _check_bound(request, "delete pods")
        case ("", _):
            raise request.denied(
                f'unexpected operation "{request.operation}", node "{request.node}" can only create and delete '
                "mirror pods"
            )
        case ("status", "UPDATE"):
            _check_pod_status(request)
        case ("eviction", "CREATE"):
            pod = request.stored_pod(request.attributes.key.name)
            if pod["spec"].get("nodeName") != request.node:
                raise request.denied(
                    f"node {request.node} can only evict pods with spec.nodeName set to itself"
                )
        case _:
            raise request.denied(
                f"unexpected pod subresource \"{request.subresource}\", only 'status' and 'eviction' are allowed"
            )


def _check_bound(request: _Request, what: str) -> None:
    if ((request.old or {}).get("spec") or {}).get("nodeName") != request.node:
        raise request.denied(f'node "{request.node}" can only {what} with spec.nodeName set to itself')


def _check_mirror_pod(request: _Request, pod: Manifest) -> None:
    node, metadata = request.node, pod.get("metadata") or {}
    if MIRROR not in (metadata.get("annotations") or {}):
        raise request.denied(
            f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
        )
    if (pod.get("spec") or {}).get("nodeName") != node:
        raise request.denied(f'node "{node}" can only create pods with spec.nodeName set to itself')
    owners = metadata.get("ownerReferences") or []
    if len(owners) != 1:
        single = "a single" if owners else "an"
        raise request.denied(
            f'node "{node}" can only create pods with {single} owner reference set to itself'
        )
    _check_owner(request, owners[0])
    reference = _first_reference(pod)
    if reference:
        raise request.denied(f'node "{node}" can not create pods that reference {reference}')


def _check_owner(request: _Request, owner: Mapping[str, Any]) -> None:
    node = request.node
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        raise request.denied(f'node "{node}" can only create pods with an owner reference set to itself')
    if owner.get("controller") is not True:
        raise request.denied(
            f'node "{node}" can only create pods with a controller owner reference set to itself'
        )
    if owner.get("blockOwnerDeletion"):
        raise request.denied(f'node "{node}" must not set blockOwnerDeletion on an owner reference')
    found = request.lookup.find(kinds.NODE, Key("", node))
    if found is None:
        raise not_found(kinds.NODE, node)
    if owner.get("uid") != uid_of(found):
        raise request.denied(f"node {node} UID mismatch: expected {owner.get('uid')} got {uid_of(found)}")


# Volume sources that refer to other API objects, for messages.
_REFERRING_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REFERRING_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _first_reference(pod: Manifest) -> str:
    """What a pod refers to, if anything: a kubelet could otherwise get access to any object by a pod of its own."""
    spec = pod["spec"]
    found = {reference.resource for reference in pod_references(pod)}
    for resource in ("serviceaccounts", "secrets", "configmaps", "resourceclaims"):
        if resource in found or (resource == "resourceclaims" and spec.get("resourceClaims")):
            return resource
    for volume in spec.get("volumes") or ():
        for source, text in _REFERRING_VOLUMES.items():
            if volume.get(source):
                return text
        for projected in (volume.get("projected") or {}).get("sources") or ():
            for source, text in _REFERRING_SOURCES.items():
                if projected.get(source):
                    return text
    return ""


def _check_pod_status(request: _Request) -> None:
    new, old = request.new or {}, request.old or {}
    _check_bound(request, "update pod status for pods")
    if labels_of(new) != labels_of(old):
        raise request.denied(f'node "{request.node}" cannot update labels through pod status')
    after, before = new.get("status") or {}, old.get("status") or {}
    if (after.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        raise request.denied(f'node "{request.node}" cannot update resource claim statues')
    if after.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        raise request.denied(f'node "{request.node}" cannot update extended resource claim status')


def _check_node(request: _Request) -> None:
    node, name = request.node, request.attributes.key.name
    if name != node:
        raise request.denied(f'node "{node}" is not allowed to modify node "{name}"')
    if request.new is None:
        return
    new, old = request.new, request.old or {}
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    source = spec.get("configSource")
    if request.old is None:
        if source is not None:
            raise request.denied(f'node "{node}" is not allowed to create pods with a non-nil configSource')
        if labels := _forbidden_labels(labels_of(new), {}):
            raise request.denied(f'node "{node}" is not allowed to set the following labels: {labels}')
        return
    if source is not None and source != before.get("configSource"):
        raise request.denied(
            f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
        )
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise request.denied(f'node "{node}" is not allowed to modify taints')
    owners = [each["metadata"].get("ownerReferences") or [] for each in (new, old)]
    if owners[0] != owners[1]:
        raise request.denied(f'node "{node}" is not allowed to modify ownerReferences')
    if labels := _forbidden_labels(labels_of(new), labels_of(old)):
        raise request.denied(f"is not allowed to modify labels: {labels}")


def _forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> str:
    """The changed labels that a kubelet may not change: they steer workloads to nodes."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return ", ".join(sorted(filter(_is_forbidden_label, changed)))


def _is_forbidden_label(key: str) -> bool:
    prefix = key.partition("/")[0] if "/" in key else ""
    if _is_within(prefix, RESTRICTED):
        return True
    if not (_is_within(prefix, "kubernetes.io") or _is_within(prefix, "k8s.io")):
        return False
    return key not in KUBELET_LABELS and not any(_is_within(prefix, allowed) for allowed in KUBELET_PREFIXES)


def _is_within(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith(f".{domain}")


def _check_claim(request: _Request) -> None:
    if request.subresource != "status":
        raise request.denied("may only update PVC status")
    if _without_reported(request.new or {}) != _without_reported(request.old or {}):
        raise request.denied(
            f'node "{request.node}" is not allowed to update fields other than status.quantity and '
            "status.conditions"
        )


def _without_reported(claim: Manifest) -> Manifest:
    """A claim without the parts that a kubelet may change."""
    ignored = ("resourceVersion", "managedFields")
    metadata = {k: v for k, v in (claim.get("metadata") or {}).items() if k not in ignored}
    status = {k: v for k, v in (claim.get("status") or {}).items() if k not in _CLAIM_STATUS}
    return {**claim, "metadata": metadata, "status": status}


def _check_lease(request: _Request) -> None:
    key = request.attributes.key
    if key.namespace != LEASE_NAMESPACE:
        raise request.denied(f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    if key.name != request.node:
        raise request.denied("can only access node lease with the same name as the requesting node")


def _check_csi_node(request: _Request) -> None:
    if request.attributes.key.name != request.node:
        raise request.denied("can only access CSINode with the same name as the requesting node")


def _check_resource_slice(request: _Request) -> None:
    if request.operation not in ("CREATE", "DELETE"):
        return  # the authorizer has checked the stored slice, whose node cannot change
    changed = request.new if request.operation == "CREATE" else request.old
    if ((changed or {}).get("spec") or {}).get("nodeName") != request.node:
        verb = request.operation.lower()
        raise request.denied(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def _check_certificate_request(request: _Request) -> None:
    """A kubelet requests certificates for its own name only."""
    spec = (request.new or {}).get("spec") or {}
    if request.operation != "CREATE" or spec.get("signerName") not in KUBELET_SIGNERS:
        return
    try:
        wanted = parse(base64.b64decode(str(spec.get("request") or ""), validate=True))
    except (BadRequestPem, binascii.Error) as error:
        raise request.denied(f"unable to parse csr: {error}") from None
    if wanted.common_name != f"system:node:{request.node}":
        raise request.denied(f"can only create a node CSR with CN=system:node:{request.node}")


def _audiences(pod: Manifest, lookup: Lookup) -> Iterator[str]:
    """The audiences of tokens in a pod's volumes, also of those that CSI drivers ask for."""
    namespace = pod["metadata"].get("namespace", "")
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken"):
                yield source["serviceAccountToken"].get("audience") or ""
        driver = (volume.get("csi") or {}).get("driver") or ""
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral"):
            claim = f"{pod['metadata']['name']}-{volume.get('name', '')}"
        if claim:
            driver = _driver_of_claim(Key(namespace, claim), lookup)
        if driver:
            spec = (lookup.find(kinds.CSI_DRIVER, Key("", driver)) or {}).get("spec") or {}
            yield from (request.get("audience") or "" for request in spec.get("tokenRequests") or ())


def _driver_of_claim(key: Key, lookup: Lookup) -> str:
    claim = lookup.find(kinds.PERSISTENT_VOLUME_CLAIM, key) or {}
    name = (claim.get("spec") or {}).get("volumeName") or ""
    volume = lookup.find(kinds.PERSISTENT_VOLUME, Key("", name)) if name else None
    return str((((volume or {}).get("spec") or {}).get("csi") or {}).get("driver") or "")
