"""Client credentials: static and rotating tokens, exec plugins, certificates and impersonation."""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from volcano.base.clock import Instant
from volcano.base.http.http1 import RequestHeaders
from volcano.base.http.tls_context import Credential, load_credential

# Token files are read again this often: the kubelet rotates them in time.
TOKEN_FILE_SECONDS = 60.0


class CredentialError(Exception):
    """Credentials cannot be obtained; the message says why and what would help."""


class Credentials(Protocol):
    """Provides authentication headers."""

    async def headers(self, now: Instant) -> RequestHeaders: ...

    def invalidate(self) -> None:
        """Called when the server rejected them (401): the next call must not use a cache."""
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Headers that never change: a token, basic authentication, or none."""

    fixed: RequestHeaders = field(default_factory=dict)

    async def headers(self, now: Instant) -> RequestHeaders:
        return self.fixed

    def invalidate(self) -> None:
        """Does nothing: the headers are not cached."""


ANONYMOUS = StaticCredentials()


def bearer(token: str) -> StaticCredentials:
    return StaticCredentials({"Authorization": f"Bearer {token}"})


def basic(username: str, password: str) -> StaticCredentials:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return StaticCredentials({"Authorization": f"Basic {pair}"})


class TokenFileCredentials:
    """A token in a file that is rotated externally."""

    def __init__(self, path: Path, fallback: str = "") -> None:
        self._path = path
        self._token = fallback
        self._read_at: float | None = None

    async def headers(self, now: Instant) -> RequestHeaders:
        if self._read_at is None or now.monotonic - self._read_at >= TOKEN_FILE_SECONDS:
            self._read_at = now.monotonic
            try:
                self._token = self._path.read_text().strip() or self._token
            except OSError:
                if not self._token:
                    raise
        return {"Authorization": f"Bearer {self._token}"}

    def invalidate(self) -> None:
        self._read_at = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to impersonate; the server checks the permission."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> RequestHeaders:
        headers: dict[str, str | tuple[str, ...]] = {}
        if self.user:
            headers["Impersonate-User"] = self.user
        if self.uid:
            headers["Impersonate-Uid"] = self.uid
        if self.groups:
            headers["Impersonate-Group"] = self.groups
        return headers | {f"Impersonate-Extra-{name}": values for name, values in self.extra.items()}


NO_IMPERSONATION = Impersonation()


class ImpersonatingCredentials:
    """Adds impersonation headers to credentials."""

    def __init__(self, credentials: Credentials, impersonation: Impersonation) -> None:
        self._credentials = credentials
        self._added = impersonation.headers()

    async def headers(self, now: Instant) -> RequestHeaders:
        return {**await self._credentials.headers(now), **self._added}

    def invalidate(self) -> None:
        self._credentials.invalidate()


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """The answer of a credential plugin: a token, a client certificate or both, and their expiry."""

    token: str = ""
    credential: Credential | None = None
    expires_at: float | None = None  # wall time


class ExecCredentials:
    """Credentials from a program that `run` starts; cached until they expire.

    Certificates are loaded into the TLS context, so that new connections use the newest.
    """

    def __init__(self, run: Callable[[], ExecCredential], tls: ssl.SSLContext | None) -> None:
        self._run = run
        self._tls = tls
        self._issued: ExecCredential | None = None
        self._lock = asyncio.Lock()

    async def headers(self, now: Instant) -> RequestHeaders:
        issued = self._issued
        if issued is None or (issued.expires_at is not None and now.wall >= issued.expires_at):
            issued = await self._renew(issued)
        return {"Authorization": f"Bearer {issued.token}"} if issued.token else {}

    async def _renew(self, stale: ExecCredential | None) -> ExecCredential:
        async with self._lock:
            if self._issued is None or self._issued is stale:
                self._issued = await asyncio.to_thread(self._run)
                if self._issued.credential is not None and self._tls is not None:
                    load_credential(self._tls, self._issued.credential)
            return self._issued

    def invalidate(self) -> None:
        self._issued = None


class CertificateFileCredentials:
    """A client certificate in files that may be rotated: reloaded when they change."""

    def __init__(self, credentials: Credentials, cert: Path, key: Path, tls: ssl.SSLContext) -> None:
        self._credentials = credentials
        self._cert, self._key, self._tls = cert, key, tls
        self._read_at: float | None = None
        self._loaded: Credential | None = None

    async def headers(self, now: Instant) -> RequestHeaders:
        if self._read_at is None or now.monotonic - self._read_at >= TOKEN_FILE_SECONDS:
            self._read_at = now.monotonic
            credential = Credential(self._cert.read_bytes(), self._key.read_bytes())
            if credential != self._loaded:
                load_credential(self._tls, credential)
                self._loaded = credential
        return await self._credentials.headers(now)

    def invalidate(self) -> None:
        self._read_at = None
        self._credentials.invalidate()
