"""Non-resource handlers: discovery, health, version, metrics, OpenAPI and OpenID issuer discovery."""

from collections.abc import Awaitable, Callable

import orjson

from volcano.apiserver.authn.tokens import Tokens
from volcano.apiserver.endpoints.discovery import Discovery, grouped
from volcano.apiserver.endpoints.health import Health, RequestMetrics, version_response
from volcano.apiserver.registry.kind_table import KindTable
from volcano.base.http.messages import Request, Response
from volcano.kube.api.errors import MethodNotAllowed

JSON_HEADERS = {"Content-Type": "application/json"}
# Handles /openapi/v3 and the paths below it; returns None for a document that does not exist.
OpenApi = Callable[[Request], Response | None]
# Handles /openapi/v2, which takes long to build.
OpenApiV2 = Callable[[Request], Awaitable[Response]]
# Answers requests for a path of another component.
Page = Callable[[Request], Response]
NON_RESOURCE_PATHS = (
    "/.well-known/openid-configuration",
    "/healthz",
    "/healthz/ping",
    "/livez",
    "/livez/ping",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/readyz/ping",
    "/version",
)


class NonResourceHandler:
    """Handles non-resource requests."""

    def __init__(
        self,
        table: KindTable,
        discovery: Discovery,
        health: Health,
        metrics: RequestMetrics,
        tokens: Tokens,
        version: str,
        openapi: OpenApi,
        openapi_v2: OpenApiV2,
    ) -> None:
        self._table = table
        self._discovery = discovery
        self._health = health
        self._tokens = tokens
        self._openapi = openapi
        self._openapi_v2 = openapi_v2
        self._pages: dict[str, Page] = {}
        self._handlers: dict[str, Callable[[], Response]] = {
            "/version": lambda: version_response(version),
            "/metrics": metrics.response,
            "/.well-known/openid-configuration": self._openid_configuration,
            "/openid/v1/jwks": self._jwks,
        }

    def add(self, path: str, page: Page) -> None:
        """Answers requests for one more path, for users who may get it."""
        self._pages[path] = page

    async def handle(self, request: Request) -> Response:
        """Handles a request; an unknown path returns the list of known paths, with status 404."""
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        path = request.path.rstrip("/") or "/"
        if path in self._handlers:
            return self._handlers[path]()
        if path in self._pages:
            return self._pages[path](request)
        if path == "/openapi/v2":
            return await self._openapi_v2(request)
        if path == "/openapi/v3" or path.startswith("/openapi/v3/"):
            found = self._openapi(request)
        else:
            found = self._health.handle(request) or self._discovery.handle(request)
        return found or self._index(200 if path == "/" else 404)

    def _index(self, status: int) -> Response:
        groups = grouped(served.kind for served in self._table)
        api = ["/api", *(f"/api/{version}" for version in groups.get("", ())), "/apis"]
        for group, versions in groups.items():
            if group:
                api += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        body = orjson.dumps(
            {"paths": sorted([*api, *NON_RESOURCE_PATHS, *self._pages])}, option=orjson.OPT_INDENT_2
        )
        return Response(status, dict(JSON_HEADERS), body)

    def _openid_configuration(self) -> Response:
        issuer = self._tokens.issuer
        document = {
            "issuer": issuer,
            "jwks_uri": f"{issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return Response(200, dict(JSON_HEADERS), orjson.dumps(document))

    def _jwks(self) -> Response:
        headers = {"Content-Type": "application/jwk-set+json", "Cache-Control": "public, max-age=3600"}
        return Response(200, headers, orjson.dumps(self._tokens.key.jwks()))
