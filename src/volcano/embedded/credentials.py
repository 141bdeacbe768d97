"""Credentials of a cluster: its CA, server certificate, admin token and token signing key."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from volcano.apiserver.authn.tokens import new_signing_key
from volcano.apiserver.proxy.kubelets import CLIENT_NAME
from volcano.base.http.tls import (
    AUTHORITY_DAYS,
    Authority,
    Credential,
    covers,
    create_authority,
    issue,
    issued_by,
    needs_renewal,
    write_private,
)

MASTERS = "system:masters"
# Files of the credentials, all of them readable by the owner only.
FILES = ("ca.crt", "ca.key", "server.crt", "server.key", "admin.token", "signing.key")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets of a cluster."""

    authority: Authority
    server: Credential
    kubelet_client: Credential  # with which the API server connects to kubelets
    admin_token: str
    signing_key: bytes


def load_or_create(directory: Path, hosts: tuple[str, ...], now: float) -> Credentials:
    """Loads the credentials of a directory; creates missing and expired ones, readable by the owner only."""
    authority = Authority(
        *_pair(
            directory,
            "ca",
            lambda: create_authority("volcano", now=now),
            keep=lambda c: not needs_renewal(c.cert_pem, now),
        )
    )
    server = Credential(
        *_pair(
            directory,
            "server",
            lambda: issue(authority, "volcano", hosts=hosts, now=now, server=True),
            keep=lambda c: (
                covers(c.cert_pem, hosts)
                and issued_by(c.cert_pem, authority)
                and not needs_renewal(c.cert_pem, now)
            ),
        )
    )
    # Not kept in a file: a new one serves as well.
    kubelet_client = issue(
        authority, CLIENT_NAME, organizations=(MASTERS,), now=now, days=AUTHORITY_DAYS, client=True
    )
    token = _kept(directory / "admin.token", lambda: secrets.token_urlsafe(32).encode()).decode()
    key = _kept(directory / "signing.key", new_signing_key)
    return Credentials(authority, server, kubelet_client, token, key)


def _pair(
    directory: Path, name: str, make: Callable[[], Credential], *, keep: Callable[[Credential], bool]
) -> tuple[bytes, bytes]:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if certificate.exists() and key.exists():
        known = Credential(certificate.read_bytes(), key.read_bytes())
        if keep(known):
            return known.cert_pem, known.key_pem
    made = make()
    write_private(key, made.key_pem)
    write_private(certificate, made.cert_pem)
    return made.cert_pem, made.key_pem


def _kept(path: Path, make: Callable[[], bytes]) -> bytes:
    if not path.exists() or not path.stat().st_size:
        write_private(path, make())
    return path.read_bytes()
