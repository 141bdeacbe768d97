"""Node authorizer: a kubelet reads only what the pods on its node need, and writes only its own objects.

Relations are looked up when a kubelet asks: the store indexes pods by their node, so that writes of pods cost nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from volcano.apiserver.authz.actions import Action, Rule
from volcano.apiserver.authz.pod_references import Reference, pod_references, volume_secrets
from volcano.apiserver.interfaces import Lookup, User
from volcano.kube.api.kinds import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    RESOURCE_SLICE,
    VOLUME_ATTACHMENT,
)
from volcano.kube.api.manifest import Key, Manifest

USER_PREFIX = "system:node:"
GROUP = "system:nodes"
LEASE_NAMESPACE = "kube-node-lease"
MIRROR = "kubernetes.io/config.mirror"
# The pods that are bound to a node; the manifests are shared and read-only.
PodsOnNode = Callable[[str], Iterable[Manifest]]


def node_of(user: User) -> str | None:
    """The node whose kubelet a user is; None for other users. It is empty when the name of the user has none."""
    if not user.name.startswith(USER_PREFIX) or GROUP not in user.groups:
        return None
    return user.name.removeprefix(USER_PREFIX)


def node_user(name: str) -> User:
    """The user of a node's kubelet."""
    return User(USER_PREFIX + name, (GROUP, "system:authenticated"))


class Decision(NamedTuple):
    """Whether an action is allowed; the reason is for the message of a denial."""

    allowed: bool
    reason: str = ""


ALLOWED = Decision(True)
DENIED = Decision(False)
_READ = ("get", "list", "watch")
_OWN_OBJECT_VERBS = ("get", "create", "update", "patch", "delete")


class NodeAuthorizer:
    """Authorizes actions of kubelets, as Kubernetes' Node authorizer does. Other users are left to RBAC."""

    def __init__(self, lookup: Lookup, pods_on_node: PodsOnNode, rules: Iterable[Rule]) -> None:
        """`rules` are those of the role system:node, for resources that are the same for all nodes."""
        self._lookup = lookup
        self._pods_on_node = pods_on_node
        self._rules = tuple(rules)
        self._checks: Mapping[tuple[str, str], Callable[[str, Action], Decision]] = {
            ("", "secrets"): self._read_related,
            ("", "configmaps"): self._read_related,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get_related,
            ("", "serviceaccounts"): self._service_account,
            ("", "nodes"): _node,
            ("", "pods"): self._pod,
            ("resource.k8s.io", "resourceclaims"): self._get_related,
            ("resource.k8s.io", "resourceslices"): self._resource_slice,
            ("storage.k8s.io", "volumeattachments"): self._get_related,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("coordination.k8s.io", "leases"): _lease,
        }

    def decide(self, user: User, action: Action) -> Decision:
        """The decision for a user; a denial is left to the next authorizer."""
        node = node_of(user)
        if node is None:
            return DENIED
        if not node:
            return Decision(False, f'unknown node for user "{user.name}"')
        check = None if action.path else self._checks.get((action.group, action.resource))
        if check is not None:
            return check(node, action)
        return Decision(any(rule.allows(action) for rule in self._rules))

    def _read_related(self, node: str, action: Action) -> Decision:
        """A read of single objects in a namespace that the node's pods refer to."""
        if action.verb not in _READ:
            return Decision(False, "can only read resources of this type")
        if action.subresource:
            return Decision(False, "cannot read subresource")
        if not action.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._related(node, action)

    def _get_related(self, node: str, action: Action) -> Decision:
        if action.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if action.subresource:
            return Decision(False, "cannot get subresource")
        return self._related(node, action)

    def _claim(self, node: str, action: Action) -> Decision:
        if action.subresource != "status":
            return self._get_related(node, action)
        if action.verb not in ("update", "patch"):
            return Decision(False, "can only get/update/patch this type")
        return self._related(node, action)

    def _service_account(self, node: str, action: Action) -> Decision:
        if action.verb == "get" and not action.subresource:
            return self._read_related(node, action)
        if action.verb != "create" or not action.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if action.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._related(node, action)

    def _pod(self, node: str, action: Action) -> Decision:
        match (action.subresource, action.verb):
            case ("", "get"):
                return self._get_related(node, action)
            case ("", "list" | "watch"):
                if action.selected_node == node:
                    return ALLOWED
                if action.name:
                    return self._related(node, action)
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return ALLOWED  # NodeRestriction limits it to pods of the node
        return DENIED

    def _resource_slice(self, node: str, action: Action) -> Decision:
        if action.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        match action.verb:
            case "create":
                return ALLOWED  # NodeRestriction checks spec.nodeName
            case "list" | "watch" | "deletecollection":
                if action.selected_node == node:
                    return ALLOWED
                return Decision(
                    False, "can only list/watch/deletecollection resourceslices with nodeName field selector"
                )
            case "get" | "update" | "patch" | "delete":
                return self._related(node, action)
        return Decision(
            False,
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
            "delete, deletecollection",
        )

    def _related(self, node: str, action: Action) -> Decision:
        if not action.name:
            return Decision(False, "No Object name found")
        if self._is_related(node, Reference(action.resource, action.namespace, action.name)):
            return ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _is_related(self, node: str, wanted: Reference) -> bool:
        match wanted.resource:
            case "pods":
                return any(_key(pod) == (wanted.namespace, wanted.name) for pod in self._pods_on_node(node))
            case "persistentvolumes":
                return self._uses_volume(node, wanted.name)
            case "volumeattachments":
                attachment = self._lookup.find(VOLUME_ATTACHMENT, Key("", wanted.name)) or {}
                return (attachment.get("spec") or {}).get("nodeName") == node
            case "resourceslices":
                found = self._lookup.find(RESOURCE_SLICE, Key("", wanted.name)) or {}
                return (found.get("spec") or {}).get("nodeName") == node
        if any(wanted in pod_references(pod) for pod in self._own_pods(node, wanted.namespace)):
            return True
        return wanted.resource == "secrets" and self._is_secret_of_volume(node, wanted)

    def _own_pods(self, node: str, namespace: str = "") -> Iterable[Manifest]:
        """The pods that give their node access to other objects. Mirror pods, which kubelets create, do not."""
        for pod in self._pods_on_node(node):
            metadata = pod["metadata"]
            if namespace and metadata.get("namespace") != namespace:
                continue
            if MIRROR not in (metadata.get("annotations") or ()):
                yield pod

    def _uses_volume(self, node: str, name: str) -> bool:
        volume = self._lookup.find(PERSISTENT_VOLUME, Key("", name)) or {}
        claim = (volume.get("spec") or {}).get("claimRef") or {}
        wanted = Reference("persistentvolumeclaims", claim.get("namespace") or "", claim.get("name") or "")
        return bool(wanted.name) and self._is_related(node, wanted)

    def _is_secret_of_volume(self, node: str, wanted: Reference) -> bool:
        """Whether a claim of the node's pods is bound to a volume that needs the secret."""
        for pod in self._own_pods(node):
            for reference in pod_references(pod):
                if reference.resource != "persistentvolumeclaims":
                    continue
                key = Key(reference.namespace, reference.name)
                claim = self._lookup.find(PERSISTENT_VOLUME_CLAIM, key) or {}
                volume_name = (claim.get("spec") or {}).get("volumeName")
                volume = self._lookup.find(PERSISTENT_VOLUME, Key("", volume_name)) if volume_name else None
                bound = ((volume or {}).get("spec") or {}).get("claimRef") or {}
                if volume is None or (bound.get("namespace"), bound.get("name")) != key:
                    continue
                if wanted in volume_secrets(volume):
                    return True
        return False


def _node(node: str, action: Action) -> Decision:
    match (action.subresource, action.verb):
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return ALLOWED  # NodeRestriction limits it to the own node
        case ("", "get" | "list" | "watch"):
            if action.name == node:
                return ALLOWED
            if not action.name:
                return Decision(False, f"node '{node}' cannot read all nodes, only its own Node object")
            return Decision(False, f"node '{node}' cannot read '{action.name}', only its own Node object")
    return DENIED


def _lease(node: str, action: Action) -> Decision:
    if action.verb not in _OWN_OBJECT_VERBS:
        return Decision(False, "can only get, create, update, patch, or delete a node lease")
    if action.namespace != LEASE_NAMESPACE:
        return Decision(False, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    if action.verb != "create" and action.name != node:
        return Decision(False, "can only access node lease with the same name as the requesting node")
    return ALLOWED


def _csi_node(node: str, action: Action) -> Decision:
    if action.verb not in _OWN_OBJECT_VERBS:
        return Decision(False, "can only get, create, update, patch, or delete a CSINode")
    if action.subresource:
        return Decision(False, "cannot authorize CSINode subresources")
    if action.verb != "create" and action.name != node:
        return Decision(False, "can only access CSINode with the same name as the requesting node")
    return ALLOWED


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
