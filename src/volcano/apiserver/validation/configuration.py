"""What configuration, quotas, priorities, access rules, webhooks, events and nodes must look like."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from volcano.apiserver.validation import field
from volcano.apiserver.validation.field import Causes
from volcano.apiserver.validation.metadata import label_selector
from volcano.apiserver.validation.names import cidr, config_key, dns_subdomain, qualified_name
from volcano.apiserver.validation.resources import amount, container_name, quota_name
from volcano.apiserver.validation.scheduling import taints
from volcano.kube import kinds, quantity
from volcano.kube.manifest import Manifest

_LARGEST = 1024 * 1024
_RBAC = kinds.ROLE.group
# What a secret of a well-known type must hold.
_SECRET_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_TOKEN_OWNER = "kubernetes.io/service-account.name"


def config_map(manifest: Manifest) -> Causes:
    """Complaints about a ConfigMap."""
    data, binary = manifest.get("data") or {}, manifest.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        yield from field.each(f"data[{key}]", key, config_key(key))
        if key in binary:
            yield field.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(value.encode())
    for key, value in binary.items():
        yield from field.each(f"binaryData[{key}]", key, config_key(key))
        size += len(value) * 3 // 4
    if size > _LARGEST:
        yield field.too_long("", _LARGEST)


def config_map_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from _frozen(new, old, ("data", "binaryData"))


def _frozen(new: Manifest, old: Manifest, names: tuple[str, ...]) -> Causes:
    """An object that was declared immutable stays as it is."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield field.forbidden("immutable", "field is immutable when `immutable` is set")
    for name in names:
        if (new.get(name) or {}) != (old.get(name) or {}):
            yield field.forbidden(name, "field is immutable when `immutable` is set")


def secret(manifest: Manifest) -> Causes:
    """Complaints about a Secret."""
    data, kind = manifest.get("data") or {}, manifest.get("type") or ""
    size = 0
    for key, value in data.items():
        yield from field.each(f"data[{key}]", key, config_key(key))
        size += len(value) * 3 // 4
    if size > _LARGEST:
        yield field.too_long("data", _LARGEST)
    owner = (manifest["metadata"].get("annotations") or {}).get(_TOKEN_OWNER)
    if kind == "kubernetes.io/service-account-token" and not owner:
        yield field.required(f"metadata.annotations[{_TOKEN_OWNER}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield field.required("data[username]")
        yield field.required("data[password]")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield field.required(f"data[{key}]")
        elif key.startswith(".docker") and not _is_json(data[key]):
            yield field.invalid(f"data[{key}]", "<secret contents redacted>", "invalid character in JSON")


def _is_json(encoded: str) -> bool:
    try:
        json.loads(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        return False
    return True


def secret_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    yield from field.immutable("type", new.get("type"), old.get("type"))
    yield from _frozen(new, old, ("data",))


SYSTEM_PRIORITIES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_HIGHEST = 1_000_000_000


def priority_class(manifest: Manifest) -> Causes:
    """Complaints about a PriorityClass."""
    name, value = manifest["metadata"].get("name") or "", manifest.get("value") or 0
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            yield field.forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class",
            )
    elif value > _HIGHEST:
        yield field.forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    policy = manifest.get("preemptionPolicy")
    yield from field.one_of("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def priority_class_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield field.forbidden("value", "may not be changed in an update.")
    yield from field.immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)  # fmt: skip
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods")


def resource_quota(manifest: Manifest) -> Causes:
    """Complaints about a ResourceQuota."""
    spec = manifest.get("spec") or {}
    for name, value in (spec.get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        yield from quota_name(name, path)
        yield from amount(name, value, path)
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in SCOPES:
            yield field.invalid("spec.scopes", scopes, "unsupported scope")
        elif any(not _scope_fits(scope, name) for name in spec.get("hard") or {}):
            yield field.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        yield field.invalid("spec.scopes", scopes, "conflicting scopes")


def _scope_fits(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    return name in _COMPUTE or name.startswith(("requests.", "limits.")) or "/" in name


def resource_quota_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    after, before = (new.get("spec") or {}).get("scopes") or [], (old.get("spec") or {}).get("scopes") or []
    if subresource != "status" and sorted(after) != sorted(before):
        yield field.invalid("spec.scopes", after, field.IMMUTABLE)


_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def limit_range(manifest: Manifest) -> Causes:
    """Complaints about a LimitRange."""
    seen: set[str] = set()
    for where, item in field.items(manifest.get("spec") or {}, "limits", "spec"):
        kind = item.get("type") or ""
        if kind not in _LIMIT_TYPES and "/" not in kind:
            yield field.invalid(f"{where}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield field.duplicate(f"{where}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for name in ("default", "defaultRequest"):
                if item.get(name):
                    yield field.forbidden(f"{where}.{name}", "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not _bounds_storage(item):
            text = "either minimum or maximum storage value is required, but neither was provided"
            yield field.required(f"{where}.limits", text)
        yield from _limits(item, where, kind)


def _bounds_storage(item: Manifest) -> bool:
    return any("storage" in (item.get(name) or {}) for name in ("min", "max"))


def _limits(item: Manifest, path: str, kind: str) -> Causes:
    parts = {
        name: item.get(name) or {}
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    }
    pod = kind == "Pod"
    for name in sorted({key for part in parts.values() for key in part}):
        if kind == "Container":
            yield from container_name(
                name, f"{path}.max[{name}]" if name in parts["max"] else f"{path}[{name}]"
            )
        top, low, usual, asked, ratio = (parts[part].get(name) for part in parts)
        yield from _ordered(path, name, "min", low, "min value", top, "max value")
        if pod:
            continue
        yield from _ordered(
            path, name, "defaultRequest", low, "min value", asked, "default request value", shown=asked
        )
        yield from _ordered(path, name, "defaultRequest", asked, "default request value", top, "max value")
        yield from _ordered(
            path, name, "defaultRequest", asked, "default request value", usual, "default limit value"
        )
        yield from _ordered(path, name, "default", low, "min value", usual, "default value", shown=low)
        yield from _ordered(path, name, "default", usual, "default value", top, "max value", shown=top)
        if ratio is not None and quantity.parse(ratio) < 1:
            yield field.invalid(
                f"{path}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1"
            )


def _ordered(
    path: str, name: str, part: str, low: Any, low_name: str, high: Any, high_name: str, *, shown: Any = None
) -> Causes:
    """A complaint when the first amount is greater than the second."""
    if low is not None and high is not None and quantity.parse(low) > quantity.parse(high):
        text = f"{low_name} {low} is greater than {high_name} {high}"
        yield field.invalid(f"{path}.{part}[{name}]", str(low if shown is None else shown), text)


def node(manifest: Manifest) -> Causes:
    """Complaints about a node."""
    spec = manifest.get("spec") or {}
    if spec.get("taints"):
        yield from taints(spec["taints"], "metadata.taints")  # parity: the path is the real server's
    for index, value in enumerate(spec.get("podCIDRs") or ()):
        yield from field.each(f"spec.podCIDRs[{index}]", value, cidr(value))


def role(manifest: Manifest) -> Causes:
    """Complaints about a Role."""
    yield from _rules(manifest, namespaced=True)


def cluster_role(manifest: Manifest) -> Causes:
    """Complaints about a ClusterRole."""
    yield from _rules(manifest, namespaced=False)
    for index, selector in enumerate(
        (manifest.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    ):
        yield from label_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")


def _rules(manifest: Manifest, *, namespaced: bool) -> Causes:
    for index, rule in enumerate(manifest.get("rules") or ()):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs") or []
        if not rule.get("verbs"):
            yield field.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield field.invalid(f"{path}.nonResourceURLs", urls, text)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield field.invalid(f"{path}.nonResourceURLs", urls, text)
            continue
        if not rule.get("apiGroups"):
            yield field.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield field.required(f"{path}.resources", "resource rules must supply at least one resource")


def role_binding(manifest: Manifest) -> Causes:
    """Complaints about a RoleBinding."""
    yield from _binding(manifest, ("Role", "ClusterRole"))


def cluster_role_binding(manifest: Manifest) -> Causes:
    """Complaints about a ClusterRoleBinding."""
    yield from _binding(manifest, ("ClusterRole",))
    for index, subject in enumerate(manifest.get("subjects") or ()):
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            yield field.required(f"subjects[{index}].namespace")


def _binding(manifest: Manifest, allowed: tuple[str, ...]) -> Causes:
    reference = manifest.get("roleRef") or {}
    if reference.get("apiGroup") != _RBAC:
        yield field.unsupported("roleRef.apiGroup", reference.get("apiGroup") or "", [_RBAC])
    if reference.get("kind") not in allowed:
        yield field.unsupported("roleRef.kind", reference.get("kind") or "", allowed)
    if not reference.get("name"):
        yield field.required("roleRef.name")
    for index, subject in enumerate(manifest.get("subjects") or ()):
        yield from _subject(subject, f"subjects[{index}]")


def _subject(subject: Manifest, path: str) -> Causes:
    name, kind, group = subject.get("name") or "", subject.get("kind"), subject.get("apiGroup") or ""
    if not name:
        yield field.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from field.each(f"{path}.name", name, dns_subdomain(name))
        if group:
            yield field.unsupported(f"{path}.apiGroup", group, [""])
    elif kind in ("User", "Group"):
        if group != _RBAC:
            yield field.unsupported(f"{path}.apiGroup", group, [_RBAC])
    else:
        yield field.unsupported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))


def binding_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    reference = new.get("roleRef") or {}
    if reference != (old.get("roleRef") or {}):
        shown = {
            "APIGroup": reference.get("apiGroup"),
            "Kind": reference.get("kind"),
            "Name": reference.get("name"),
        }
        yield field.invalid("roleRef", shown, "cannot change roleRef")


_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


def webhooks(manifest: Manifest) -> Causes:
    """Complaints about a webhook configuration."""
    seen: set[str] = set()
    for index, hook in enumerate(manifest.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", hook.get("name") or ""
        if not name:
            yield field.required(f"{path}.name")
        elif complaints := dns_subdomain(name):
            yield field.invalid(f"{path}.name", name, ",".join(complaints))
        elif name.count(".") < 2:
            text = "should be a domain with at least three segments separated by dots"
            yield field.invalid(f"{path}.name", name, text)
        if name in seen:
            yield field.duplicate(f"{path}.name", name)
        seen.add(name)
        yield from _webhook(hook, path)


def _webhook(hook: Manifest, path: str) -> Causes:
    for where, rule in field.items(hook, "rules", path):
        for name in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(name):
                yield field.required(f"{where}.{name}")
        for index, operation in enumerate(rule.get("operations") or ()):
            if operation not in _OPERATIONS:
                yield field.unsupported(f"{where}.operations[{index}]", operation, _OPERATIONS)
    yield from field.one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
    yield from field.one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), ("Equivalent", "Exact"))
    effects = ("None", "NoneOnDryRun")
    if not hook.get("sideEffects"):
        yield field.required(f"{path}.sideEffects", f"must specify one of {', '.join(effects)}")
    yield from field.one_of(f"{path}.sideEffects", hook.get("sideEffects"), effects)
    if not hook.get("admissionReviewVersions"):
        yield field.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        yield field.invalid(
            f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"
        )
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector(hook.get(name), f"{path}.{name}")
    yield from _client(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _client(config: Manifest, path: str) -> Causes:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield field.required(path, "exactly one of url or service is required")
    elif url is not None:
        parts = urlsplit(url)
        form = "; desired format: https://host[/path]"
        if parts.scheme != "https":
            yield field.invalid(f"{path}.url", parts.scheme, f"'https' is the only allowed URL scheme{form}")
        if not parts.netloc:
            yield field.invalid(f"{path}.url", "", f"host must be specified{form}")
    elif service is not None:
        for name in ("name", "namespace"):
            if not service.get(name):
                yield field.required(f"{path}.service.{name}", f"service {name} is required")


def event(manifest: Manifest) -> Causes:
    """Complaints about a core event: it lives where the object it is about does."""
    about = (manifest.get("involvedObject") or {}).get("namespace") or ""
    namespace = manifest["metadata"].get("namespace") or ""
    if about != namespace and not (not about and namespace in ("default", "kube-system")):
        yield field.invalid("involvedObject.namespace", about, "does not match event.namespace")


def new_event(manifest: Manifest) -> Causes:
    """Complaints about an event of events.k8s.io."""
    if not manifest.get("eventTime"):
        yield field.required("eventTime")
    controller = manifest.get("reportingController") or ""
    if not controller:
        yield field.required("reportingController")
    yield from field.each("reportingController", controller, qualified_name(controller))
    for name in ("reportingInstance", "action", "reason"):
        if not manifest.get(name):
            yield field.required(name)
    if manifest.get("type") not in ("Normal", "Warning"):
        yield field.invalid("type", "", f"has invalid value: {manifest.get('type') or ''}")
    about = (manifest.get("regarding") or {}).get("namespace") or ""
    namespace = manifest["metadata"].get("namespace") or ""
    if about and about != namespace:
        yield field.invalid("regarding.namespace", about, "does not match event.namespace")


def service_account(manifest: Manifest) -> Causes:
    """Complaints about a ServiceAccount: nothing beyond its metadata."""
    return iter(())


def namespace(manifest: Manifest) -> Causes:
    """Complaints about a namespace's finalizers."""
    for index, name in enumerate((manifest.get("spec") or {}).get("finalizers") or ()):
        yield from field.each(f"spec.finalizers[{index}]", name, qualified_name(name))
        if "/" not in name and name != "kubernetes":
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield field.invalid(f"spec.finalizers[{index}]", name, text)


def csi_node(manifest: Manifest) -> Causes:
    """Complaints about a CSINode."""
    for where, driver in field.items(manifest.get("spec") or {}, "drivers", "spec"):
        name = driver.get("name") or ""
        yield from field.each(f"{where}.name", name, dns_subdomain(name))
        if not driver.get("nodeID"):
            yield field.required(f"{where}.nodeID")


def volume_attachment(manifest: Manifest) -> Causes:
    """Complaints about a VolumeAttachment."""
    spec = manifest.get("spec") or {}
    for name in ("attacher", "nodeName"):
        if not spec.get(name):
            yield field.required(f"spec.{name}")
    source = spec.get("source") or {}
    if not source.get("persistentVolumeName") and source.get("inlineVolumeSpec") is None:
        yield field.required(
            "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        )
