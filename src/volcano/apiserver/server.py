"""The API server as one handler: who asks, may they, what is the answer, and a line in the books."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from volcano import __version__
from volcano.apiserver.admission.typecheck import SoundCustomResources
from volcano.apiserver.admission.webhook_calls import Caller
from volcano.apiserver.admission.webhooks import Webhooks, chain
from volcano.apiserver.authn.identity import ADMIN, Authenticator, impersonated
from volcano.apiserver.authn.token_requests import TokenSecrets, request_token
from volcano.apiserver.authn.tokens import SigningKey, Tokens
from volcano.apiserver.authz.escalation import Escalation
from volcano.apiserver.authz.rbac import Authorizer
from volcano.apiserver.bootstrap import bootstrap
from volcano.apiserver.endpoints.audit import Audit, Sink
from volcano.apiserver.endpoints.discovery import Discovery
from volcano.apiserver.endpoints.handlers import CONNECT_SUBRESOURCES, ResourceHandler
from volcano.apiserver.endpoints.health import Health, HealthCheck, RequestMetrics
from volcano.apiserver.endpoints.logs import LogSource, StreamSource
from volcano.apiserver.endpoints.nonresource import NonResourceHandler
from volcano.apiserver.endpoints.openapi import OpenApi
from volcano.apiserver.endpoints.parameters import flag
from volcano.apiserver.endpoints.request_info import RequestInfo, new_request_info
from volcano.apiserver.endpoints.responses import error_response, with_warnings
from volcano.apiserver.endpoints.reviews import Reviews
from volcano.apiserver.interfaces import Admit, User
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.storage.history import Change
from volcano.apiserver.warnings import collecting
from volcano.clock import Instant
from volcano.kube.errors import ApiError, InternalError
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest
from volcano.kube.selectors import parse_fields
from volcano.log import Log
from volcano.metrics import CollectorRegistry
from volcano.net.messages import Answer, Request, Response, Stream

log = Log("apiserver")

READING = ("get", "list", "watch", "head", "options")


@dataclass(frozen=True, slots=True)
class Setup:
    """What an API server is handed beside its registry."""

    admin_token: str
    signing_key: bytes  # PEM, see `tokens.new_signing_key`
    new_id: Callable[[], str]
    random: Random
    authority: bytes = b""  # the CA's certificate, PEM, for token Secrets
    known_tokens: Mapping[str, User] = field(default_factory=dict)
    address: str = ""  # host:port, as discovery announces it
    logs: LogSource | None = None
    streams: StreamSource | None = None
    audit: Sink | None = None
    live: Mapping[str, HealthCheck] = field(default_factory=dict)
    ready: Mapping[str, HealthCheck] = field(default_factory=dict)
    metrics: CollectorRegistry | None = None


class ApiServer:
    """Call it with a request. Needs `await start()` once, and `await close()` at the end."""

    def __init__(self, registry: Registry, setup: Setup) -> None:
        self.registry = registry
        self.metrics = RequestMetrics(setup.metrics or CollectorRegistry())
        self.tokens = Tokens(SigningKey(setup.signing_key), setup.new_id)
        self.authorizer = Authorizer(registry.lookup)
        tokens = {**setup.known_tokens, setup.admin_token: ADMIN}
        self.authenticator = Authenticator(self.tokens, registry.lookup, registry.clock, tokens)
        self.webhooks = Webhooks(caller := Caller(), setup.new_id, self._prune)
        self._caller = caller
        self._secrets = TokenSecrets(self.tokens, setup.authority)
        self._audit = Audit(setup.audit, setup.new_id) if setup.audit is not None else None
        reviews = Reviews(self.authenticator, self.authorizer)
        self._resources = ResourceHandler(registry, reviews, setup.random, setup.logs, setup.streams)
        table = registry.kinds
        discovery = Discovery(lambda: (s.kind for s in table), lambda: table.generation, setup.address)
        health = Health(setup.live, setup.ready)
        openapi = OpenApi(lambda: iter(table), lambda: table.generation)
        self._paths = NonResourceHandler(
            table, discovery, health, self.metrics, self.tokens, __version__, openapi
        )
        registry.store.observers.append(self._changed)
        registry.issue_token = self._issue_token

    def admission(self, before: Sequence[Admit] = (), after: Sequence[Admit] = ()) -> Admit:
        """Admission in the order of a real server: what fills in (`before`), mutating webhooks, who may grant what,
        validating webhooks, and last what judges or counts the final object, such as quotas (`after`). The steps in
        `before` may rely on the types in a custom resource, those after the mutating webhooks on its whole schema."""
        kinds = self.registry.kinds
        return chain(
            SoundCustomResources(kinds, types_only=True),
            self._secrets,
            *before,
            self.webhooks.mutate,
            SoundCustomResources(kinds, types_only=False),
            Escalation(self.authorizer),
            self.webhooks.validate,
            *after,
        )

    def _prune(self, kind: Kind, manifest: Manifest) -> None:
        self.registry.kinds.served(kind).strategy.prune(manifest)

    def _issue_token(self, key: Key, wanted: Manifest) -> Manifest:
        return request_token(self.tokens, self.registry.lookup, key, wanted, self.registry.clock.now().wall)

    async def start(self) -> None:
        """Makes sure that the first namespaces and the default roles are there."""
        await bootstrap(self.registry)

    async def close(self) -> None:
        await self._caller.close()

    def _changed(self, collection: str, change: Change) -> None:
        self.authorizer.changed(collection)
        self.webhooks.changed(collection)

    async def __call__(self, request: Request) -> Answer:
        """Answers one request, whatever happens."""
        received = self.registry.clock.now()
        asked = _route(request)
        mutating = asked.verb not in READING
        who = _Who()
        self._busy(1, mutating=mutating)
        try:
            with collecting() as warnings:
                answer = await self._answer(request, asked, who)
            if isinstance(answer, Response):
                with_warnings(answer, warnings)
        except ApiError as error:
            answer = error_response(error)
        except Exception as error:
            log.error(
                "request failed", error=error, method=request.method, target=request.target or request.path
            )
            answer = error_response(
                InternalError("Internal error occurred: the request could not be handled")
            )
        finally:
            self._busy(-1, mutating=mutating)
        return self._booked(request, asked, who, answer, received)

    def _busy(self, change: int, *, mutating: bool) -> None:
        if mutating:
            self.metrics.mutating += change
        else:
            self.metrics.reading += change

    async def _answer(self, request: Request, asked: RequestInfo, who: "_Who") -> Answer:
        who.real = self.authenticator.authenticate(request)
        who.acting = impersonated(request, who.real, self.authorizer)
        if not self.authorizer.unrestricted(who.acting):
            self.authorizer.check(who.acting, asked.action)
            if asked.subresource in CONNECT_SUBRESOURCES:
                # A websocket begins with GET; whoever may only read must not run commands by it.
                self.authorizer.check(who.acting, replace(asked, verb="create").action)
        if asked.resource:
            return await self._resources.handle(request, asked, who.acting)
        return self._paths.handle(request)

    def _booked(
        self, request: Request, asked: RequestInfo, who: "_Who", answer: Answer, received: Instant
    ) -> Answer:
        """Counts and records an answer."""
        now = self.registry.clock.now()
        known = not asked.resource or self._resources.serves(asked)
        labels = self.metrics.labels(asked, known=known)
        code = 101 if not isinstance(answer, Response | Stream) else answer.status
        seconds = now.monotonic - received.monotonic if isinstance(answer, Response) else None
        self.metrics.observe(labels, code, seconds, dry_run="dryRun" in request.query)
        if self._audit is not None:
            streaming = not isinstance(answer, Response)
            self._audit.record(request, asked, who.acting, who.real, code, received, now, streaming=streaming)
        if isinstance(answer, Stream):
            answer.chunks = self._counted(answer.chunks, labels)
        return answer

    async def _counted(self, chunks: AsyncIterator[bytes], labels: tuple[str, ...]) -> AsyncIterator[bytes]:
        """The same stream, counted while it is open."""
        self.metrics.long_running(labels, 1)
        try:
            async for chunk in chunks:
                yield chunk
        except ApiError as error:
            log.warning("stream broke off", error=error.message)
        finally:
            self.metrics.long_running(labels, -1)
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


@dataclass(slots=True)
class _Who:
    """Who sent a request and whom it acts as, as far as is known yet."""

    real: User | None = None
    acting: User | None = None


def _route(request: Request) -> RequestInfo:
    if not request.query:
        return new_request_info(request.method, request.path)
    selected = ""
    if fields := request.parameter("fieldSelector"):
        try:
            selected = parse_fields(fields).exact("metadata.name") or ""
        except ValueError:
            selected = ""  # the registry will say what is wrong with it
    return new_request_info(request.method, request.path, watch=flag(request, "watch"), selected=selected)
