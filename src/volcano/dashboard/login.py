"""Log in and log out: the exchange of a one-time link or a bearer token for a cookie."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response

from volcano.base.clock import Clock
from volcano.dashboard.guard import cookie_name
from volcano.dashboard.links import LinkTokens
from volcano.dashboard.options import Authentication, DashboardOptions
from volcano.dashboard.sessions import BrowserSessions
from volcano.dashboard.viewer import Viewer, connection_of, impersonating, user_name, with_token
from volcano.kube.client.kubeconfig import ClientConfig

STATIC = Path(__file__).parent / "static"
HOW_TO_LOG_IN = "<!-- how to log in -->"  # is replaced in the page
LONGEST_BODY = 64 * 1024
PAUSE_AFTER_FAILURE = 0.5
MOST_IDENTIFIED = 1000
EXPIRED = (
    "This link was used before or is older than ten minutes. `volcano dashboard --link` prints a new one."
)
UNKNOWN = "The API server does not accept this token."


class Login:
    """Creates viewers from what a browser or a proxy presents."""

    def __init__(
        self,
        options: DashboardOptions,
        config: ClientConfig,
        port: int,
        sessions: BrowserSessions,
        clock: Clock,
    ) -> None:
        self._options = options
        self._config = config
        self._cookie = cookie_name(port)
        self._sessions = sessions
        self._clock = clock
        self._links = LinkTokens(options.link_key)
        self._identified: dict[tuple[str, ...], Viewer] = {}  # by what the headers say

    def add_routes(self, application: FastAPI) -> None:
        application.add_api_route("/login", self._page, methods=["GET"], response_class=HTMLResponse)
        application.add_api_route("/login", self._log_in, methods=["POST"])
        application.add_api_route("/logout", self._log_out, methods=["POST"])
        application.add_api_route("/healthz", lambda: PlainTextResponse("ok\n"), methods=["GET"])
        application.add_api_route("/static/{name}", self._file, methods=["GET"])

    async def viewer_of_headers(self, headers: dict[str, str], _client: str) -> Viewer | None:
        """The viewer that an authenticating proxy names, or whose bearer token is in a header."""
        if self._options.authentication is Authentication.PROXY:
            user = headers.get(self._options.user_header.lower(), "")
            groups = tuple(
                filter(None, map(str.strip, headers.get(self._options.groups_header.lower(), "").split(",")))
            )
            return (
                self._remembered(("user", user, *groups), user, impersonating(self._config, user, groups))
                if user
                else None
            )
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        known = self._identified.get(("token", token))
        if known is not None:
            return known
        name = await self._name_of(with_token(self._config, token))
        return self._remembered(("token", token), name, with_token(self._config, token)) if name else None

    def _remembered(self, identity: tuple[str, ...], name: str, config: ClientConfig) -> Viewer:
        if identity not in self._identified:
            while len(self._identified) >= MOST_IDENTIFIED:
                self._identified.pop(next(iter(self._identified)))
            self._identified[identity] = Viewer(name, config, self._clock)
        return self._identified[identity]

    async def _name_of(self, config: ClientConfig) -> str:
        connection = connection_of(config, self._clock)
        try:
            return await user_name(connection)
        finally:
            await connection.close()

    async def _page(self) -> HTMLResponse:
        return HTMLResponse(login_page(self._options.authentication), headers={"Cache-Control": "no-store"})

    async def _file(self, name: str) -> Response:
        known = {each.name for each in STATIC.iterdir()}
        return FileResponse(STATIC / name) if name in known else PlainTextResponse("not found\n", 404)

    async def _log_in(self, request: Request) -> Response:
        length = request.headers.get("content-length", "")
        if not length.isdigit() or int(length) > LONGEST_BODY:
            return JSONResponse({"error": "the request is too large"}, 413)
        sent: Any = await _json(request)
        token = str(sent.get("token") or "").strip() if isinstance(sent, dict) else ""
        viewer = await self._accept(token) if token else None
        if viewer is None:
            await asyncio.sleep(PAUSE_AFTER_FAILURE)
            return JSONResponse({"error": EXPIRED if self._by_link else UNKNOWN}, 401)
        answer = JSONResponse({"next": safe_target(str(sent.get("next") or "/"))})
        answer.set_cookie(
            self._cookie,
            await self._sessions.begin(viewer),
            httponly=True,
            samesite="strict",
            secure=self._options.encrypted,
            path="/",
        )
        return answer

    @property
    def _by_link(self) -> bool:
        return self._options.authentication is Authentication.LINK

    async def _accept(self, token: str) -> Viewer | None:
        if self._by_link:
            if not self._links.redeem(token, self._clock.now().wall):
                return None
            config = self._config
        else:
            config = with_token(self._config, token)
        name = await self._name_of(config)
        if not name and not self._by_link:
            return None
        return Viewer(name or "you", config, self._clock)

    async def _log_out(self, request: Request) -> Response:
        await self._sessions.end(request.cookies.get(self._cookie, ""))
        answer = JSONResponse({"next": "/login"})
        answer.delete_cookie(self._cookie, path="/")
        return answer


def safe_target(target: str) -> str:
    """A path of this dashboard: a link must not lead to another site after the login."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not target.startswith("/") or target.startswith(("//", "/\\")):
        return "/"
    return target


def login_page(authentication: Authentication) -> str:
    """The page that tells how to log in."""
    page = (STATIC / "login.html").read_text()
    return page.replace(HOW_TO_LOG_IN, (STATIC / f"login-{authentication}.html").read_text())


async def _json(request: Request) -> object:
    try:
        return await request.json()
    except ValueError:
        return None
