"""The verbs, for any kind that is served: what happens between a request and the store."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import wraps
from random import Random
from typing import Any, Concatenate, ParamSpec

import orjson

from volcano.apiserver.errors import already_exists, conflict, invalid, not_found, unserved
from volcano.apiserver.interfaces import AdmissionFunction, Attributes, Served, Strategy
from volcano.apiserver.registry import namespaces, object_meta, patching, subresources
from volcano.apiserver.registry.deletion import ANSWERED_WITH_OBJECT, check_preconditions, doom, is_finished
from volcano.apiserver.registry.kind_table import KindTable, from_storage, reader, to_storage
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.registry.managed_fields import Ownership
from volcano.apiserver.registry.object_meta import NewUid
from volcano.apiserver.registry.result import Reply
from volcano.apiserver.registry.update_rules import CONDITIONAL_ONLY, CREATED_BY_UPDATE
from volcano.apiserver.storage.history import Record
from volcano.apiserver.storage.pagination import Page, parse_version, read_page, select_all
from volcano.apiserver.storage.selection import Selection, select
from volcano.apiserver.storage.store import Stale, Store
from volcano.apiserver.storage.watch_cache import Feed, Piece
from volcano.clock import Clock
from volcano.kube.client import EVERYTHING, PatchType, Query
from volcano.kube.errors import ApiError, BadRequest, Cause, Conflict, Invalid, NotFound
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest

# How often a write that names no version is tried again when another came in between.
ATTEMPTS = 10
# How many generated names may be taken already.
NAME_ATTEMPTS = 8

# Makes the object that a write asks for from the present one, which is its own copy.
Build = Callable[[Manifest], Manifest]

# Answers a TokenRequest for the ServiceAccount with a key.
IssueToken = Callable[[Key, Manifest], Manifest]

P = ParamSpec("P")


def vouched(
    verb: Callable[Concatenate["Registry", P], Awaitable[Reply]],
) -> Callable[Concatenate["Registry", P], Coroutine[Any, Any, Reply]]:
    """A refusal, too, leaves only when what it was based on cannot be lost any more: else a writer that reads again
    after a conflict would find what it had read before."""

    @wraps(verb)
    async def answer(self: "Registry", /, *args: P.args, **kwargs: P.kwargs) -> Reply:
        try:
            return await verb(self, *args, **kwargs)
        except ApiError:
            await self.store.durable(self.store.version)
            raise

    return answer


class Registry:
    """Every verb on every kind. Suspends only where admission does and until a write cannot be lost any more.

    Manifests handed in belong to the registry from then on; what it answers are encoded objects.
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
    ) -> None:
        self.store = store
        self.kinds = table
        self.clock = clock
        self.lookup = lookup or StoreLookup(store, table)
        self.issue_token = issue_token
        self._random = random
        self._new_uid = new_uid
        self._admit = admit
        self._ownership = Ownership()

    # Reading

    async def get(self, kind: Kind, key: Key, *, subresource: str = "") -> Reply:
        """One object, or a subresource of it. Raises NotFound."""
        served = self._served(kind, subresource)
        record = self.store.settled_record(served.storage.resource, key)
        if record is None:
            raise not_found(served.kind, key.name)
        if subresource == "scale":
            return Reply(
                orjson.dumps(subresources.scale_of(served, self.decode(served, record), self.lookup))
            )
        convert = reader(served)
        return Reply(record.data if convert is None else convert(record.data))

    async def list(self, kind: Kind, query: Query = EVERYTHING) -> Page:
        """Some or all objects of a kind, as of one moment."""
        served = self._served(kind)
        collection = self.store.collection(served.storage.resource)
        page = read_page(self.store, collection, served.kind, self._selection(served, query), query)
        convert = reader(served)
        return page if convert is None else replace(page, items=[convert(item) for item in page.items])

    def feed(self, kind: Kind, query: Query = EVERYTHING) -> Feed:
        """A place in the history of a kind, to take changes from. Raises Gone, BadRequest or NotFound at once."""
        served = self._served(kind)
        selection = self._selection(served, query)
        collection = self.store.collection(served.storage.resource)
        feed = Feed(self.store, collection, selection, served.kind, reader(served))
        try:
            if query.send_initial_events:
                if query.resource_version_match != "NotOlderThan":
                    raise invalid_options(
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                        "resourceVersionMatch",
                    )
                feed.begin(select_all(self.store, collection, selection), mark_end=query.bookmarks)
            elif query.resource_version in ("", "0"):
                feed.begin(select_all(self.store, collection, selection), mark_end=False)
            else:
                feed.resume(parse_version(query.resource_version))
        except Exception:
            feed.close()
            raise
        return feed

    def batches(self, kind: Kind, query: Query = EVERYTHING) -> AsyncGenerator[Sequence[Piece], None]:
        """Changes as they come, in groups."""
        feed = self.feed(kind, query)
        return feed.batches(self.clock, timeout=query.timeout_seconds, bookmarks=query.bookmarks)

    async def watch(self, kind: Kind, query: Query = EVERYTHING) -> AsyncGenerator[Piece, None]:
        """Changes as they come, one by one."""
        batches = self.batches(kind, query)
        async with aclosing(batches):
            async for pieces in batches:
                for piece in pieces:
                    yield piece

    # Writing

    @vouched
    async def create(self, request: Attributes, manifest: Manifest) -> Reply:
        """Creates an object, or posts to a subresource of the one the request names."""
        served = self._served(request.kind, request.subresource)
        if request.subresource:
            return await subresources.post(self, request, served, manifest)
        metadata = object_meta.metadata_of(manifest)
        object_meta.claim_type(served.kind, manifest)
        object_meta.claim_namespace(served.kind, metadata, request.key.namespace)
        object_meta.strip_system_fields(metadata)
        familiar = served.strategy.familiar(manifest)
        warnings = () if familiar else check_fields(served.strategy, request, manifest)
        generated = not metadata.get("name")
        object_meta.choose_name(served.kind, metadata, self._random)
        key = Key(metadata.get("namespace", ""), metadata["name"])
        if key != request.key:
            request = request.about(key)
        namespaces.check_creation(self.store, served.kind, request.key)
        manifest = await self._prepared(request, served, manifest, familiar=familiar)
        reply = await self._insert(request, served, manifest, retries=NAME_ATTEMPTS if generated else 0)
        return reply.warning(warnings)

    @vouched
    async def update(self, request: Attributes, manifest: Manifest) -> Reply:
        """Replaces an object, or a subresource of it."""
        served = self._served(request.kind, request.subresource)
        metadata = object_meta.metadata_of(manifest)
        if request.subresource == "scale":
            return await self._scale(request, served, lambda scale: manifest)
        object_meta.claim_type(served.kind, manifest)
        warnings = check_fields(served.strategy, request, manifest)
        missing = self.store.get(served.storage.resource, request.key) is None
        if missing and not request.subresource and served.storage.resource in CREATED_BY_UPDATE:
            metadata.pop("resourceVersion", None)
            return await self.create(replace(request, verb="create"), manifest)
        if metadata.get("resourceVersion"):
            build: Build = lambda old: manifest  # noqa: E731 - never tried twice, so it need not be kept as it is
        else:
            pristine = orjson.dumps(manifest)
            build = lambda old: orjson.loads(pristine)  # noqa: E731
        reply = await self.rewrite(request, served, build)
        return reply.warning(warnings)

    @vouched
    async def patch(self, request: Attributes, patch: Any) -> Reply:
        """Changes some of an object; an apply patch creates it where it is missing."""
        served = self._served(request.kind, request.subresource)
        patch_type = request.options.patch_type
        patching.check(served, patch_type, request.options, patch)
        if request.subresource == "scale":
            return await self._scale(
                request, served, lambda scale: patching.apply_plain(scale, patch, patch_type)
            )
        if patch_type is PatchType.APPLY:
            record = self.store.get(served.storage.resource, request.key)
            if record is None and not request.subresource:
                manifest = self._ownership.applied(served, request, None, patch, self.clock.now())
                return await self.create(replace(request, verb="create"), manifest)
        warnings: list[str] = []

        def build(old: Manifest) -> Manifest:
            if patch_type is PatchType.APPLY:
                new = self._ownership.applied(served, request, old, patch, self.clock.now())
            else:
                new = patching.apply(served, old, patch, patch_type)
            object_meta.metadata_of(new)  # a patch may have left nothing of it
            warnings[:] = check_fields(served.strategy, request, new)
            return new

        reply = await self.rewrite(request, served, build)
        return reply.warning(tuple(warnings))

    @vouched
    async def delete(self, request: Attributes, *, wait: bool = True) -> Reply:
        """Asks for an object's deletion; answers with the object, or with a Status when it is gone.

        Without `wait` it answers before the deletion is sure to last.
        """
        served = self._served(request.kind)
        namespaces.check_deletion(served.kind, request.key)
        name, options = served.storage.resource, request.options
        for _ in range(ATTEMPTS):
            record = self.store.get(name, request.key)
            if record is None:
                raise not_found(served.kind, request.key.name)
            manifest = orjson.loads(record.data)
            check_preconditions(served.kind, request.key.name, manifest["metadata"], options)
            if self._admit is not None:
                await self._admit(request, None, self.decode(served, record), self.lookup)
            fate = doom(served.storage, manifest, options, self.clock.now())
            try:
                if options.dry_run or not (fate.remove or fate.changed):
                    data, version = orjson.dumps(manifest), 0
                elif fate.remove:
                    data = self.store.remove(name, manifest, record)
                    version = self.store.version
                else:
                    changed = self.store.put(name, manifest, record)
                    data, version = changed.data, changed.version
            except Stale:
                continue
            if wait:
                await self.store.durable(version)
            return self._farewell(served, manifest, data, gone=fate.remove)
        raise conflict(served.kind, request.key.name)

    async def delete_collection(self, request: Attributes, query: Query = EVERYTHING) -> Page:
        """Asks for the deletion of every object that is selected; answers with them as they were."""
        page = await self.list(request.kind, replace(query, limit=0, continue_token=""))
        for data in page.items:
            metadata = orjson.loads(data)["metadata"]
            key = Key(metadata.get("namespace", ""), metadata["name"])
            options = replace(request.options, uid=metadata["uid"])
            try:
                await self.delete(replace(request, key=key, options=options), wait=False)
            except (NotFound, Conflict):
                continue  # went, or was replaced, while we were at it
        await self.store.durable(self.store.version)
        return page

    async def rewrite(self, request: Attributes, served: Served, build: Build) -> Reply:
        """Replaces an object by what `build` makes of it; again from the start when another write came between."""
        for _ in range(ATTEMPTS):
            record = self.store.get(served.storage.resource, request.key)
            if record is None:
                raise not_found(served.kind, request.key.name)
            old = self.decode(served, record)
            new = build(self.decode(served, record))
            new = await self._judged(request, served, new, old)
            try:
                return await self._replace(request, served, new, old, record)
            except Stale:
                continue
        raise conflict(served.kind, request.key.name)

    def edit(self, served: Served, key: Key, change: Callable[[Manifest], None]) -> None:
        """Changes an object by the server's own hand: no admission, no validation, no waiting; gone is fine."""
        name = served.storage.resource
        record = self.store.get(name, key)
        if record is None:
            return
        manifest = orjson.loads(record.data)
        change(manifest)
        if is_finished(served.storage, manifest):
            self.store.remove(name, manifest, record)
        elif orjson.dumps(manifest) != record.data:
            self.store.put(name, manifest, record)

    async def admit(self, request: Attributes, new: Manifest, old: Manifest | None) -> Manifest:
        """What admission makes of the body of a subresource."""
        if self._admit is None:
            return new
        admitted = await self._admit(request, new, old, self.lookup)
        return new if admitted is None else admitted

    def decode(self, served: Served, record: Record) -> Manifest:
        """A stored object in the version it is served in."""
        manifest: Manifest = orjson.loads(record.data)
        rewrite = from_storage(served)
        if rewrite is not None:
            rewrite(manifest)
        return manifest

    # Steps

    def _served(self, kind: Kind, subresource: str = "") -> Served:
        served = self.kinds.served(kind)
        if subresource and subresource not in served.kind.subresources:
            raise unserved()
        return served

    def _selection(self, served: Served, query: Query) -> Selection:
        namespace = query.namespace if served.kind.namespaced else ""
        return select(
            served.kind, served.storage, namespace, query.labels, query.fields, served.selectable_fields
        )

    async def _prepared(
        self, request: Attributes, served: Served, manifest: Manifest, *, familiar: bool
    ) -> Manifest:
        """A new object after pruning, defaults, admission and validation."""
        strategy, now = served.strategy, self.clock.now()
        if not familiar:
            strategy.prune(manifest)
        # First, as a real server does: a batch Job's labels, for one, carry its uid.
        object_meta.stamp(manifest["metadata"], self._new_uid, now)
        if not familiar:
            strategy.default(manifest)
        strategy.before_create(manifest, now)
        if self._admit is not None:
            manifest = await self._admitted(request, strategy, manifest, None)
        causes = strategy.validate(manifest, None, request.subresource)
        if causes:
            raise invalid(served.kind, request.key.name, causes)
        # Only of a valid object can it be said who manages what: entries of its lists have their keys.
        self._ownership.track(served, request, manifest, None, self.clock.now())
        return manifest

    async def _admitted(
        self, request: Attributes, strategy: Strategy, new: Manifest, old: Manifest | None
    ) -> Manifest:
        """The object as admission wants it, with the defaults of what admission added."""
        assert self._admit is not None
        # New objects nearly always get something added: looking whether they did would cost more than it spares.
        before = None if old is None else orjson.dumps(new)
        admitted = await self._admit(request, new, old, self.lookup)
        assert admitted is not None, "admission must return the object to store"
        if before is None or orjson.dumps(admitted) != before:
            strategy.default(admitted, old)
            if old is not None:
                strategy.before_update(admitted, old, request.subresource, self.clock.now())
        return admitted

    async def _insert(self, request: Attributes, served: Served, manifest: Manifest, retries: int) -> Reply:
        metadata = manifest["metadata"]
        rewrite = to_storage(served)
        if rewrite is not None:
            rewrite(manifest)
        name = served.storage.resource
        while True:
            key = Key(metadata.get("namespace", ""), metadata["name"])
            if self.store.get(name, key) is None:
                break
            if not retries:
                raise already_exists(served.kind, metadata["name"])
            retries -= 1
            del metadata["name"]
            object_meta.choose_name(served.kind, metadata, self._random)
        namespaces.check_creation(self.store, served.kind, key)  # admission may have taken its time
        if request.options.dry_run:
            return self._reply(served, orjson.dumps(manifest), created=True)
        record = self.store.put(name, manifest, None)
        await self.store.durable(record.version)
        return self._reply(served, record.data, created=True)

    async def _judged(self, request: Attributes, served: Served, new: Manifest, old: Manifest) -> Manifest:
        """A changed object after pruning, defaults, admission and validation."""
        strategy, now = served.strategy, self.clock.now()
        object_meta.carry_over(served.kind, request.key, new, old)
        self._check_version(served, request, new, old)
        subresources.restrict(request.subresource, new, old)
        strategy.prune(new, old)
        strategy.default(new, old)
        strategy.before_update(new, old, request.subresource, now)
        if self._admit is not None:
            new = await self._admitted(request, strategy, new, old)
        causes = object_meta.new_finalizers(served.kind, new, old)
        causes += strategy.validate(new, old, request.subresource)
        if causes:
            raise invalid(served.kind, request.key.name, causes)
        self._ownership.track(served, request, new, old, now)
        return new

    def _check_version(self, served: Served, request: Attributes, new: Manifest, old: Manifest) -> None:
        given, present = new["metadata"].get("resourceVersion"), old["metadata"]["resourceVersion"]
        if not given or given == "0":
            if request.verb == "update" and (served.crd or served.storage.resource in CONDITIONAL_ONLY):
                message = "Invalid value: 0x0: must be specified for an update"
                cause = Cause("FieldValueInvalid", message, "metadata.resourceVersion")
                raise invalid(served.kind, request.key.name, [cause])
        elif given != present:
            raise conflict(served.kind, request.key.name)
        new["metadata"]["resourceVersion"] = present

    async def _replace(
        self, request: Attributes, served: Served, new: Manifest, old: Manifest, record: Record
    ) -> Reply:
        name = served.storage.resource
        if new == old:
            return await self._unchanged(served, record)
        rewrite = to_storage(served)
        if rewrite is not None:
            rewrite(new)
        if request.options.dry_run:
            return self._reply(served, orjson.dumps(new))
        if is_finished(served.storage, new):
            data = self.store.remove(name, new, record)
            await self.store.durable(self.store.version)
            return self._reply(served, data)
        written = self.store.put(name, new, record)
        await self.store.durable(written.version)
        return self._reply(served, written.data)

    async def _unchanged(self, served: Served, record: Record) -> Reply:
        """A write that changes nothing keeps the version, but vouches for it like any other."""
        await self.store.durable(record.version)
        return self._reply(served, record.data)

    async def _scale(self, request: Attributes, served: Served, build: Build) -> Reply:
        def rescale(old: Manifest) -> Manifest:
            scale = subresources.scale_of(served, old, self.lookup)
            return subresources.rescaled(served, old, scale, build(scale), self.lookup)

        reply = await self.rewrite(replace(request, verb="patch"), served, rescale)
        manifest = orjson.loads(reply.data)
        return Reply(orjson.dumps(subresources.scale_of(served, manifest, self.lookup)))

    def _reply(self, served: Served, data: bytes, *, created: bool = False) -> Reply:
        convert = reader(served)
        return Reply(data if convert is None else convert(data), created=created)

    def _farewell(self, served: Served, manifest: Manifest, data: bytes, *, gone: bool) -> Reply:
        if not gone or served.storage.resource in ANSWERED_WITH_OBJECT:
            return self._reply(served, data)
        metadata = manifest["metadata"]
        details = {"name": metadata["name"], "kind": served.kind.plural, "uid": metadata["uid"]}
        if served.kind.group:
            details["group"] = served.kind.group
        return Reply(
            orjson.dumps(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": details,
                }
            )
        )


def check_fields(strategy: Strategy, request: Attributes, manifest: Manifest) -> tuple[str, ...]:
    """What to warn of: fields the schema does not know. Raises BadRequest when the client asked to be strict."""
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


def invalid_options(message: str, field: str) -> Invalid:
    return Invalid(
        f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {message}',
        causes=[Cause("FieldValueForbidden", f"Forbidden: {message}", field)],
    )
