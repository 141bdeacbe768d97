"""Admission of pods: priority, service account, limits of the namespace, tolerations."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from operator import is_
from typing import NamedTuple

import orjson

from volcano.apiserver.admission.limit_ranges import apply_defaults, limit_violations
from volcano.apiserver.errors import forbidden
from volcano.apiserver.interfaces import Attributes, Lookup, admission_plugin
from volcano.apiserver.storage.content_cache import IdentityCache
from volcano.kube.api import kinds
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.resources.qos import qos_class

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607
_MIRROR = "kubernetes.io/config.mirror"
_TOLERATION_SECONDS = 300
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TO_RUN = {"NoExecute", ""}


class _CompletedSpec(NamedTuple):
    """A completed spec, and every input that it depends on."""

    spec: Manifest
    qos: str
    seen: tuple[object, ...]

    def is_current(self, seen: tuple[object, ...]) -> bool:
        """Whether the inputs are unchanged: the namespace by name, the objects by identity."""
        same_place = len(self.seen) == len(seen) and self.seen[0] == seen[0]
        return same_place and all(map(is_, self.seen[1:], seen[1:]))


class PodAdmission:
    """Admission plugin that completes new pods before webhooks. A spec that pods share is completed once."""

    def __init__(self) -> None:
        self._completed: IdentityCache[_CompletedSpec] = IdentityCache()

    def handles(self, kind: Kind) -> bool:
        return kind in (kinds.POD, kinds.PRIORITY_CLASS)

    async def __call__(
        self, attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None or attributes.subresource:
            return new
        if attributes.kind == kinds.PRIORITY_CLASS:
            _only_default(attributes, new, lookup)
        if attributes.kind == kinds.POD and attributes.verb == "create":
            ranges = lookup.all(kinds.LIMIT_RANGE, attributes.key.namespace)
            if ranges or _MIRROR in (new["metadata"].get("annotations") or ()):
                _complete(attributes, new, lookup, ranges)
            else:
                self._complete_cached(attributes, new, lookup)
        return new

    def _complete_cached(self, attributes: Attributes, pod: Manifest, lookup: Lookup) -> None:
        spec, namespace = pod["spec"], attributes.key.namespace
        account = lookup.find(kinds.SERVICE_ACCOUNT, Key(namespace, _account_name(spec)))
        seen = (namespace, account, *lookup.all(kinds.PRIORITY_CLASS))
        completed = self._completed.get(spec)
        if completed is not None and completed.is_current(seen):
            pod["spec"], pod["status"]["qosClass"] = completed.spec, completed.qos
        else:
            _complete(attributes, pod, lookup, ())
            self._completed.put(spec, _CompletedSpec(pod["spec"], pod["status"]["qosClass"], seen))


def _complete(attributes: Attributes, pod: Manifest, lookup: Lookup, ranges: Sequence[Manifest]) -> None:
    pod["spec"] = orjson.loads(orjson.dumps(pod["spec"]))  # the original is shared with other pods
    apply_defaults(pod, ranges)
    _account(attributes, pod, lookup)
    _priority(attributes, pod, lookup)
    _tolerate(pod["spec"])
    pod["status"]["qosClass"] = qos_class(pod["spec"])


def _account_name(spec: Manifest) -> str:
    return spec.get("serviceAccountName") or "default"


def _account(attributes: Attributes, pod: Manifest, lookup: Lookup) -> None:
    """Sets the service account of a pod and mounts its token."""
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        return
    spec, namespace = pod["spec"], attributes.key.namespace
    name = _account_name(spec)
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = lookup.find(kinds.SERVICE_ACCOUNT, Key(namespace, name))
    if account is None:
        raise _denied(
            attributes,
            f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found',
        )
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = account.get("automountServiceAccountToken")
    if wanted is not False:
        _mount_token(spec, namespace, name)


def _mount_token(spec: Manifest, namespace: str, account: str) -> None:
    missing = [
        container
        for name in ("initContainers", "containers")
        for container in spec.get(name) or ()
        if all(mount.get("mountPath") != _TOKEN_FOLDER for mount in container.get("volumeMounts") or ())
    ]
    if not missing:
        return
    name = "kube-api-access-" + _suffix(namespace, account)
    for container in missing:
        mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_FOLDER}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    present = spec.get("volumes") or ()
    if all(volume.get("name") != name for volume in present):
        spec["volumes"] = [*present, _token_volume(name)]


@lru_cache(maxsize=1024)
def _suffix(namespace: str, account: str) -> str:
    """The same for all pods of an account, so that equal pods are stored with equal specs and validated once."""
    digest = hashlib.sha256(f"{namespace}/{account}".encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])


def _token_volume(name: str) -> Manifest:
    where = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": where}]}},
            ],
            "defaultMode": 0o644,
        },
    }


def _priority(attributes: Attributes, pod: Manifest, lookup: Lookup) -> None:
    """Sets priority and preemption policy from the pod's priority class, or from the default one."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        found = lookup.find(kinds.PRIORITY_CLASS, Key("", name))
        if found is None:
            raise _denied(attributes, f"no PriorityClass with name {name} was found")
    else:
        defaults = [each for each in lookup.all(kinds.PRIORITY_CLASS) if each.get("globalDefault")]
        found = min(defaults, key=lambda each: int(each.get("value") or 0), default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = int((found or {}).get("value") or 0)
    given = spec.get("priority")
    if given is not None and given != value:
        raise _denied(
            attributes,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    chosen = spec.get("preemptionPolicy")
    if chosen is not None and chosen != policy:
        raise _denied(
            attributes,
            f"the string value of PreemptionPolicy ({chosen}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _only_default(attributes: Attributes, new: Manifest, lookup: Lookup) -> None:
    if not new.get("globalDefault"):
        return
    for other in lookup.all(kinds.PRIORITY_CLASS):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != new["metadata"].get("name"):
            raise _denied(
                attributes, f"PriorityClass {name} is already marked as default. Only one default can exist"
            )


def _tolerate(spec: Manifest) -> None:
    """Adds tolerations of five minutes for not-ready and unreachable nodes, unless the pod has its own."""
    present = spec.get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _UNREACHABLE
        if not any(
            each.get("key") in (key, None, "") and (each.get("effect") or "") in _TO_RUN for each in present
        )
    ]
    if added:
        spec["tolerations"] = [*present, *added]


@admission_plugin(kinds.POD, kinds.PERSISTENT_VOLUME_CLAIM)
async def admit_limits(
    attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    """Admission plugin for LimitRanges, after webhooks: rejects values outside of minimum and maximum."""
    relevant = (kinds.POD, kinds.PERSISTENT_VOLUME_CLAIM)
    if new is None or attributes.kind not in relevant or attributes.subresource not in ("", "resize"):
        return new
    if old is not None and attributes.kind == kinds.POD and not attributes.subresource:
        return new
    for limits in lookup.all(kinds.LIMIT_RANGE, attributes.key.namespace):
        violations = list(limit_violations(attributes.kind, new, limits))
        if violations:
            text = violations[0] if len(violations) == 1 else f"[{', '.join(violations)}]"
            raise _denied(attributes, text)
    return new


def _denied(attributes: Attributes, why: str) -> Forbidden:
    return forbidden(attributes.kind, attributes.key.name, why)
