"""What a client shows the server: tokens that rotate, plugins that make them, certificates, and whom it acts as."""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from volcano.clock import Instant
from volcano.net.http1 import RequestHeaders
from volcano.net.tls import Credential, load_credential

# Token files are read again this often, as their writers (the kubelet) replace them in time.
TOKEN_FILE_SECONDS = 60.0


class CredentialError(Exception):
    """What we should show cannot be had; the message says why and what would help."""


class Credentials(Protocol):
    """Headers that prove who we are."""

    async def headers(self, now: Instant) -> RequestHeaders: ...

    def invalidate(self) -> None:
        """The server refused them (401): the next call must not answer from a cache."""
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Headers that never change: a token, basic authentication, or none at all."""

    fixed: RequestHeaders = field(default_factory=dict)

    async def headers(self, now: Instant) -> RequestHeaders:
        return self.fixed

    def invalidate(self) -> None:
        """There is nothing to forget."""


ANONYMOUS = StaticCredentials()


def bearer(token: str) -> StaticCredentials:
    """A token that never changes."""
    return StaticCredentials({"Authorization": f"Bearer {token}"})


def basic(username: str, password: str) -> StaticCredentials:
    """A name and a password."""
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return StaticCredentials({"Authorization": f"Basic {pair}"})


class TokenFileCredentials:
    """A token in a file that somebody else keeps fresh."""

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
    """Whom to act as; the server checks that we may."""

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
    """Credentials that also say whom to act as."""

    def __init__(self, credentials: Credentials, impersonation: Impersonation) -> None:
        self._credentials = credentials
        self._added = impersonation.headers()

    async def headers(self, now: Instant) -> RequestHeaders:
        return {**await self._credentials.headers(now), **self._added}

    def invalidate(self) -> None:
        self._credentials.invalidate()


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a credential plugin answered: a token, a client certificate or both, and until when."""

    token: str = ""
    credential: Credential | None = None
    expires_at: float | None = None  # wall time


class ExecCredentials:
    """Credentials made by a program that `run` starts; kept until they expire.

    Certificates are loaded into the connection's TLS context, so that new connections show the newest.
    """

    def __init__(self, run: Callable[[], ExecCredential], tls: ssl.SSLContext | None) -> None:
        self._run = run
        self._tls = tls
        self._issued: ExecCredential | None = None
        self._turn = asyncio.Lock()

    async def headers(self, now: Instant) -> RequestHeaders:
        issued = self._issued
        if issued is None or (issued.expires_at is not None and now.wall >= issued.expires_at):
            issued = await self._renew(issued)
        return {"Authorization": f"Bearer {issued.token}"} if issued.token else {}

    async def _renew(self, stale: ExecCredential | None) -> ExecCredential:
        async with self._turn:
            if self._issued is None or self._issued is stale:
                self._issued = await asyncio.to_thread(self._run)
                if self._issued.credential is not None and self._tls is not None:
                    load_credential(self._tls, self._issued.credential)
            return self._issued

    def invalidate(self) -> None:
        self._issued = None


class CertificateFileCredentials:
    """A client certificate in files that somebody may replace: loaded again when they change."""

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
