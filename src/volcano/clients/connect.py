"""From connection settings to a client that is ready to ask."""

import os
import random
import ssl
from collections.abc import Callable, Mapping

from volcano.clients.credentials import (
    ANONYMOUS,
    NOBODY_ELSE,
    CertificateFiles,
    Credentials,
    Impersonating,
    Plugin,
    TokenFile,
    basic,
    bearer,
)
from volcano.clients.http import HttpClient, Retries
from volcano.clients.kubeconfig import ConfigError, Settings
from volcano.clock import Clock
from volcano.kube.flowcontrol import RateLimiter
from volcano.net.pool import Pool
from volcano.net.proxy import ProxyError, choose_proxy, parse_proxy
from volcano.net.tls import client_context


def connect(
    settings: Settings,
    clock: Clock,
    *,
    environment: Mapping[str, str] = os.environ,
    chance: Callable[[], float] = random.random,
    qps: float = 0.0,
    burst: int = 100,
    connections: int = 64,
    user_agent: str = "volcano",
    retries: Retries = Retries(),
    page: int = 0,
) -> HttpClient:
    """A client for the server in `settings`; nothing is sent before the first verb. A `qps` of 0 means no limit."""
    tls = _context(settings) if settings.server.startswith("https://") else None
    try:
        proxy = (
            parse_proxy(settings.proxy_url)
            if settings.proxy_url
            else choose_proxy(settings.server, environment)
        )
    except ProxyError as error:
        raise ConfigError(f"{settings.origin}: {error}") from error
    pool = Pool(
        settings.server, tls=tls, server_name=settings.server_name, proxy=proxy, connections=connections
    )
    return HttpClient(
        pool,
        clock,
        chance=chance,
        credentials=_credentials(settings, tls, environment),
        limiter=RateLimiter(qps, burst, clock) if qps > 0 else None,
        retries=retries,
        user_agent=user_agent,
        page=page,
    )


def _context(settings: Settings) -> ssl.SSLContext:
    try:
        return client_context(settings.authority, settings.certificate, insecure=settings.insecure)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{settings.origin}: the certificate authority, client certificate or key is not valid PEM: {error}"
        ) from error


def _credentials(
    settings: Settings, tls: ssl.SSLContext | None, environment: Mapping[str, str]
) -> Credentials:
    credentials: Credentials = ANONYMOUS
    plugin = settings.plugin
    if settings.token_file is not None:
        credentials = TokenFile(settings.token_file, settings.token)
    elif settings.token:
        credentials = bearer(settings.token)
    elif settings.username:
        credentials = basic(settings.username, settings.password)
    elif plugin is not None:
        credentials = Plugin(lambda: plugin.run(environment), tls)
    if settings.certificate_files is not None and tls is not None:
        credentials = CertificateFiles(credentials, *settings.certificate_files, tls)
    if settings.impersonation != NOBODY_ELSE:
        credentials = Impersonating(credentials, settings.impersonation)
    return credentials
