"""Validation of Roles, ClusterRoles and their bindings."""

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.apiserver.schema.validation.metadata import label_selector
from volcano.kube.api import kinds
from volcano.kube.api.formats.names import dns_subdomain
from volcano.kube.api.manifest import Manifest

_RBAC = kinds.ROLE.group


def role(manifest: Manifest) -> Causes:
    """Validates a Role."""
    yield from _rules(manifest, namespaced=True)


def cluster_role(manifest: Manifest) -> Causes:
    """Validates a ClusterRole."""
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
    """Validates a RoleBinding."""
    yield from _binding(manifest, ("Role", "ClusterRole"))


def cluster_role_binding(manifest: Manifest) -> Causes:
    """Validates a ClusterRoleBinding."""
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
