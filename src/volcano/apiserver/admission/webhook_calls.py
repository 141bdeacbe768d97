"""Calls one webhook: resolves its address, verifies its certificate and checks its response."""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from volcano.apiserver.admission.webhook_rules import Hook
from volcano.apiserver.interfaces import Lookup
from volcano.apiserver.service_endpoints import ResolveError, resolve
from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.dialer import Dial
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.tls_context import client_context
from volcano.kube.api.manifest import Key, Manifest

REVIEW_VERSIONS = ("v1", "v1beta1")
MOST_POOLS = 64


class CallFailed(Exception):
    """The webhook could not be called, or its response is invalid."""


class Caller:
    """Posts AdmissionReviews; keeps connections to webhooks open between calls."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._pools: dict[tuple[str, str, str], ConnectionPool] = {}

    async def call(self, hook: Hook, review: Manifest, lookup: Lookup) -> Mapping[str, Any]:
        """The `response` of the webhook's AdmissionReview; raises `CallFailed`."""
        version = _version(hook)
        body = orjson.dumps(
            {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": review}
        )
        reply = await self.post(hook.source.get("clientConfig") or {}, body, hook.seconds, lookup)
        return _response(reply, version, str(review["uid"]))

    async def post(self, client: Mapping[str, Any], body: bytes, seconds: int, lookup: Lookup) -> bytes:
        """Posts a review to the webhook of a client configuration; raises `CallFailed`."""
        url, target, server_name = _address(client, lookup)
        pool = await self._pool(url, str(client.get("caBundle") or ""), server_name)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        called = f"{target}?timeout={seconds}s"
        try:
            async with asyncio.timeout(
                seconds
            ):  # for everything: a free connection, DNS, TCP, TLS, the response
                reply = await pool.request("POST", called, headers, body, timeout=seconds)
        except TimeoutError:
            raise CallFailed(
                f'failed to call webhook: Post "{url}{called}": context deadline exceeded '
                f"(no response within {seconds} seconds)"
            ) from None
        except (RequestFailed, OSError, ssl.SSLError) as error:
            raise CallFailed(f'failed to call webhook: Post "{url}{called}": {error}') from error
        if reply.status != 200:
            raise CallFailed(f"failed to call webhook: the server answered {reply.status}")
        return reply.body

    async def _pool(self, url: str, authority: str, server_name: str) -> ConnectionPool:
        key = (url, authority, server_name)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= MOST_POOLS:
                await self.close()
            try:
                pool = ConnectionPool(
                    url,
                    tls=_context(url, authority),
                    server_name=server_name,
                    dial=self._dial,
                    same_name=bool(authority),
                )
            except ValueError as error:
                raise CallFailed(str(error)) from error
            self._pools[key] = pool
        return pool

    async def close(self) -> None:
        """Closes every connection."""
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()


def _version(hook: Hook) -> str:
    for version in hook.source.get("admissionReviewVersions") or ():
        if version in REVIEW_VERSIONS:
            return str(version)
    raise CallFailed("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def _context(url: str, authority: str) -> ssl.SSLContext | None:
    if not url.startswith("https:"):
        return None
    try:
        return client_context(base64.b64decode(authority, validate=True) if authority else None)
    except (binascii.Error, ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise CallFailed(f"the webhook's caBundle cannot be read: {error}") from error


def _address(client: Mapping[str, Any], lookup: Lookup) -> tuple[str, str, str]:
    """The URL of the server, the path to post to, and the name in its certificate."""
    if url := client.get("url"):
        parts = urlsplit(str(url))
        if parts.scheme != "https":
            raise CallFailed(f"the webhook's url {url!r} must begin with https://")
        return f"{parts.scheme}://{parts.netloc}", parts.path or "/", ""
    service = client.get("service") or {}
    key = Key(str(service.get("namespace", "")), str(service.get("name", "")))
    port = int(service.get("port") or 443)
    try:
        host, target_port = resolve(key, port, lookup)
    except ResolveError as error:
        raise CallFailed(str(error)) from error
    path = str(service.get("path") or "/")
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{target_port}", path, f"{key.name}.{key.namespace}.svc"


def _response(body: bytes, version: str, uid: str) -> Mapping[str, Any]:
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CallFailed(f"received invalid webhook response: {error}") from error
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise CallFailed("received invalid webhook response: webhook response was absent")
    if version == "v1":
        if response.get("uid") != uid:
            got = response.get("uid")
            raise CallFailed(f'received invalid webhook response: expected response.uid="{uid}", got "{got}"')
        gvk = (review.get("apiVersion"), review.get("kind"))
        if gvk != ("admission.k8s.io/v1", "AdmissionReview"):
            raise CallFailed(
                f"received invalid webhook response: expected admission.k8s.io/v1, Kind=AdmissionReview, got {gvk}"
            )
    return response
