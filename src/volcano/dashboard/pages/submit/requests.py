"""Requests of the page: what the server says about objects before and when they are created."""

from collections.abc import Sequence

from volcano.dashboard.rights import Rights
from volcano.kube.api.kinds import BUILT_IN, OURS, Kind, by_gvk
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client, Options
from volcano.services.errors import Rejected

KINDS = by_gvk((*BUILT_IN, *OURS))
MANAGER = "volcano-dashboard"
HOME = "default"  # namespace of objects that name none


def kind_of(manifest: Manifest) -> Kind:
    kind = KINDS.get((manifest["apiVersion"], manifest["kind"]))
    if kind is None:
        raise Rejected(
            f"{manifest['kind']} of {manifest['apiVersion']} is not a kind that this page creates; `kubectl apply` "
            "creates any"
        )
    return kind


async def missing_rights(rights: Rights, objects: Sequence[Manifest]) -> list[str]:
    """What the viewer may not create, such as `jobs.batch.volcano.sh in namespace default`."""
    missing = []
    for manifest in objects:
        kind, namespace = kind_of(manifest), manifest["metadata"].get("namespace") or HOME
        if not await rights.may("create", kind, namespace):
            group = f".{kind.group}" if kind.group else ""
            where = f" in namespace {namespace}" if kind.namespaced else ""
            missing.append(f"{kind.plural}{group}{where}")
    return list(dict.fromkeys(missing))


async def create(client: Client, objects: Sequence[Manifest], *, dry_run: bool) -> list[Manifest]:
    """Creates the objects in their order, or asks the server whether it would. Raises ApiError."""
    options = Options(field_manager=MANAGER, field_validation="Strict", dry_run=dry_run)
    created = []
    for manifest in objects:
        kind = kind_of(manifest)
        if kind.namespaced and not manifest["metadata"].get("namespace"):
            manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": HOME}}
        created.append(await client.create(kind, manifest, options=options))
    return created
