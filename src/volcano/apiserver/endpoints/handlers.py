"""Resource requests: from a route and a body to a verb of the registry, and its answer to the client."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from volcano.apiserver.endpoints import watch
from volcano.apiserver.endpoints.discovery import SUBRESOURCES, verbs_of
from volcano.apiserver.endpoints.logs import LogSource, StreamSource, connect_answer, log_answer
from volcano.apiserver.endpoints.parameters import delete_options, options_of, patch_options, query_of
from volcano.apiserver.endpoints.responses import Shaper, plain
from volcano.apiserver.endpoints.reviews import Reviews
from volcano.apiserver.endpoints.routes import Route, unknown_path
from volcano.apiserver.endpoints.serialization import (
    COMPRESS_ABOVE,
    JSON,
    PLAIN,
    Body,
    Wanted,
    decode,
    decode_json,
    decode_yaml,
    negotiate,
)
from volcano.apiserver.endpoints.tables import printer_of
from volcano.apiserver.interfaces import Attributes, Served, User
from volcano.apiserver.registry import object_meta
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.result import Reply
from volcano.apiserver.warnings import warn
from volcano.kube.client import Options, PatchType
from volcano.kube.errors import BadRequest, MethodNotAllowed, UnsupportedMediaType
from volcano.kube.kinds import POD, VIRTUAL, Kind
from volcano.kube.manifest import Key, Manifest
from volcano.net.messages import Answer, Request, Response, Stream

WATCH_SECONDS = 1800.0  # at least this long, and up to twice as long, unless the client says
WITHIN_A_NAMESPACE = ("create", "deletecollection")  # what is done to one namespace at a time
NOT_ALLOWED = "the server does not allow this method on the requested resource"
CONNECTS = ("exec", "attach", "portforward")
REVIEWS: dict[tuple[str, str, str], Kind] = {(k.group, k.version, k.plural): k for k in VIRTUAL}


class Call(msgspec.Struct, frozen=True):  # made for every request, which a dataclass is slow at
    """One resource request on its way."""

    request: Request
    route: Route
    user: User
    served: Served
    wanted: Wanted

    @property
    def key(self) -> Key:
        kind = self.served.kind
        return Key(self.route.namespace if kind.namespaced else "", self.route.name)

    def attributes(self, verb: str, options: Options) -> Attributes:
        return Attributes(verb, self.served.kind, self.key, self.user, self.route.subresource, options)


class Resources:
    """Answers every request about a resource."""

    def __init__(
        self,
        registry: Registry,
        reviews: Reviews,
        random: Random,
        logs: LogSource | None = None,
        streams: StreamSource | None = None,
    ) -> None:
        self._registry = registry
        self._reviews = reviews
        self._random = random
        self._logs = logs
        self._streams = streams
        self._verbs: dict[str, Callable[[Call], Awaitable[Answer]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def knows(self, route: Route) -> bool:
        """Whether a route leads to something that is served."""
        address = (route.group, route.version, route.resource)
        return address in REVIEWS or self._registry.kinds.find(*address) is not None

    async def answer(self, request: Request, route: Route, user: User) -> Answer:
        """What to answer a request by somebody who may make it."""
        review = REVIEWS.get((route.group, route.version, route.resource))
        if review is not None:
            return await self._review(request, route, user, review)
        served = self._registry.kinds.find(route.group, route.version, route.resource)
        if served is None:
            raise unknown_path()
        _check_route(route, served.kind)
        streaming = route.subresource == "log" or route.subresource in CONNECTS
        wanted = Wanted() if streaming else negotiate(request.headers.get("accept", ""))
        return await self._verbs[route.verb](Call(request, route, user, served, wanted))

    # The verbs

    async def _get(self, call: Call) -> Answer:
        sub = call.route.subresource
        if sub in CONNECTS or sub == "log":
            return await self._process(call)
        reply = await self._registry.get(call.served.kind, call.key, subresource=sub)
        return await self._respond(call, reply)

    async def _list(self, call: Call) -> Answer:
        query = query_of(call.request, call.route.namespace, watch=False)
        page = await self._registry.list(call.served.kind, query)
        shaper = self._shaper(call)
        if shaper.plain:
            return await shaper.respond(page.encode())
        metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        kind = call.served.kind
        return await shaper.respond(shaper.many(page.items, metadata, kind.list_kind, kind.api_version))

    async def _watch(self, call: Call) -> Answer:
        query = query_of(call.request, call.route.namespace, watch=True)
        shaper = self._shaper(call)
        feed = self._registry.open_watcher(call.served.kind, query)
        timeout = query.timeout_seconds or WATCH_SECONDS * (1 + self._random.random())
        lines = watch.stream(feed, self._registry.clock, shaper, timeout=timeout, bookmarks=query.bookmarks)
        return Stream(lines, 200, {"Content-Type": "application/json", "Cache-Control": "no-cache, private"})

    async def _create(self, call: Call) -> Answer:
        if call.route.subresource in CONNECTS:
            return await self._process(call)
        options = options_of(call.request, "CreateOptions", _agent(call.request))
        manifest = self._manifest(call, options)
        reply = await self._registry.create(call.attributes("create", options), manifest)
        return await self._respond(call, reply)

    async def _update(self, call: Call) -> Answer:
        options = options_of(call.request, "UpdateOptions", _agent(call.request))
        manifest = self._manifest(call, options)
        _check_name(manifest, call.route.name)
        reply = await self._registry.update(call.attributes("update", options), manifest)
        return await self._respond(call, reply)

    async def _patch(self, call: Call) -> Answer:
        media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in tuple(PatchType):
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(_patch_types(call.served))
            )
        options = patch_options(call.request, media_type, _agent(call.request))
        if options.patch_type is PatchType.APPLY:
            body = decode_yaml(call.request.body)
        else:
            body = decode_json(call.request.body, strict=options.field_validation == "Strict")
        self._complain(call, body, options)
        reply = await self._registry.patch(call.attributes("patch", options), body.value)
        return await self._respond(call, reply)

    async def _delete(self, call: Call) -> Answer:
        options = self._delete_options(call)
        reply = await self._registry.delete(call.attributes("delete", options))
        return await self._respond(call, reply)

    async def _delete_collection(self, call: Call) -> Answer:
        query = query_of(call.request, call.route.namespace, watch=False)
        request = call.attributes("deletecollection", self._delete_options(call))
        page = await self._registry.delete_collection(request, query)
        return await self._shaper(call).respond(page.encode())

    # What is not stored

    async def _review(self, request: Request, route: Route, user: User, kind: Kind) -> Answer:
        if route.verb != "create" or route.subresource or route.name:
            raise MethodNotAllowed(NOT_ALLOWED)
        if kind.namespaced != bool(route.namespace):
            raise unknown_path()
        negotiate(request.headers.get("accept", ""))
        body = decode(request.body, request.headers.get("content-type", "")).value
        if not isinstance(body, dict):
            raise BadRequest(f"the body must be a {kind.kind}")
        claimed = (body.get("apiVersion", kind.api_version), body.get("kind", kind.kind))
        if claimed != (kind.api_version, kind.kind):
            raise BadRequest(
                f"the body is a {claimed[1]} in {claimed[0]}; expected {kind.kind} in {kind.api_version}"
            )
        answered = self._reviews.answer(kind, body, user, route.namespace)
        return await plain(request, answered, 201)

    async def _process(self, call: Call) -> Answer:
        pod = (await self._registry.get(POD, call.key)).manifest()
        if call.route.subresource == "log":
            return await log_answer(self._logs, pod, call.request, self._registry.clock.now().wall)
        return await connect_answer(self._streams, call.route.subresource, pod, call.request)

    # Steps

    def _shaper(self, call: Call) -> Shaper:
        printer = printer_of(call.served, call.route.subresource)
        return Shaper(call.request, call.wanted, printer, self._registry.clock.now().wall)

    async def _respond(self, call: Call, reply: Reply) -> Answer:
        for text in reply.warnings:
            warn(text)
        if call.wanted is PLAIN and not call.request.query and len(reply.data) <= COMPRESS_ABOVE:
            return Response(201 if reply.created else 200, {"Content-Type": JSON}, reply.data)
        shaper = self._shaper(call)
        value = reply.data if shaper.plain else shaper.one(reply.data)
        return await shaper.respond(value, 201 if reply.created else 200)

    def _manifest(self, call: Call, options: Options) -> Any:
        strict = options.field_validation == "Strict"
        body = decode(call.request.body, call.request.headers.get("content-type", ""), strict=strict)
        self._complain(call, body, options)
        return body.value

    def _complain(self, call: Call, body: Body, options: Options) -> None:
        """Refuses, or warns of, fields that occur twice; fields nobody knows are the registry's business."""
        if not body.complaints or options.field_validation == "Ignore":
            return
        if options.field_validation != "Strict":
            for complaint in body.complaints:
                warn(complaint)
            return
        unknown: list[str] = []
        if isinstance(body.value, dict) and call.route.verb != "patch" and not call.route.subresource:
            unknown = call.served.strategy.unknown_fields(body.value)
        raise BadRequest(f"strict decoding error: {', '.join([*unknown, *body.complaints])}")

    def _delete_options(self, call: Call) -> Options:
        body: Any = None
        if call.request.body:
            body = decode(call.request.body, call.request.headers.get("content-type", "")).value
        options = delete_options(call.request, body)
        return replace(options, field_manager=_agent(call.request))


def _agent(request: Request) -> str:
    return request.headers.get("user-agent", "")


def _patch_types(served: Served) -> list[str]:
    return [str(kind) for kind in PatchType if not (served.crd and kind is PatchType.STRATEGIC)]


def _check_name(manifest: Manifest, name: str) -> None:
    """What replaces an object says itself which one it is."""
    given = object_meta.metadata_of(manifest).get("name")
    if not given:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _check_route(route: Route, kind: Kind) -> None:
    """Refuses paths that lead nowhere (404) and verbs a resource does not have (405)."""
    in_namespace = bool(route.namespace) and kind.plural != "namespaces"
    if in_namespace and not kind.namespaced:
        raise unknown_path()
    if kind.namespaced and not route.namespace and route.name:
        raise unknown_path()
    if route.rest:
        raise unknown_path()
    if route.subresource:
        shape = SUBRESOURCES.get(route.subresource)
        if shape is None or route.subresource not in kind.subresources:
            raise unknown_path()
        allowed = shape.verbs
    else:
        allowed = verbs_of(kind)
    everywhere = kind.namespaced and not route.namespace
    if route.verb not in allowed or (everywhere and route.verb in WITHIN_A_NAMESPACE):
        raise MethodNotAllowed(NOT_ALLOWED)
    if (route.verb in ("update", "patch") and not route.name) or (
        route.verb == "create" and route.name and not route.subresource
    ):
        raise MethodNotAllowed(NOT_ALLOWED)
