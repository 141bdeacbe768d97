"""Forwards a request to another HTTP server and returns its answer, upgrades (WebSocket, SPDY) included."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from volcano.apiserver.proxy.rewriting import LinkRewriter
from volcano.base.http.client_connection import RequestBody, RequestFailed, StreamedReply
from volcano.base.http.dialer import Dial
from volcano.base.http.http1 import STATUSES_WITHOUT_BODY
from volcano.base.http.messages import Answer, Connection, Request, Response, Stream, Upgrade
from volcano.base.http.pool import ConnectionPool
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError, Unavailable

log = Log("proxy")

# Headers of one connection, which are not forwarded (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
# Credentials for the API server, which a backend must not see.
CREDENTIALS = ("authorization", "impersonate-user", "impersonate-group", "impersonate-uid")
IMPERSONATE_EXTRA = "impersonate-extra-"
BEARER_PROTOCOL = "base64url.bearer.authorization.k8s.io."
CORS = "access-control-"
MAX_PAGE_BYTES = 4 << 20  # of HTML whose links are rewritten


class DialFailed(ApiError):
    """The connection for an upgrade failed; kube-apiserver gives no reason."""

    code, reason = 500, ""


@dataclass(frozen=True, slots=True)
class Backend:
    """A server that requests are forwarded to."""

    host: str
    port: int
    dial: Dial
    tls: ssl.SSLContext | None = None  # for https

    def pool(self) -> ConnectionPool:
        scheme = "https" if self.tls is not None else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return ConnectionPool(f"{scheme}://{host}:{self.port}", tls=self.tls, dial=self.dial)


def is_upgrade(request: Request) -> bool:
    tokens = [token.strip().lower() for token in request.headers.get("connection", "").split(",")]
    return "upgrade" in tokens and bool(request.headers.get("upgrade"))


async def forward(
    request: Request, backend: Backend, target: str, *, rewriter: LinkRewriter | None = None
) -> Answer:
    """Sends a request to `target` of a backend; its answer is passed on as it arrives.

    Raises Unavailable if the backend cannot be reached. `rewriter` changes links to the backend's own paths.
    """
    upgrade = is_upgrade(request)
    headers = request_headers(request, upgrade=upgrade)
    if rewriter is not None and not upgrade:
        headers["X-Forwarded-Uri"] = rewriter.forwarded_uri
    body = _body(request, headers)
    async with AsyncExitStack() as stack:
        pool = backend.pool()
        stack.push_async_callback(pool.close)
        try:
            exchange = pool.stream(request.method, target, headers, body, timeout=None)
            reply = await stack.enter_async_context(exchange)
        except RequestFailed as error:
            if upgrade:
                raise DialFailed(f"error dialing backend: {error}") from None
            raise Unavailable(f"error trying to reach service: {error}") from None
        if upgrade and reply.status < 400 and reply.status != 101:
            raise DialFailed(f"invalid upgrade response: status code {reply.status}")
        return await _answer(request, reply, None if upgrade else rewriter, stack.pop_all())


def request_headers(request: Request, *, upgrade: bool) -> dict[str, str]:
    """The headers to forward: without credentials for the API server, and with X-Forwarded-For."""
    named = {token.strip().lower() for token in request.headers.get("connection", "").split(",")}
    headers = {
        _canonical(name): value
        for name, value in request.headers.items()
        if name not in HOP_BY_HOP
        and name not in named
        and name not in CREDENTIALS
        and not name.startswith(IMPERSONATE_EXTRA)
        and name not in ("content-length", "expect")
    }
    if upgrade:
        headers |= {"Connection": "Upgrade", "Upgrade": request.headers["upgrade"]}
        _drop_bearer_protocol(headers)
    if request.peer.address:
        before = request.headers.get("x-forwarded-for")
        headers["X-Forwarded-For"] = f"{before}, {request.peer.address}" if before else request.peer.address
    return headers


def _canonical(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def _drop_bearer_protocol(headers: dict[str, str]) -> None:
    """Browsers send the token as a WebSocket protocol."""
    offered = headers.get("Sec-Websocket-Protocol")
    if offered is None:
        return
    kept = [p for p in (each.strip() for each in offered.split(",")) if not p.startswith(BEARER_PROTOCOL)]
    if kept:
        headers["Sec-Websocket-Protocol"] = ", ".join(kept)
    else:
        del headers["Sec-Websocket-Protocol"]


def _body(request: Request, headers: dict[str, str]) -> bytes | RequestBody:
    """The body to send; sets the headers of its framing where it is streamed."""
    if request.body_stream is None:
        return request.body
    length = request.headers.get("content-length")
    if length is None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = length
    return RequestBody(request.body_stream, chunked=length is None)


async def _answer(
    request: Request, reply: StreamedReply, rewriter: LinkRewriter | None, connected: AsyncExitStack
) -> Answer:
    """The answer of a backend. The connection (`connected`) is closed at its end."""
    if reply.status == 101:
        return Upgrade(lambda client: _relay(client, reply, connected), _lines(reply.lines, upgrade=True))
    headers = _lines(reply.lines, upgrade=False)
    length = reply.headers.get("content-length")
    if rewriter is not None and "location" in reply.headers:
        headers = {
            name: rewriter.rewrite(reply.headers["location"]) if name.lower() == "location" else value
            for name, value in headers.items()
        }
    elif rewriter is not None and request.method != "HEAD" and rewriter.applies_to(reply.headers):
        return await _rewritten(reply, rewriter, headers, connected)
    if reply.status in STATUSES_WITHOUT_BODY:
        await connected.aclose()
        return Response(reply.status, _single(headers))
    return Stream(
        _chunks(reply, connected),
        reply.status,
        headers,
        allow_stall=True,
        length=int(length) if length is not None and length.isdigit() else None,
    )


def _lines(lines: Iterable[tuple[str, str]], *, upgrade: bool) -> dict[str, str | tuple[str, ...]]:
    """The headers to pass on: those of the connection and of the body's framing are the server's own."""
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for name, value in lines:
        key = name.lower()
        dropped = key in HOP_BY_HOP and not (upgrade and key == "upgrade")
        if not dropped and key not in ("content-length", "date") and not key.startswith(CORS):
            found.setdefault(names.setdefault(key, name), []).append(value)
    return {name: values[0] if len(values) == 1 else tuple(values) for name, values in found.items()}


def _single(headers: dict[str, str | tuple[str, ...]]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else ", ".join(value) for name, value in headers.items()}


async def _rewritten(
    reply: StreamedReply,
    rewriter: LinkRewriter,
    headers: dict[str, str | tuple[str, ...]],
    connected: AsyncExitStack,
) -> Answer:
    """An HTML page with rewritten links; one that is too long is passed on as it is."""
    parts, size = [], 0
    async with AsyncExitStack() as unless_returned:
        unless_returned.push_async_callback(connected.aclose)
        try:
            while part := await reply.body.read():
                parts.append(part)
                size += len(part)
                if size > MAX_PAGE_BYTES:
                    unless_returned.pop_all()
                    return Stream(_chunks(reply, connected, parts), reply.status, headers, allow_stall=True)
        except RequestFailed as error:
            raise Unavailable(f"error trying to reach service: {error}") from None
    page, encoding = rewriter.rewrite_page(b"".join(parts), reply.headers)
    kept = {name: value for name, value in headers.items() if name.lower() != "content-encoding"}
    return Stream(_once(page), reply.status, {**kept, **encoding}, length=len(page))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _chunks(
    reply: StreamedReply, connected: AsyncExitStack, received: Sequence[bytes] = ()
) -> AsyncIterator[bytes]:
    async with connected:
        try:
            for part in received:
                yield part
            while part := await reply.body.read():
                yield part
        except RequestFailed as error:
            raise ConnectionResetError(f"the backend did not complete its response: {error}") from None


async def _relay(client: Connection, reply: StreamedReply, connected: AsyncExitStack) -> None:
    """Copies bytes in both directions until one side closes."""
    async with connected:
        copies = [
            asyncio.create_task(_copy(client, reply.body)),
            asyncio.create_task(_copy(reply.body, client)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)


async def _copy(source: Connection, sink: Connection) -> None:
    try:
        while part := await source.read():
            await sink.write(part)
    except (OSError, RequestFailed) as error:
        log.debug("proxied connection ended", reason=str(error))
