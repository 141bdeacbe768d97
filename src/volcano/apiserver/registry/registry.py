"""The verbs for any served kind: everything between a request and the store."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import orjson

from volcano.apiserver.errors import conflict, not_found
from volcano.apiserver.interfaces import AdmissionFunction, Attributes, Served
from volcano.apiserver.limits import MAX_VALUES, MIN_BYTES_PER_VALUE, check_values
from volcano.apiserver.registry import commit, namespaces, object_meta, patching, subresources
from volcano.apiserver.registry.commit import after_commit
from volcano.apiserver.registry.conversion import Conversions
from volcano.apiserver.registry.deletion import check_preconditions, plan_deletion
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.registry.managed_fields import FieldManagers
from volcano.apiserver.registry.object_meta import NewUid
from volcano.apiserver.registry.object_pipeline import ObjectPipeline, check_fields
from volcano.apiserver.registry.reads import ReadRegistry
from volcano.apiserver.registry.result import Reply, deletion_reply
from volcano.apiserver.registry.update_rules import CREATED_BY_UPDATE
from volcano.apiserver.storage.history import StoredObject
from volcano.apiserver.storage.pagination import Page
from volcano.apiserver.storage.store import Stale, Store
from volcano.base.clock import Clock
from volcano.kube.api.errors import Conflict, NotFound, SpaceExceeded
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import EVERYTHING, PatchType, Query

# Attempts of a write that names no version, when other writes come in between.
ATTEMPTS = 10
# Attempts to generate a name that is not taken.
NAME_ATTEMPTS = 8
DELETED_AT_ONCE = 50

# Builds the object that a write asks for from a copy of the present one.
Build = Callable[[Manifest], Manifest]
# Answers a TokenRequest for the ServiceAccount with a key.
IssueToken = Callable[[Key, Manifest], Manifest]
# Raises Forbidden unless the user of a request may do what it says.
Authorize = Callable[[Attributes], None]


class Registry(ReadRegistry):
    """Every verb on every kind. Suspends only in admission and until a write is durable.

    Manifests passed in belong to the registry from then on; results are encoded objects.
    """

    def __init__(
        self,
        store: Store,
        table: KindTable,
        *,
        clock: Clock,
        random: Random,
        new_uid: NewUid,
        lookup: StoreLookup | None = None,
        admit: AdmissionFunction | None = None,
        issue_token: IssueToken | None = None,
        conversions: Conversions | None = None,
        authorize: Authorize | None = None,
    ) -> None:
        super().__init__(store, table, clock, lookup or StoreLookup(store, table), conversions)
        self.issue_token = issue_token
        self._authorize = authorize
        self._random = random
        self._managers = FieldManagers()
        self.pipeline = ObjectPipeline(self.lookup, clock, new_uid, admit, self._managers)

    @after_commit
    async def create(self, request: Attributes, manifest: Manifest) -> Reply:
        """Creates an object, or posts to a subresource of the one the request names."""
        served = self.served(request.kind, request.subresource)
        if request.subresource:
            return await subresources.post(self, request, served, manifest)
        metadata = object_meta.metadata_of(manifest)
        object_meta.set_type(served.kind, manifest)
        object_meta.set_namespace(served.kind, metadata, request.key.namespace)
        object_meta.strip_system_fields(metadata)
        reused_spec = served.strategy.try_reuse_spec(manifest)
        warnings = () if reused_spec else check_fields(served.strategy, request, manifest)
        generated = not metadata.get("name")
        object_meta.choose_name(served.kind, metadata, self._random)
        key = Key(metadata.get("namespace", ""), metadata["name"])
        if key != request.key:
            request = request.about(key)
        namespaces.check_creation(self.store, served.kind, request.key)
        manifest = await self.pipeline.create(request, served, manifest, reused_spec=reused_spec)
        retries = NAME_ATTEMPTS if generated else 0
        if served.conversion is not None:
            manifest = await self.conversions.to_storage(served, manifest)
        reply = await commit.insert(self.store, request, served, manifest, self._random, retries)
        if served.conversion is not None:
            reply = await self.conversions.reply(served, reply)
        return reply.warning(warnings)

    @after_commit
    async def update(self, request: Attributes, manifest: Manifest) -> Reply:
        """Replaces an object, or a subresource of it."""
        served = self.served(request.kind, request.subresource)
        metadata = object_meta.metadata_of(manifest)
        if request.subresource == "scale":
            return await self._scale(request, served, lambda scale: manifest)
        object_meta.set_type(served.kind, manifest)
        warnings = check_fields(served.strategy, request, manifest)
        missing = self.store.get(served.storage.resource, request.key) is None
        if missing and not request.subresource and served.storage.resource in CREATED_BY_UPDATE:
            if metadata.get("uid"):
                raise conflict(
                    served.kind,
                    request.key.name,
                    f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: ",
                )
            metadata.pop("resourceVersion", None)
            return await self._create_missing(request, manifest)
        if metadata.get("resourceVersion"):
            build: Build = lambda old: manifest  # noqa: E731 - never retried, so no copy is needed
        else:
            pristine = orjson.dumps(manifest)
            build = lambda old: orjson.loads(pristine)  # noqa: E731
        reply = await self._guaranteed_update(request, served, build)
        return reply.warning(warnings)

    @after_commit
    async def patch(self, request: Attributes, patch: Any) -> Reply:
        """Changes parts of an object; an apply patch creates it where it is missing."""
        served = self.served(request.kind, request.subresource)
        patch_type = request.options.patch_type
        patching.check(served, patch_type, request.options, patch)
        if request.subresource == "scale":
            return await self._scale(
                request, served, lambda scale: patching.apply_plain(scale, patch, patch_type)
            )
        if patch_type is PatchType.APPLY:
            record = self.store.get(served.storage.resource, request.key)
            if record is None and not request.subresource:
                _check_no_uid(served, request, patch)
                manifest = self._managers.apply(served, request, None, patch, self.clock.now())
                return await self._create_missing(request, manifest)
        warnings: list[str] = []

        def build(old: Manifest) -> Manifest:
            if patch_type is PatchType.APPLY:
                new = self._managers.apply(served, request, old, patch, self.clock.now())
            else:
                new = patching.apply(served, old, patch, patch_type)
            object_meta.metadata_of(new)  # a patch may have removed it, or the type
            object_meta.set_type(served.kind, new)
            warnings[:] = check_fields(served.strategy, request, new)
            return new

        reply = await self._guaranteed_update(request, served, build)
        return reply.warning(tuple(warnings))

    async def _create_missing(self, request: Attributes, manifest: Manifest) -> Reply:
        """Creates the object that a PUT or an apply patch names. The user needs the right to create it, too."""
        request = replace(request, verb="create")
        if self._authorize is not None:
            self._authorize(request)
        return await self.create(request, manifest)

    @after_commit
    async def delete(self, request: Attributes, *, wait: bool = True) -> Reply:
        """Requests the deletion of an object; returns the object, or a Status when it is removed at once.

        Without `wait` it returns before the deletion is durable.
        """
        served = self.served(request.kind)
        namespaces.check_deletion(served.kind, request.key)
        name, options = served.storage.resource, request.options
        for attempt in range(ATTEMPTS):
            record = self.store.get(name, request.key)
            if record is None:
                raise not_found(served.kind, request.key.name)
            manifest = orjson.loads(record.data)
            check_preconditions(served.kind, request.key.name, manifest["metadata"], options)
            if self.pipeline.admits:
                await self.pipeline.admit_deletion(request, await self.decoded(served, record))
            plan = plan_deletion(served.storage, manifest, options, self.clock.now())
            try:
                if options.dry_run or not (plan.remove or plan.changed):
                    data, version = orjson.dumps(manifest), 0
                elif plan.remove:
                    data = self.store.remove(name, manifest, record)
                    version = self.store.version
                else:
                    changed = self.store.put(name, manifest, record)
                    data, version = changed.data, changed.version
            except Stale:
                continue
            if wait:
                try:
                    await self.store.durable(version)
                except SpaceExceeded:
                    if attempt:
                        raise
                    continue  # rolled back with other writes; deletions alone are possible on a full disk
            reply = deletion_reply(served, manifest, data, removed=plan.remove)
            if served.conversion is not None and not plan.remove:
                return await self.conversions.reply(served, reply)
            return reply
        raise conflict(served.kind, request.key.name)

    async def delete_collection(self, request: Attributes, query: Query = EVERYTHING) -> Page:
        """Requests the deletion of every selected object; returns the objects as they were."""
        page = await self.list(request.kind, replace(query, limit=0, continue_token=""))
        for attempt in range(2):
            try:
                await self._delete_all(request, page)
            except SpaceExceeded:
                if attempt:
                    raise
                continue  # as in `delete`
            break
        return page

    async def _delete_all(self, request: Attributes, page: Page) -> None:
        for number, data in enumerate(page.items):
            if number % DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)  # other requests are answered in between
            metadata = orjson.loads(data)["metadata"]
            key = Key(metadata.get("namespace", ""), metadata["name"])
            options = replace(request.options, uid=metadata["uid"])
            try:
                await self.delete(replace(request, key=key, options=options), wait=False)
            except (NotFound, Conflict):
                continue  # removed or replaced since it was listed
        await self.store.durable(self.store.version)

    async def _guaranteed_update(self, request: Attributes, served: Served, build: Build) -> Reply:
        """Replaces an object by the result of `build`; starts again when another write came in between."""
        for _ in range(ATTEMPTS):
            record = self.store.get(served.storage.resource, request.key)
            if record is None:
                raise not_found(served.kind, request.key.name)
            if served.conversion is not None:
                reply = await self._update_converted(request, served, build, record)
                if reply is not None:
                    return reply
                continue
            old = self.decode(served, record)
            new = build(self.decode(served, record))
            if len(record.data) > MAX_VALUES * MIN_BYTES_PER_VALUE:  # many small patches add up
                check_values(new)
            new = await self.pipeline.update(request, served, new, old)
            try:
                return await commit.replace(self.store, request, served, new, old, record)
            except Stale:
                continue
        raise conflict(served.kind, request.key.name)

    async def _update_converted(
        self, request: Attributes, served: Served, build: Build, record: StoredObject
    ) -> Reply | None:
        """One attempt of an update of a kind that a webhook converts; None when another write came in between."""
        old = await self.conversions.decoded(served, record)
        new = build(orjson.loads(orjson.dumps(old)))
        new = await self.pipeline.update(request, served, new, old)
        if new != old:
            new = await self.conversions.to_storage(served, new)
        try:
            reply = await commit.replace(self.store, request, served, new, old, record)
        except Stale:
            return None
        return await self.conversions.reply(served, reply)

    async def _scale(self, request: Attributes, served: Served, build: Build) -> Reply:
        def rescale(old: Manifest) -> Manifest:
            scale = subresources.scale_of(served, old, self.lookup)
            return subresources.rescaled(served, old, scale, build(scale), self.lookup)

        reply = await self._guaranteed_update(replace(request, verb="patch"), served, rescale)
        manifest = orjson.loads(reply.data)
        return Reply(orjson.dumps(subresources.scale_of(served, manifest, self.lookup)))


def _check_no_uid(served: Served, request: Attributes, patch: Any) -> None:
    """Rejects an apply patch for an object that is missing when it names the uid of one that existed."""
    uid = object_meta.metadata_of(patch).get("uid")
    if uid:
        raise conflict(
            served.kind,
            request.key.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
        )
