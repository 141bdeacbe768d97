"""The API server as one handler: authentication, authorization, dispatch, metrics and audit."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from urllib.parse import unquote

from msgspec.structs import replace

from volcano import __version__
from volcano.apiserver.admission.chain import NO_PLUGIN, admission_chain
from volcano.apiserver.admission.conversion_webhooks import ConversionWebhooks
from volcano.apiserver.admission.podsecurity.admission import PodSecurity
from volcano.apiserver.admission.podsecurity.policy import PodSecurityConfiguration
from volcano.apiserver.admission.webhooks import Webhooks
from volcano.apiserver.audit_annotations import collecting_annotations
from volcano.apiserver.authn.access_control import AccessControl, AccessOptions
from volcano.apiserver.authn.identity import impersonated
from volcano.apiserver.bootstrap import bootstrap
from volcano.apiserver.endpoints.audit import Audit, Sink
from volcano.apiserver.endpoints.computed import MetricsSource
from volcano.apiserver.endpoints.discovery import Discovery
from volcano.apiserver.endpoints.flowcontrol import FlowControl
from volcano.apiserver.endpoints.handlers import CONNECT_SUBRESOURCES, ResourceHandler
from volcano.apiserver.endpoints.health import Health, HealthCheck, RequestMetrics
from volcano.apiserver.endpoints.nonresource import NonResourceHandler, Page
from volcano.apiserver.endpoints.openapi import OpenApi
from volcano.apiserver.endpoints.openapi_v2 import OpenApiV2
from volcano.apiserver.endpoints.parameters import flag
from volcano.apiserver.endpoints.request_info import RequestInfo, new_request_info
from volcano.apiserver.endpoints.responses import error_response, with_warnings
from volcano.apiserver.endpoints.reviews import Reviews
from volcano.apiserver.interfaces import AdmissionPlugin, Extension, LogSource, StreamSource, User
from volcano.apiserver.proxy.handler import SUBRESOURCE as PROXY
from volcano.apiserver.proxy.handler import ProxyHandler
from volcano.apiserver.proxy.kubelets import KubeletConnections
from volcano.apiserver.registry.conversion import Conversions
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.registry.object_meta import NewUid
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.schema.crds import served as served_by_crd
from volcano.apiserver.storage.store import Store
from volcano.apiserver.warnings import collecting
from volcano.base.clock import Clock, Instant
from volcano.base.http.dialer import Dialer
from volcano.base.http.messages import (
    Answer,
    Connection,
    Exchange,
    Request,
    Response,
    Stream,
    Upgrade,
    Upgraded,
)
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.kube.api.errors import ApiError, InternalError
from volcano.kube.api.selectors import parse_fields

log = Log("apiserver")

_NO_ANNOTATIONS: dict[str, str] = {}
MAX_LOGGED_TARGET = 500
READ_VERBS = ("get", "list", "watch", "head", "options")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Collaborators and settings of the HTTP side of an API server."""

    new_id: Callable[[], str]
    random: Random
    address: str = ""  # host:port, as discovery announces it
    logs: LogSource | None = None
    streams: StreamSource | None = None
    dialer: Dialer | None = None  # of proxies
    kubelets: KubeletConnections | None = None
    audit: Sink | None = None
    live: Mapping[str, HealthCheck] = field(default_factory=dict)
    ready: Mapping[str, HealthCheck] = field(default_factory=dict)
    warnings: Mapping[str, HealthCheck] = field(default_factory=dict)  # shown by /readyz, which succeeds
    metrics: CollectorRegistry | None = None
    resource_metrics: MetricsSource | None = None  # of nodes and pods, for metrics.k8s.io
    extensions: Sequence[Extension] = ()


@dataclass(frozen=True, slots=True)
class ControlledRegistry:
    """A registry with the access control and the webhooks that its admission chain uses."""

    registry: Registry
    access: AccessControl
    webhooks: Webhooks
    conversion_webhooks: ConversionWebhooks


def controlled_registry(
    store: Store,
    kinds: KindTable,
    *,
    clock: Clock,
    random: Random,
    new_uid: NewUid,
    access: AccessOptions,
    mutating: AdmissionPlugin = NO_PLUGIN,
    validating: AdmissionPlugin = NO_PLUGIN,
    disabled_plugins: Collection[str] = (),
    pod_security: PodSecurityConfiguration | None = None,
    dialer: Dialer | None = None,
) -> ControlledRegistry:
    """A registry behind the admission chain. The table follows the CRDs in the store; caches follow the store.

    Webhooks are dialled by `dialer`, by default one that connects to loopback addresses only.
    """
    kinds.follow(store, served_by_crd)
    lookup = StoreLookup(store, kinds)
    dial = (dialer or Dialer()).dial
    control = AccessControl(lookup, clock, access, lookup.pods_on_node)
    webhooks = Webhooks(access.new_id, kinds.prune, dial)
    store.listeners.add("authorizer", control.authorizer.on_change, control.authorizer.forget)
    store.listeners.add("webhooks", webhooks.on_change, webhooks.forget)
    security = PodSecurity(pod_security)
    store.listeners.add("pod security", security.on_change, security.forget)
    admit = admission_chain(
        kinds,
        control,
        webhooks,
        mutating=mutating,
        validating=validating,
        disabled=disabled_plugins,
        pod_security=security,
    )
    conversion_webhooks = ConversionWebhooks(access.new_id, lookup, dial)
    registry = Registry(
        store,
        kinds,
        clock=clock,
        random=random,
        new_uid=new_uid,
        lookup=lookup,
        admit=admit,
        issue_token=control.issue_token,
        conversions=Conversions(conversion_webhooks.convert),
        authorize=control.authorize,
    )
    return ControlledRegistry(registry, control, webhooks, conversion_webhooks)


class ApiServer:
    """Handles requests when called. Needs `await start()` once, and `await close()` at the end."""

    def __init__(self, controlled: ControlledRegistry, options: ServerOptions) -> None:
        self.registry = registry = controlled.registry
        self.metrics = RequestMetrics(options.metrics or CollectorRegistry())
        self._flow_control = FlowControl()
        self.metrics.registry.register(self._flow_control)
        self._authenticator = controlled.access.authenticator
        self._authorizer = controlled.access.authorizer
        self._webhooks = controlled.webhooks
        self._conversion_webhooks = controlled.conversion_webhooks
        self._audit = Audit(options.audit, options.new_id) if options.audit is not None else None
        reviews = Reviews(self._authenticator, self._authorizer)
        proxy = ProxyHandler(registry.lookup, options.dialer or Dialer(), options.random, options.kubelets)
        self._resources = ResourceHandler(
            registry,
            reviews,
            options.random,
            options.logs,
            options.streams,
            proxy,
            options.resource_metrics,
            options.extensions,
        )
        self.computed = self._resources.computed
        table = registry.kinds
        extended = [kind for extension in options.extensions for kind in extension.kinds]
        discovery = Discovery(
            lambda: (*(s.kind for s in table), *extended), lambda: table.generation, options.address
        )
        health = Health(options.live, options.ready, options.warnings)
        openapi = OpenApi(lambda: iter(table), lambda: table.generation)
        openapi_v2 = OpenApiV2(lambda: iter(table), lambda: table.generation)
        tokens = controlled.access.tokens
        self._paths = NonResourceHandler(
            table, discovery, health, self.metrics, tokens, __version__, openapi, openapi_v2
        )

    def add_page(self, path: str, page: Page) -> None:
        """Serves one more path, for users with a role that has this nonResourceURL."""
        self._paths.add(path, page)

    async def start(self) -> None:
        """Creates the first namespaces and the default roles where they are missing."""
        await bootstrap(self.registry)

    async def close(self) -> None:
        await self._webhooks.close()
        await self._conversion_webhooks.close()

    async def __call__(self, request: Request) -> Answer:
        """Answers one request; every failure becomes a Status."""
        received = self.registry.clock.now()
        info = _request_info(request)
        mutating = info.verb not in READ_VERBS
        user = _RequestUser()
        self._count_inflight(1, mutating=mutating)
        try:
            with collecting() as warnings, self._annotations() as user.annotations:
                answer = await self._answer(request, info, user)
            if isinstance(answer, Response):
                with_warnings(answer, warnings)
        except ApiError as error:
            answer = error_response(error)
        except Exception as error:  # a bug in one request must not end the server
            log.error(
                "request failed",
                error=error,
                method=request.method,
                target=(request.target or request.path)[:MAX_LOGGED_TARGET],
            )
            answer = error_response(
                InternalError("Internal error occurred: the request could not be handled")
            )
        finally:
            self._count_inflight(-1, mutating=mutating)
        if isinstance(answer, Exchange):
            return Exchange(lambda: self._exchange(answer, request, info, user, received))
        return self._record(request, info, user, answer, received)

    async def _exchange(
        self, exchange: Exchange, request: Request, info: RequestInfo, user: "_RequestUser", received: Instant
    ) -> Answer:
        """Waits for the answer of another server."""
        try:
            answer = await exchange.run()
        except ApiError as error:
            answer = error_response(error)
        return self._record(request, info, user, answer, received)

    def _annotations(self) -> AbstractContextManager[dict[str, str]]:
        return nullcontext(_NO_ANNOTATIONS) if self._audit is None else collecting_annotations()

    def _count_inflight(self, change: int, *, mutating: bool) -> None:
        if mutating:
            self.metrics.mutating += change
        else:
            self.metrics.reading += change

    async def _answer(self, request: Request, info: RequestInfo, user: "_RequestUser") -> Answer:
        user.authenticated = self._authenticator.authenticate(request)
        user.effective = impersonated(request, user.authenticated, self._authorizer)
        schema = self._flow_control.classify(user.effective, info)
        if schema is None:
            return await self._authorized(request, info, user.effective)
        flow, seats = await self._flow_control.start(schema, user.effective, len(request.body))
        try:
            return await self._authorized(request, info, user.effective)
        finally:
            flow.level.finish(flow, seats)

    async def _authorized(self, request: Request, info: RequestInfo, user: User) -> Answer:
        if not self._authorizer.unrestricted(user):
            self._authorizer.check(user, info.action)
            if info.subresource in CONNECT_SUBRESOURCES:
                # A websocket begins with GET: the right to read must not allow running commands.
                self._authorizer.check(user, replace(info, verb="create").action)
        if info.resource:
            return await self._resources.handle(request, info, user)
        return await self._paths.handle(request)

    def _record(
        self, request: Request, info: RequestInfo, user: "_RequestUser", answer: Answer, received: Instant
    ) -> Answer:
        """Records metrics and the audit event of an answer."""
        now = self.registry.clock.now()
        known = not info.resource or self._resources.serves(info)
        labels = self.metrics.labels(info, known=known)
        code = 101 if not isinstance(answer, Response | Stream) else answer.status
        seconds = now.monotonic - received.monotonic if isinstance(answer, Response) else None
        self.metrics.observe(labels, code, seconds, dry_run="dryRun" in request.query)
        if self._audit is not None:
            streaming = not isinstance(answer, Response)
            self._audit.record(
                request,
                info,
                user.effective,
                user.authenticated,
                code,
                received,
                now,
                streaming=streaming,
                annotations=user.annotations,
            )
        if isinstance(answer, Stream):
            answer.chunks = self._count_stream(answer.chunks, labels)
        elif isinstance(answer, Upgrade):
            answer.run = self._counted(answer.run, labels)
        return answer

    def _counted(self, run: Upgraded, labels: tuple[str, ...]) -> Upgraded:
        """The same use of an upgraded connection, counted as long-running while it is open."""

        async def counted(connection: Connection) -> None:
            self.metrics.long_running(labels, 1)
            try:
                await run(connection)
            finally:
                self.metrics.long_running(labels, -1)

        return counted

    async def _count_stream(
        self, chunks: AsyncIterator[bytes], labels: tuple[str, ...]
    ) -> AsyncIterator[bytes]:
        """The same stream, counted as long-running while it is open."""
        self.metrics.long_running(labels, 1)
        try:
            async for chunk in chunks:
                yield chunk
        except ApiError as error:
            log.warning("stream aborted", error=error.message)
        finally:
            self.metrics.long_running(labels, -1)
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


@dataclass(slots=True)
class _RequestUser:
    """The authenticated user of a request and the user it acts as, as far as known."""

    authenticated: User | None = None
    effective: User | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)  # of the audit event


def streams_body(method: str, target: str) -> bool:
    """Whether the body of a request is passed on as it arrives: those of proxies."""
    if f"/{PROXY}" not in target:
        return False
    return new_request_info(method, unquote(target.partition("?")[0])).subresource == PROXY


def _request_info(request: Request) -> RequestInfo:
    if not request.query:
        return new_request_info(request.method, request.path)
    selected = node = ""
    if fields := request.parameter("fieldSelector"):
        try:
            selector = parse_fields(fields)
            selected = selector.exact("metadata.name") or ""
            node = selector.exact("spec.nodeName") or ""
        except ValueError:
            selected = ""  # the registry reports the error
    return new_request_info(
        request.method, request.path, watch=flag(request, "watch"), selected=selected, selected_node=node
    )
