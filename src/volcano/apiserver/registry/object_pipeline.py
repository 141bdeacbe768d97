"""From the object of a request to the object to store: pruning, defaults, admission, validation, field managers."""

import orjson

from volcano.apiserver.errors import conflict, invalid
from volcano.apiserver.interfaces import AdmissionFunction, Attributes, Lookup, Served, Strategy
from volcano.apiserver.registry import object_meta, subresources
from volcano.apiserver.registry.managed_fields import FieldManagers
from volcano.apiserver.registry.object_meta import NewUid
from volcano.apiserver.registry.update_rules import CONDITIONAL_ONLY
from volcano.base.clock import Clock
from volcano.kube.api.errors import BadRequest, Cause
from volcano.kube.api.manifest import Manifest


class ObjectPipeline:
    """Completes and validates the objects of writes. Suspends only in admission."""

    def __init__(
        self,
        lookup: Lookup,
        clock: Clock,
        new_uid: NewUid,
        admit: AdmissionFunction | None,
        managers: FieldManagers,
    ) -> None:
        self._lookup = lookup
        self._clock = clock
        self._new_uid = new_uid
        self._admit = admit
        self._managers = managers

    async def create(
        self, request: Attributes, served: Served, manifest: Manifest, *, reused_spec: bool
    ) -> Manifest:
        """The new object to store. A reused spec needs no pruning and no defaults. Raises Invalid."""
        strategy, now = served.strategy, self._clock.now()
        if not reused_spec:
            strategy.prune(manifest)
        # First, as in kube-apiserver: the labels of a batch Job, for example, contain its uid.
        object_meta.set_identity(manifest["metadata"], self._new_uid, now)
        if not reused_spec:
            strategy.default(manifest)
        strategy.prepare_for_create(manifest, now)
        if self._admit is not None:
            manifest = await self._admitted(self._admit, request, strategy, manifest, None)
        causes = strategy.validate(manifest, None, request.subresource)
        if causes:
            raise invalid(served.kind, request.key.name, causes)
        # Field managers are tracked on valid objects only: there, the entries of lists have their keys.
        self._managers.track(served, request, manifest, None, self._clock.now())
        return manifest

    async def update(self, request: Attributes, served: Served, new: Manifest, old: Manifest) -> Manifest:
        """The changed object to store. Raises Invalid or Conflict."""
        strategy, now = served.strategy, self._clock.now()
        object_meta.keep_immutable_fields(served.kind, request.key, new, old)
        _check_version(served, request, new, old)
        strategy.prune(new, old)  # rejects fields of the wrong type
        subresources.restrict(request.subresource, new, old)
        strategy.default(new, old)
        strategy.prepare_for_update(new, old, request.subresource, now)
        if self._admit is not None:
            new = await self._admitted(self._admit, request, strategy, new, old)
        causes = object_meta.finalizer_causes(served.kind, new, old)
        causes += strategy.validate(new, old, request.subresource)
        if causes:
            raise invalid(served.kind, request.key.name, causes)
        self._managers.track(served, request, new, old, now)
        return new

    async def admit_body(self, request: Attributes, body: Manifest) -> Manifest:
        """The body of a POST to a subresource after admission."""
        if self._admit is None:
            return body
        admitted = await self._admit(request, body, None, self._lookup)
        return body if admitted is None else admitted

    @property
    def admits(self) -> bool:
        return self._admit is not None

    async def admit_deletion(self, request: Attributes, old: Manifest) -> None:
        if self._admit is not None:
            await self._admit(request, None, old, self._lookup)

    async def _admitted(
        self,
        admit: AdmissionFunction,
        request: Attributes,
        strategy: Strategy,
        new: Manifest,
        old: Manifest | None,
    ) -> Manifest:
        """The object after admission, with the defaults of the fields that admission added."""
        # Admission changes nearly every new object: comparing would cost more than it saves.
        before = None if old is None else orjson.dumps(new)
        admitted = await admit(request, new, old, self._lookup)
        assert admitted is not None, "admission must return the object to store"
        if before is None or orjson.dumps(admitted) != before:
            strategy.default(admitted, old)
            if old is not None:
                strategy.prepare_for_update(admitted, old, request.subresource, self._clock.now())
        return admitted


def check_fields(strategy: Strategy, request: Attributes, manifest: Manifest) -> tuple[str, ...]:
    """Warnings about unknown fields. Raises BadRequest when the client asked for strict validation."""
    if request.options.field_validation not in ("Strict", "Warn"):
        return ()
    unknown = strategy.unknown_fields(manifest)
    if unknown and request.options.field_validation == "Strict":
        kind = request.kind
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {', '.join(unknown)}"
        )
    return tuple(unknown)


def _check_version(served: Served, request: Attributes, new: Manifest, old: Manifest) -> None:
    given, present = new["metadata"].get("resourceVersion"), old["metadata"]["resourceVersion"]
    if not given or given == "0":
        if request.verb == "update" and (served.crd or served.storage.resource in CONDITIONAL_ONLY):
            message = "Invalid value: 0x0: must be specified for an update"
            cause = Cause("FieldValueInvalid", message, "metadata.resourceVersion")
            raise invalid(served.kind, request.key.name, [cause])
    elif given != present:
        raise conflict(served.kind, request.key.name)
    new["metadata"]["resourceVersion"] = present
