"""Creates a client from a ClientConfig."""

import os
import random
import ssl
from collections.abc import Callable, Mapping

from volcano.base.clock import Clock
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.proxy import ProxyError, choose_proxy, parse_proxy
from volcano.base.http.tls_context import client_context
from volcano.kube.client.credentials import (
    ANONYMOUS,
    NO_IMPERSONATION,
    CertificateFileCredentials,
    Credentials,
    ExecCredentials,
    ImpersonatingCredentials,
    TokenFileCredentials,
    basic,
    bearer,
)
from volcano.kube.client.flowcontrol import RateLimiter
from volcano.kube.client.http import HttpClient, RetryPolicy
from volcano.kube.client.kubeconfig import ClientConfig, ConfigError

MAX_LIST = 2 << 30  # bytes of a reply: a list of the pods of a large cluster has hundreds of MiB


def connect(
    settings: ClientConfig,
    clock: Clock,
    *,
    environment: Mapping[str, str] = os.environ,
    chance: Callable[[], float] = random.random,
    qps: float = 0.0,
    burst: int = 100,
    connections: int = 64,
    user_agent: str = "volcano",
    retries: RetryPolicy = RetryPolicy(),
    page: int = 0,
) -> HttpClient:
    """Returns a client for the server in `settings`; connects with the first verb. A `qps` of 0 means no
    limit."""
    tls = _context(settings) if settings.server.startswith("https://") else None
    try:
        proxy = (
            parse_proxy(settings.proxy_url)
            if settings.proxy_url
            else choose_proxy(settings.server, environment)
        )
    except ProxyError as error:
        raise ConfigError(f"{settings.origin}: {error}") from error
    pool = ConnectionPool(
        settings.server,
        tls=tls,
        server_name=settings.server_name,
        proxy=proxy,
        connections=connections,
        max_body=MAX_LIST,
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


def _context(settings: ClientConfig) -> ssl.SSLContext:
    try:
        return client_context(settings.authority, settings.certificate, insecure=settings.insecure)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{settings.origin}: the certificate authority, client certificate or key is not valid PEM: {error}"
        ) from error


def _credentials(
    settings: ClientConfig, tls: ssl.SSLContext | None, environment: Mapping[str, str]
) -> Credentials:
    credentials: Credentials = ANONYMOUS
    plugin = settings.plugin
    if settings.token_file is not None:
        credentials = TokenFileCredentials(settings.token_file, settings.token)
    elif settings.token:
        credentials = bearer(settings.token)
    elif settings.username:
        credentials = basic(settings.username, settings.password)
    elif plugin is not None:
        credentials = ExecCredentials(lambda: plugin.run(environment), tls)
    if settings.certificate_files is not None and tls is not None:
        credentials = CertificateFileCredentials(credentials, *settings.certificate_files, tls)
    if settings.impersonation != NO_IMPERSONATION:
        credentials = ImpersonatingCredentials(credentials, settings.impersonation)
    return credentials
