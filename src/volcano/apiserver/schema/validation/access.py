"""What the kinds that decide who may do what must look like: roles, bindings and admission webhooks."""

from urllib.parse import urlsplit

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import label_selector
from volcano.apiserver.schema.validation.names import dns_subdomain
from volcano.kube import kinds
from volcano.kube.manifest import Manifest

_RBAC = kinds.ROLE.group
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


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
            for index, value in enumerate(rule.get(name) or ()):
                if not value and name in ("apiVersions", "resources"):
                    yield field.required(f"{where}.{name}[{index}]")
        for index, operation in enumerate(rule.get("operations") or ()):
            if operation not in _OPERATIONS:
                yield field.unsupported(f"{where}.operations[{index}]", operation, _OPERATIONS)
    yield from field.one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
    yield from field.one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), ("Equivalent", "Exact"))
    effects = ("None", "NoneOnDryRun")
    if not hook.get("sideEffects"):
        yield field.required(f"{path}.sideEffects", f"must specify one of {', '.join(effects)}")
    yield from field.one_of(f"{path}.sideEffects", hook.get("sideEffects"), effects)
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        yield field.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif not {"v1", "v1beta1"} & set(versions):
        yield field.invalid(
            f"{path}.admissionReviewVersions", versions, "must include at least one of v1, v1beta1"
        )
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
        # parity: a real server blames the one for the other.
        for name, blamed in (("name", "namespace"), ("namespace", "name")):
            if not service.get(name):
                yield field.required(f"{path}.service.{blamed}")
