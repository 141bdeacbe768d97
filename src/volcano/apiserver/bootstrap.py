"""Objects that every cluster has: the first namespaces, the default roles and the system priority classes."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from volcano.apiserver.authz.actions import missing, rule_of
from volcano.apiserver.authz.bootstrap_roles import FORMER_SUBJECTS, default_rbac, subject_of
from volcano.apiserver.interfaces import Attributes
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.schema.validation.policies import SYSTEM_PRIORITIES
from volcano.kube.api.errors import AlreadyExists
from volcano.kube.api.kinds import CLUSTER_ROLE, NAMESPACE, ROLE, Kind
from volcano.kube.api.manifest import Manifest, annotations_of, key_of
from volcano.kube.client.protocol import DEFAULTS

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_DESCRIPTIONS = {
    "system-cluster-critical": "For system pods that the cluster cannot do without.",
    "system-node-critical": "For system pods that their node cannot do without.",
}
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
ROLES = (ROLE, CLUSTER_ROLE)
OPTIONS = replace(DEFAULTS, field_manager="volcano")


async def bootstrap(registry: Registry) -> None:
    """Creates the first namespaces and the default roles where they are missing."""
    names = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    await asyncio.gather(*(_ensure(registry, NAMESPACE, manifest) for manifest in names))
    await asyncio.gather(*(_ensure_rbac(registry, kind, manifest) for kind, manifest in default_rbac()))


async def _ensure_rbac(registry: Registry, kind: Kind, manifest: Manifest) -> None:
    """Creates a role or binding, or adds what a newer version needs to one that exists, as kube-apiserver does: rules
    and subjects of administrators stay, and the annotation `autoupdate: "false"` prevents changes."""
    present = registry.lookup.find(kind, key_of(manifest))
    if present is None:
        await _ensure(registry, kind, manifest)
        return
    if annotations_of(present).get(AUTOUPDATE) != "true":
        return
    changed = _with_rules(present, manifest) if kind in ROLES else _with_subjects(present, manifest)
    if changed is not None:
        await registry.update(Attributes("update", kind, key_of(manifest), options=OPTIONS), changed)


def _with_rules(present: Manifest, wanted: Manifest) -> Manifest | None:
    """The role with the rules that it lacks; None when it has them all. Aggregated rules are computed anyway."""
    held = [rule_of(rule) for rule in present.get("rules") or ()]
    lacking = [rule for rule in wanted["rules"] if missing([rule_of(rule)], held)]
    if not lacking or "aggregationRule" in wanted:
        return None
    return {**present, "rules": [*(present.get("rules") or ()), *lacking]}


def _with_subjects(present: Manifest, wanted: Manifest) -> Manifest | None:
    """The binding with the subjects that it lacks and without those that earlier versions set."""
    former = [subject_of(*subject) for subject in FORMER_SUBJECTS.get(wanted["metadata"]["name"], ())]
    held = [subject for subject in present.get("subjects") or () if subject not in former]
    lacking = [subject for subject in wanted["subjects"] if subject not in held]
    if not lacking and held == list(present.get("subjects") or ()):
        return None
    return {**present, "subjects": [*held, *lacking]}


async def _ensure(registry: Registry, kind: Kind, manifest: Manifest) -> None:
    key = key_of(manifest)
    if registry.store.get(kind.resource, key) is not None:
        return
    with suppress(AlreadyExists):
        await registry.create(Attributes("create", kind, key, options=OPTIONS), manifest)


def system_priority_classes() -> list[Manifest]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": _PRIORITY_DESCRIPTIONS[name],
        }
        for name, value in SYSTEM_PRIORITIES.items()
    ]
