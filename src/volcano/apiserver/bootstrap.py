"""Objects that every cluster has: the first namespaces, the default roles and the system priority classes."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from volcano.apiserver.authz.bootstrap_roles import default_rbac
from volcano.apiserver.interfaces import Attributes
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.schema.validation.policies import SYSTEM_PRIORITIES
from volcano.kube.client import DEFAULTS
from volcano.kube.errors import AlreadyExists
from volcano.kube.kinds import NAMESPACE, Kind
from volcano.kube.manifest import Manifest, key_of

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_DESCRIPTIONS = {
    "system-cluster-critical": "For system pods that the cluster cannot do without.",
    "system-node-critical": "For system pods that their node cannot do without.",
}
OPTIONS = replace(DEFAULTS, field_manager="volcano")


async def bootstrap(registry: Registry) -> None:
    """Creates the first namespaces and the default roles where they are missing."""
    names = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    await asyncio.gather(*(_ensure(registry, NAMESPACE, manifest) for manifest in names))
    await asyncio.gather(*(_ensure(registry, kind, manifest) for kind, manifest in default_rbac()))


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
