"""Requests to the HTTP APIs of load sources."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import orjson

from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.tls_context import client_context
from volcano.scheduler.engine.load_settings import LoadSettings
from volcano.scheduler.load.values import LoadSourceError

TIMEOUT = 60.0
SHOWN = 300  # characters of an error response


async def send(settings: LoadSettings, method: str, path: str, *, kind: str = "", body: bytes = b"") -> Any:
    """Sends one request and decodes the JSON in the response. Raises LoadSourceError."""
    try:
        headers, tls = await asyncio.to_thread(_prepare, settings)
        pool = ConnectionPool(settings.address, tls=tls, connections=1)
    except (OSError, ValueError) as error:
        raise LoadSourceError(str(error)) from error
    prefix = settings.address.partition("://")[2].partition("/")[2]
    target = f"/{prefix.rstrip('/')}{path}" if prefix else path
    try:
        if kind:
            headers["Content-Type"] = kind
        reply = await pool.request(method, target, headers, body, timeout=TIMEOUT)
    except (RequestFailed, OSError) as error:
        raise LoadSourceError(str(error)) from error
    finally:
        await pool.close()
    if reply.status != 200:
        text = reply.body[:SHOWN].decode(errors="replace").strip()
        raise LoadSourceError(
            f"it answered {reply.status}: {text}" if text else f"it answered {reply.status}"
        )
    try:
        return orjson.loads(reply.body)
    except orjson.JSONDecodeError as error:
        raise LoadSourceError(f"it did not answer with JSON: {error}") from None


def _prepare(settings: LoadSettings) -> tuple[dict[str, str], ssl.SSLContext | None]:
    """Headers and TLS context; files are read for each request, so that renewed ones are used."""
    headers = {"Accept": "application/json", "User-Agent": "volcano-scheduler"}
    token = Path(settings.token_file).read_text().strip() if settings.token_file else settings.token
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif settings.username:
        pair = f"{settings.username}:{settings.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if not settings.address.startswith("https:"):
        return headers, None
    authority = Path(settings.authority_file).read_bytes() if settings.authority_file else None
    return headers, client_context(authority, insecure=settings.insecure)
