"""Resource handlers: decode a request, call a verb of the registry and write the response."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from volcano.apiserver.endpoints import watch
from volcano.apiserver.endpoints.computed import ComputedResources, MetricsSource
from volcano.apiserver.endpoints.discovery import SUBRESOURCES, verbs_of
from volcano.apiserver.endpoints.logs import connect_response, log_response
from volcano.apiserver.endpoints.negotiation import JSON, PLAIN_JSON, MediaTypeOptions, negotiate
from volcano.apiserver.endpoints.parameters import delete_options, options_of, patch_options, query_of
from volcano.apiserver.endpoints.request_info import RequestInfo, unknown_path
from volcano.apiserver.endpoints.responses import ResponseWriter, json_response
from volcano.apiserver.endpoints.reviews import Reviews
from volcano.apiserver.endpoints.serialization import (
    COMPRESS_ABOVE,
    Body,
    BodyDecoder,
    decode_json,
)
from volcano.apiserver.endpoints.tables import printer_of
from volcano.apiserver.interfaces import Attributes, Extension, LogSource, Served, StreamSource, User
from volcano.apiserver.proxy.handler import SUBRESOURCE as PROXY
from volcano.apiserver.proxy.handler import ProxyHandler
from volcano.apiserver.registry import object_meta
from volcano.apiserver.registry.binding import BINDING
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.result import Reply
from volcano.apiserver.registry.subresources import EVICTION, SCALE
from volcano.apiserver.schema.decoding import check_types
from volcano.apiserver.warnings import warn
from volcano.base.http.messages import Answer, Request, Response
from volcano.kube.api.errors import BadRequest, MethodNotAllowed, UnsupportedMediaType
from volcano.kube.api.kinds import POD, REVIEWS, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options, PatchType

MIN_WATCH_SECONDS = 1800.0  # default timeout of a watch: this to twice this, at random
NAMESPACED_VERBS = ("create", "deletecollection")  # not allowed across all namespaces
METHOD_NOT_ALLOWED = "the server does not allow this method on the requested resource"
CONNECT_SUBRESOURCES = ("exec", "attach", "portforward")
# Bodies of the subresources that are created by POST.
POSTED: dict[str, Kind] = {
    "binding": BINDING,
    "eviction": EVICTION,
    "token": Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests"),
}
REVIEW_KINDS: dict[tuple[str, str, str], Kind] = {(k.group, k.version, k.plural): k for k in REVIEWS}


class ResourceRequest(msgspec.Struct, frozen=True):  # created for every request, slow for a dataclass
    """A resource request with its user, the resource it addresses and the negotiated output."""

    request: Request
    info: RequestInfo
    user: User
    served: Served
    output: MediaTypeOptions

    @property
    def key(self) -> Key:
        kind = self.served.kind
        return Key(self.info.namespace if kind.namespaced else "", self.info.name)

    def attributes(self, verb: str, options: Options) -> Attributes:
        return Attributes(verb, self.served.kind, self.key, self.user, self.info.subresource, options)


class ResourceHandler:
    """Handles resource requests."""

    def __init__(
        self,
        registry: Registry,
        reviews: Reviews,
        random: Random,
        logs: LogSource | None = None,
        streams: StreamSource | None = None,
        proxy: ProxyHandler | None = None,
        metrics: MetricsSource | None = None,
        extensions: Sequence[Extension] = (),
    ) -> None:
        self._registry = registry
        self._extensions = {
            (each.group, each.version, kind.plural): each for each in extensions for kind in each.kinds
        }
        self._reviews = reviews
        self._random = random
        self._logs = logs
        self._streams = streams
        self._proxy = proxy
        self.computed = ComputedResources(registry, metrics)
        self._decoder = BodyDecoder()
        self._verbs: dict[str, Callable[[ResourceRequest], Awaitable[Answer]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def serves(self, info: RequestInfo) -> bool:
        """Whether the resource of a request is served."""
        resource = (info.group, info.version, info.resource)
        return (
            resource in REVIEW_KINDS
            or self.computed.find(info) is not None
            or self._registry.kinds.find(*resource) is not None
            or self._extension(info) is not None
        )

    async def handle(self, request: Request, info: RequestInfo, user: User) -> Answer:
        """Handles a request that has been authorized."""
        review = REVIEW_KINDS.get((info.group, info.version, info.resource))
        if review is not None:
            return await self._review(request, info, user, review)
        served = self._registry.kinds.find(info.group, info.version, info.resource)
        if served is None:
            if (extension := self._extension(info)) is not None:
                return await extension.handle(request)
            computed = self.computed.find(info)
            if computed is None:
                raise unknown_path()
            _check_method(info, computed)
            return await self.computed.handle(request, info, computed)
        _check_method(info, served.kind)
        if info.subresource == PROXY and self._proxy is not None:
            return self._proxy.handle(request, info.resource, info.namespace, info.name)
        streaming = info.subresource == "log" or info.subresource in CONNECT_SUBRESOURCES
        output = MediaTypeOptions() if streaming else negotiate(request.headers.get("accept", ""))
        return await self._verbs[info.verb](ResourceRequest(request, info, user, served, output))

    def _extension(self, info: RequestInfo) -> Extension | None:
        return self._extensions.get((info.group, info.version, info.resource))

    # Verbs

    async def _get(self, call: ResourceRequest) -> Answer:
        sub = call.info.subresource
        if sub in CONNECT_SUBRESOURCES or sub == "log":
            return await self._connect(call)
        reply = await self._registry.get(call.served.kind, call.key, subresource=sub)
        return await self._respond(call, reply)

    async def _list(self, call: ResourceRequest) -> Answer:
        query = query_of(call.request, call.info.namespace, watch=False)
        page = await self._registry.list(call.served.kind, query)
        writer = self._response_writer(call)
        if writer.sends_stored_bytes:
            return await writer.respond(page.encode())
        metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        kind = call.served.kind
        return await writer.respond(await writer.many(page.items, metadata, kind.list_kind, kind.api_version))

    async def _watch(self, call: ResourceRequest) -> Answer:
        query = query_of(call.request, call.info.namespace, watch=True)
        writer = self._response_writer(call)
        feed = self._registry.open_feed(call.served.kind, query)
        timeout = query.timeout_seconds or MIN_WATCH_SECONDS * (1 + self._random.random())
        clock = self._registry.clock
        return watch.answer(call.request, feed, clock, writer, timeout=timeout, bookmarks=query.bookmarks)

    async def _create(self, call: ResourceRequest) -> Answer:
        if call.info.subresource in CONNECT_SUBRESOURCES:
            return await self._connect(call)
        options = options_of(call.request, "CreateOptions", _user_agent(call.request))
        manifest = await self._manifest(call, options)
        if call.info.subresource in POSTED:
            manifest = check_types(POSTED[call.info.subresource], manifest)
        reply = await self._registry.create(call.attributes("create", options), manifest)
        return await self._respond(call, reply)

    async def _update(self, call: ResourceRequest) -> Answer:
        options = options_of(call.request, "UpdateOptions", _user_agent(call.request))
        manifest = await self._manifest(call, options)
        if call.info.subresource == "scale":
            manifest = check_types(SCALE, manifest)
        _check_name(manifest, call.info.name)
        reply = await self._registry.update(call.attributes("update", options), manifest)
        return await self._respond(call, reply)

    async def _patch(self, call: ResourceRequest) -> Answer:
        media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in tuple(PatchType):
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(_patch_types(call.served))
            )
        options = patch_options(call.request, media_type, _user_agent(call.request))
        if options.patch_type is PatchType.APPLY:
            body = await self._decoder.decode_yaml(call.request.body)
        else:
            body = decode_json(call.request.body, strict=options.field_validation == "Strict")
        self._report_strict_errors(call, body, options)
        reply = await self._registry.patch(call.attributes("patch", options), body.value)
        return await self._respond(call, reply)

    async def _delete(self, call: ResourceRequest) -> Answer:
        options = await self._delete_options(call)
        reply = await self._registry.delete(call.attributes("delete", options))
        return await self._respond(call, reply)

    async def _delete_collection(self, call: ResourceRequest) -> Answer:
        query = query_of(call.request, call.info.namespace, watch=False)
        attributes = call.attributes("deletecollection", await self._delete_options(call))
        page = await self._registry.delete_collection(attributes, query)
        return await self._response_writer(call).respond(page.encode())

    # Reviews and connections, which are not stored

    async def _review(self, request: Request, info: RequestInfo, user: User, kind: Kind) -> Answer:
        if info.verb != "create" or info.subresource or info.name:
            raise MethodNotAllowed(METHOD_NOT_ALLOWED)
        if kind.namespaced != bool(info.namespace):
            raise unknown_path()
        negotiate(request.headers.get("accept", ""))
        body = (await self._decoder.decode(request.body, request.headers.get("content-type", ""))).value
        body = check_types(kind, body)
        claimed = (body.get("apiVersion", kind.api_version), body.get("kind", kind.kind))
        if claimed != (kind.api_version, kind.kind):
            raise BadRequest(
                f"the body is a {claimed[1]} in {claimed[0]}; expected {kind.kind} in {kind.api_version}"
            )
        reviewed = self._reviews.review(kind, body, user, info.namespace)
        return await json_response(request, reviewed, 201)

    async def _connect(self, call: ResourceRequest) -> Answer:
        pod = (await self._registry.get(POD, call.key)).manifest()
        if call.info.subresource == "log":
            return await log_response(self._logs, pod, call.request, self._registry.clock.now().wall)
        return await connect_response(self._streams, call.info.subresource, pod, call.request)

    # Decoding and encoding

    def _response_writer(self, call: ResourceRequest) -> ResponseWriter:
        printer = printer_of(call.served, call.info.subresource)
        return ResponseWriter(call.request, call.output, printer, self._registry.clock.now().wall)

    async def _respond(self, call: ResourceRequest, reply: Reply) -> Answer:
        for text in reply.warnings:
            warn(text)
        if call.output is PLAIN_JSON and not call.request.query and len(reply.data) <= COMPRESS_ABOVE:
            return Response(201 if reply.created else 200, {"Content-Type": JSON}, reply.data)
        writer = self._response_writer(call)
        value = reply.data if writer.sends_stored_bytes else writer.one(reply.data)
        return await writer.respond(value, 201 if reply.created else 200)

    async def _manifest(self, call: ResourceRequest, options: Options) -> Any:
        strict = options.field_validation == "Strict"
        body = await self._decoder.decode(
            call.request.body, call.request.headers.get("content-type", ""), strict=strict
        )
        self._report_strict_errors(call, body, options)
        return body.value

    def _report_strict_errors(self, call: ResourceRequest, body: Body, options: Options) -> None:
        """Rejects duplicate fields, or warns about them; unknown fields are left to the registry."""
        if not body.strict_errors or options.field_validation == "Ignore":
            return
        if options.field_validation != "Strict":
            for text in body.strict_errors:
                warn(text)
            return
        unknown: list[str] = []
        if isinstance(body.value, dict) and call.info.verb != "patch" and not call.info.subresource:
            unknown = call.served.strategy.unknown_fields(body.value)
        raise BadRequest(f"strict decoding error: {', '.join([*unknown, *body.strict_errors])}")

    async def _delete_options(self, call: ResourceRequest) -> Options:
        body: Any = None
        if call.request.body:
            body = (
                await self._decoder.decode(call.request.body, call.request.headers.get("content-type", ""))
            ).value
        options = delete_options(call.request, body)
        return replace(options, field_manager=_user_agent(call.request))


def _user_agent(request: Request) -> str:
    return request.headers.get("user-agent", "")


def _patch_types(served: Served) -> list[str]:
    return [str(kind) for kind in PatchType if not (served.crd and kind is PatchType.STRATEGIC)]


def _check_name(manifest: Manifest, name: str) -> None:
    """Rejects an object whose name is not that of the URL."""
    given = object_meta.metadata_of(manifest).get("name")
    if not given:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _check_method(info: RequestInfo, kind: Kind) -> None:
    """Rejects paths that are not served (404) and verbs the resource does not have (405)."""
    in_namespace = bool(info.namespace) and kind.plural != "namespaces"
    if in_namespace and not kind.namespaced:
        raise unknown_path()
    if kind.namespaced and not info.namespace and info.name:
        raise unknown_path()
    if info.rest and info.subresource != PROXY:
        raise unknown_path()
    if info.subresource:
        subresource = SUBRESOURCES.get(info.subresource)
        if subresource is None or info.subresource not in kind.subresources:
            raise unknown_path()
        allowed = (*subresource.verbs, "options") if info.subresource == PROXY else subresource.verbs
    else:
        allowed = verbs_of(kind)
    all_namespaces = kind.namespaced and not info.namespace
    if info.verb not in allowed or (all_namespaces and info.verb in NAMESPACED_VERBS):
        raise MethodNotAllowed(METHOD_NOT_ALLOWED)
    if (info.verb in ("update", "patch") and not info.name) or (
        info.verb == "create" and info.name and not info.subresource
    ):
        raise MethodNotAllowed(METHOD_NOT_ALLOWED)
