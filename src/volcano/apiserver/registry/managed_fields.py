"""Field managers: maintains metadata.managedFields on every write with a field manager, and on objects that
have them."""

from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.registry.kind_table import Address, address_of
from volcano.apiserver.registry.object_meta import metadata_of
from volcano.apiserver.storage.content_cache import IdentityCache
from volcano.base.clock import Instant
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import PatchType
from volcano.kube.patches import apply as patches

# The manager of writes by the cluster's own components, which name none.
DEFAULT_MANAGER = "volcano"


class FieldManagers:
    """Tracks field managers. Caches compiled schemas."""

    def __init__(self) -> None:
        self._schemas: dict[Address, tuple[Served, patches.Schema]] = {}
        self._pod_specs: IdentityCache[patches.FieldSetsByOutline] = IdentityCache()

    def track(
        self, served: Served, request: Attributes, new: Manifest, old: Manifest | None, now: Instant
    ) -> None:
        """Records the fields that a write sets or changes; objects without managed fields stay so unless a
        manager is named."""
        manager = request.options.field_manager
        if request.options.patch_type is PatchType.APPLY:
            return  # recorded by the apply patch
        if not manager and "managedFields" not in new["metadata"]:
            return
        patches.track_update(
            self._schema(served),
            old,
            new,
            manager or DEFAULT_MANAGER,
            now.timestamp(),
            request.subresource,
            served.kind.api_version,
            self._pod_specs if served.kind == POD else None,
        )

    def apply(
        self, served: Served, request: Attributes, old: Manifest | None, patch: Manifest, now: Instant
    ) -> Manifest:
        """The object after an apply patch, with its managers; `old` is None on creation."""
        metadata = metadata_of(patch)
        name = metadata.setdefault("name", request.key.name)
        if name != request.key.name:
            raise BadRequest(
                f"the name of the object ({name}) does not match the name on the URL ({request.key.name})"
            )
        if served.kind.namespaced:
            metadata.setdefault("namespace", request.key.namespace)
        return patches.apply_patch(
            self._schema(served),
            old,
            patch,
            request.options.field_manager,
            request.options.force,
            now.timestamp(),
            request.subresource,
            served.kind.api_version,
        )

    def _schema(self, served: Served) -> patches.Schema:
        address = address_of(served.kind)
        known = self._schemas.get(address)
        if known is not None and known[0] is served:
            return known[1]
        schema = patches.built_in(served.kind.api_version, served.kind.kind) if not served.crd else None
        if schema is None:
            schema = patches.custom(served.schema, status="status" in served.kind.subresources)
        self._schemas[address] = (served, schema)
        return schema
