"""The client protocol over HTTP, for any API server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson

from volcano.base.clock import Clock
from volcano.base.http.client_connection import Reply, ReplyTooLarge, RequestFailed
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.websocket import WebSocket
from volcano.base.http.websocket import connect as connect_websocket
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import Gone, Unauthorized, Unavailable
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.credentials import ANONYMOUS, CredentialError, Credentials
from volcano.kube.client.flowcontrol import RateLimiter
from volcano.kube.client.protocol import (
    DEFAULTS,
    EVERYTHING,
    Decode,
    Event,
    Listing,
    Options,
    PatchType,
    Query,
)
from volcano.kube.client.replies import LineSplitter, decode_batch, decode_list, error_of_reply, retry_after
from volcano.kube.client.requests import (
    delete_body,
    list_parameters,
    patch_body,
    path_of,
    watch_parameters,
    with_query,
    write_body,
    write_parameters,
)
from volcano.kube.client.watch_batches import flatten

# Watches end after between one and two times this long, so that they spread over servers and do not end
# together.
WATCH_SECONDS = 300
# API servers send a bookmark every minute: a watch without any event for longer than this is considered
# broken, even if its connection is open, and is resumed.
SILENCE_TIMEOUT = 150.0
RETRY_BACKOFF = Backoff(first=0.1, longest=5.0)
MAX_ERROR = 1 << 20  # bytes of an error that are read


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and after which delays a request is retried."""

    attempts: int = 6
    backoff: Backoff = RETRY_BACKOFF

    def delay(self, attempt: int, requested: int | None, chance: float) -> float:
        """Seconds before the next attempt: as the server requested, else exponential with half of it as
        jitter."""
        if requested is not None:
            return requested + chance * self.backoff.first
        delay = self.backoff.delay(attempt)
        return delay / 2 + chance * delay / 2


class HttpClient:
    """A `Client` of the API server behind a connection pool."""

    def __init__(
        self,
        pool: ConnectionPool,
        clock: Clock,
        *,
        chance: Callable[[], float],
        credentials: Credentials = ANONYMOUS,
        limiter: RateLimiter | None = None,
        retries: RetryPolicy = RetryPolicy(),
        user_agent: str = "volcano",
        page: int = 0,
        timeout: float = 60.0,
        silence: float = SILENCE_TIMEOUT,
    ) -> None:
        """`chance` returns numbers in [0, 1), for jitter; with `page`, lists are fetched in pages of that
        size."""
        self._pool = pool
        self._clock = clock
        self._chance = chance
        self._credentials = credentials
        self._limiter = limiter
        self._retries = retries
        self._page = page
        self._timeout = timeout
        self._silence = silence
        self._common = {"Accept": "application/json", "User-Agent": user_agent}

    async def close(self) -> None:
        """Closes the connections; watches end."""
        await self._pool.close()

    # the seven verbs

    async def get(self, kind: Kind, key: Key, *, subresource: str = "") -> Manifest:
        return await self._json("GET", path_of(kind, key.namespace, key.name, subresource))

    async def list(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Listing:
        if query.limit or query.continue_token or not self._page:
            return await self._list(kind, query, decode)
        try:
            return await self._list_in_pages(kind, replace(query, limit=self._page), decode)
        except Gone:  # the snapshot was compacted away between two pages
            return await self._list(kind, query, decode)

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        key = key_of(manifest)
        path = path_of(kind, _namespace_of(kind, key), key.name if subresource else "", subresource)
        body = write_body(kind, manifest, subresource, options)
        return await self._json("POST", with_query(path, write_parameters(options)), body)

    async def update(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        key = key_of(manifest)
        path = path_of(kind, _namespace_of(kind, key), key.name, subresource)
        body = write_body(kind, manifest, subresource, options)
        return await self._json("PUT", with_query(path, write_parameters(options)), body)

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        applying = options.patch_type is PatchType.APPLY
        parameters = write_parameters(options, applying=applying)
        target = with_query(path_of(kind, _namespace_of(kind, key), key.name, subresource), parameters)
        return await self._json("PATCH", target, patch_body(patch, options), options.patch_type.value)

    async def delete(self, kind: Kind, key: Key, *, options: Options = DEFAULTS) -> Manifest:
        path = path_of(kind, _namespace_of(kind, key), key.name)
        return await self._json("DELETE", path, delete_body(options))

    def watch(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncIterator[Event]:
        return flatten(self.watch_batches(kind, query, decode=decode))

    async def watch_batches(
        self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads
    ) -> AsyncGenerator[Sequence[Event], None]:
        """As `watch`, in batches of the events of one read."""
        seconds = query.timeout_seconds or int(WATCH_SECONDS * (1 + self._chance()))
        target = with_query(path_of(kind, query.namespace), watch_parameters(query, seconds))
        silence = self._silence if query.bookmarks else None
        async with aclosing(self.lines(target, silence=silence)) as blocks:
            async for lines in blocks:
                group, error = decode_batch(lines, kind, decode)
                if group:
                    yield group
                if error is not None:
                    raise error

    # beyond the protocol

    async def raw(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Reply:
        """Sends any request, with credentials and retries; raises the error of a status of 400 or more."""
        return await self._request(method, target, body, content_type)

    async def lines(
        self, target: str, *, silence: float | None = None
    ) -> AsyncGenerator[Sequence[bytes], None]:
        """Yields the lines of a streamed response, several at a time; fails after `silence` seconds without
        any."""
        if self._limiter is not None:
            await self._limiter.acquire()
        headers = await self._headers("")
        cutter = LineSplitter()
        try:
            async with self._pool.stream("GET", target, headers, timeout=self._timeout) as reply:
                if reply.status != 200:
                    body = b""
                    while len(body) < MAX_ERROR and (part := await reply.body.read()):
                        body += part
                    if reply.status == 401:
                        self._credentials.invalidate()
                    raise error_of_reply(reply.status, reply.headers, body)
                while True:
                    async with asyncio.timeout(silence):
                        data = await reply.body.read()
                    if not data:
                        return
                    if lines := cutter.feed(data):
                        yield lines
        except RequestFailed as error:
            raise Unavailable(str(error)) from error
        except TimeoutError:
            raise Unavailable(f"{target}: the server was silent for {silence:g} seconds") from None

    @asynccontextmanager
    async def websocket(self, target: str, *, protocols: Sequence[str]) -> AsyncIterator[WebSocket]:
        """Opens a websocket, with credentials; raises `RequestFailed` when the server rejects it."""
        async with connect_websocket(
            self._pool, target, await self._headers(""), protocols=protocols
        ) as opened:
            yield opened

    # requests

    async def _list(self, kind: Kind, query: Query, decode: Decode) -> Listing:
        target = with_query(path_of(kind, query.namespace), list_parameters(query))
        reply = await self._request("GET", target)
        return decode_list(reply.body, kind, decode)

    async def _list_in_pages(self, kind: Kind, query: Query, decode: Decode) -> Listing:
        items: list[Any] = []
        while True:
            page = await self._list(kind, query, decode)
            items += page.items
            if not page.continue_token:
                return Listing(items, page.resource_version)
            # A continued list must not have a version: the token has it.
            query = replace(
                query, continue_token=page.continue_token, resource_version="", resource_version_match=""
            )

    async def _json(self, method: str, target: str, body: Any = None, content_type: str = "") -> Manifest:
        data = b"" if body is None else orjson.dumps(body)
        reply = await self._request(method, target, data, content_type or "application/json" if data else "")
        try:
            manifest: Manifest = orjson.loads(reply.body)
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"{method} {target}: the server's answer is no JSON: {error}") from error
        return manifest

    async def _request(self, method: str, target: str, body: bytes = b"", content_type: str = "") -> Reply:
        attempt = 0
        reauthenticated = False
        while True:
            requested: int | None = None
            last = attempt + 1 >= self._retries.attempts
            try:
                reply = await self._once(method, target, body, content_type)
            except RequestFailed as error:
                # A request that the server may have processed is repeated only if that is harmless.
                if last or isinstance(error, ReplyTooLarge) or (error.sent and method != "GET"):
                    raise Unavailable(f"{method} {target}: {error}") from error
            else:
                if reply.status < 300:
                    return reply
                if reply.status == 401 and not reauthenticated:
                    reauthenticated = True
                    self._credentials.invalidate()
                    continue
                requested = retry_after(reply.headers)
                if last or not _is_retryable(method, reply.status, requested):
                    raise error_of_reply(reply.status, reply.headers, reply.body)
            await self._clock.sleep(self._retries.delay(attempt, requested, self._chance()))
            attempt += 1

    async def _once(self, method: str, target: str, body: bytes, content_type: str) -> Reply:
        if self._limiter is not None:
            await self._limiter.acquire()
        headers = await self._headers(content_type)
        return await self._pool.request(method, target, headers, body, timeout=self._timeout)

    async def _headers(self, content_type: str) -> dict[str, str | tuple[str, ...]]:
        try:
            headers = {**self._common, **await self._credentials.headers(self._clock.now())}
        except (CredentialError, OSError) as error:
            raise Unauthorized(f"no credentials to show: {error}") from error
        if content_type:
            headers["Content-Type"] = content_type
        return headers


def _is_retryable(method: str, status: int, requested: int | None) -> bool:
    """Whether a failed request may be retried: always when the server requests it, else reads only."""
    if status != 429 and status < 500:
        return False
    return requested is not None or method == "GET"


def _namespace_of(kind: Kind, key: Key) -> str:
    """Returns the namespace an object is written to; `default` for namespaced kinds without one."""
    return key.namespace or ("default" if kind.namespaced else "")
