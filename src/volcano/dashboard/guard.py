"""Checks every request before a page sees it: host, origin and viewer; adds the security headers to every answer.

Pages act through a WebSocket, which browsers open across sites with cookies: its Origin must be the dashboard's own, as
must that of every request that is not a GET. The Host must be known, so that no other name resolves to this server in a
browser (DNS rebinding).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

from volcano.dashboard.options import Authentication, DashboardOptions
from volcano.dashboard.sessions import BrowserSessions
from volcano.dashboard.viewer import Viewer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
PUBLIC = ("/login", "/healthz", "/static/login.js", "/static/login.css", "/static/icon.svg")
POLICY = "; ".join(
    (
        "default-src 'self'",
        # The page library compiles templates in the browser and writes inline scripts and styles.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
LOGIN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware around the whole dashboard."""

    def __init__(
        self,
        application: Application,
        options: DashboardOptions,
        port: int,
        sessions: BrowserSessions,
        identify: Callable[[dict[str, str], str], Awaitable[Viewer | None]],
    ) -> None:
        """`identify` returns the viewer that the headers of a request name, given the address it came from."""
        self._application = application
        self._options = options
        self._sessions = sessions
        self._identify = identify
        self._cookie = cookie_name(port)
        self._hosts = _hosts(options, port)
        self._scheme = "https" if options.encrypted else "http"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        problem = self._problem(scope, headers)
        if problem:
            await _refuse(scope, send, 403, problem)
            return
        viewer = await self._viewer(scope, headers)
        if viewer is None and scope["path"] not in PUBLIC:
            await self._ask_to_log_in(scope, headers, send)
            return
        scope.setdefault("state", {})["viewer"] = viewer
        await self._application(scope, receive, _with_headers(scope, send, self._options.encrypted))

    def _problem(self, scope: Scope, headers: dict[str, str]) -> str:
        """Why the request is rejected for every viewer; "" if it is not."""
        host = headers.get("host", "")
        if self._hosts is not None and host.lower() not in self._hosts:
            return f"host {host!r} is not a name of this dashboard; --allowed-host adds one"
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        origin = headers.get("origin", "")
        if changes and origin not in self._origins(host):
            return f"requests from {origin or 'an unknown origin'} are not accepted: it is not the dashboard's own"
        if scope["type"] == "http" and headers.get("sec-fetch-site") == "cross-site" and changes:
            return "requests from other sites are not accepted"
        return ""

    def _origins(self, host: str) -> tuple[str, ...]:
        # Behind a proxy that ends TLS, the origin is https while this server speaks http.
        other = ("https",) if self._options.authentication is not Authentication.LINK else ()
        return tuple(f"{scheme}://{host}" for scheme in (self._scheme, *other))

    async def _viewer(self, scope: Scope, headers: dict[str, str]) -> Viewer | None:
        identity = cookie_of(headers, self._cookie)
        found = self._sessions.find(identity) if identity else None
        if self._options.authentication is Authentication.LINK:
            return found
        client = (scope.get("client") or ("", 0))[0]
        if self._options.authentication is Authentication.PROXY:
            trusted = client and any(ip_address(client) in each for each in self._options.trusted_proxies)
            return await self._identify(headers, client) if trusted else None
        return found or (await self._identify(headers, client) if "authorization" in headers else None)

    async def _ask_to_log_in(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        if self._options.authentication is Authentication.PROXY:
            await _refuse(scope, send, 401, "the proxy in front of the dashboard named no user")
            return
        wants_page = scope["type"] == "http" and "text/html" in headers.get("accept", "")
        if not wants_page:
            await _refuse(scope, send, 401, "log in first")
            return
        target = scope["path"] + (
            f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        )
        location = f"/login?next={quote(target, safe='')}" if target != "/" else "/login"
        await _answer(send, 303, b"", [(b"location", location.encode()), (b"cache-control", b"no-store")])


def cookie_name(port: int) -> str:
    """Browsers send a cookie to every port of a host: several dashboards of one host need several names."""
    return f"volcano_dashboard_{port}"


def cookie_of(headers: dict[str, str], name: str) -> str:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _hosts(options: DashboardOptions, port: int) -> frozenset[str] | None:
    """Values of the Host header that are accepted; None for all, when viewers authenticate with every session."""
    if options.authentication is not Authentication.LINK and not options.allowed_hosts:
        return None
    names = {"127.0.0.1", "localhost", "[::1]", options.address, *options.allowed_hosts}
    return frozenset(name.lower() for name in names) | frozenset(f"{name.lower()}:{port}" for name in names)


def _with_headers(scope: Scope, send: Send, encrypted: bool) -> Send:
    policy = LOGIN_POLICY if scope["path"] == "/login" else POLICY
    added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    added.append((b"content-security-policy", policy.encode()))
    if encrypted:
        added.append((b"strict-transport-security", b"max-age=31536000"))

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return answer


async def _refuse(scope: Scope, send: Send, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": text[:120]})
        return
    await _answer(send, status, f"{text}\n".encode(), [(b"content-type", b"text/plain; charset=utf-8")])


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
