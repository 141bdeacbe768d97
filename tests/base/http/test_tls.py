"""Certificates do what they are for, and no more."""

import asyncio
import ssl
import stat
import time
from pathlib import Path

import pytest

from tests.base.http.conftest import Serve
from volcano.base.http import tls
from volcano.base.http.messages import Request, Response

NOW = 1_790_000_000.0
DAY = 86_400.0


@pytest.fixture(scope="module")
def authority() -> tls.Authority:
    return tls.create_authority("test-ca", now=time.time())


def issue(authority: tls.Authority, name: str, **options: object) -> tls.Credential:
    return tls.issue(authority, name, now=time.time(), **options)  # type: ignore[arg-type]


async def whoami(request: Request) -> Response:
    peer = request.peer
    return Response(200, {}, f"{peer.common_name}:{','.join(peer.organizations)}".encode())


async def ask(serve: Serve, server: ssl.SSLContext, client: ssl.SSLContext, name: str = "127.0.0.1") -> bytes:
    wire = await (await serve(whoami, tls=server)).connect(client, server_hostname=name)
    await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    return (await wire.answer())[2]


async def test_a_client_certificate_names_its_owner(serve: Serve, authority: tls.Authority) -> None:
    server = tls.server_context(
        issue(authority, "server", server=True, hosts=["127.0.0.1", "localhost"]),
        client_authority=authority.cert_pem,
    )
    admin = issue(authority, "admin", organizations=["system:masters", "ops"], client=True)
    assert (
        await ask(serve, server, tls.client_context(authority.cert_pem, admin)) == b"admin:system:masters,ops"
    )
    assert await ask(serve, server, tls.client_context(authority.cert_pem), "localhost") == b":"


async def test_a_client_certificate_of_another_authority_is_rejected(
    serve: Serve, authority: tls.Authority
) -> None:
    server = tls.server_context(
        issue(authority, "server", server=True, hosts=["127.0.0.1"]), client_authority=authority.cert_pem
    )
    other_credential = issue(tls.create_authority("other", now=NOW), "admin", client=True)
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await ask(serve, server, tls.client_context(authority.cert_pem, other_credential))


async def test_a_server_is_trusted_only_under_its_own_names(serve: Serve, authority: tls.Authority) -> None:
    server = tls.server_context(issue(authority, "server", server=True, hosts=["127.0.0.1"]))
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        await ask(serve, server, tls.client_context(authority.cert_pem), "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask(serve, server, tls.client_context())
    assert await ask(serve, server, tls.client_context(insecure=True), "elsewhere") == b":"


async def test_a_client_certificate_cannot_play_server(serve: Serve, authority: tls.Authority) -> None:
    server = tls.server_context(issue(authority, "client", client=True, hosts=["127.0.0.1"]))
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask(serve, server, tls.client_context(authority.cert_pem))


@pytest.mark.parametrize(
    ("age", "due"),
    [
        pytest.param(0, False, id="fresh"),
        pytest.param(50 * DAY, False, id="half its life gone"),
        pytest.param(70 * DAY, True, id="less than a third left"),
        pytest.param(200 * DAY, True, id="expired"),
        pytest.param(-DAY / 2, False, id="made by a clock that is ahead"),
        pytest.param(-2 * DAY, True, id="not valid yet"),
    ],
)
def test_a_certificate_is_renewed_in_time(age: float, due: bool) -> None:
    authority = tls.create_authority("ca", now=NOW)
    certificate = tls.issue(authority, "x", now=NOW, days=90, client=True).cert_pem
    assert tls.needs_renewal(certificate, NOW + age) is due
    assert tls.expires_at(certificate) == NOW + 90 * DAY


def test_a_certificate_names_its_hosts_and_its_issuer(authority: tls.Authority) -> None:
    certificate = issue(authority, "x", server=True, hosts=["127.0.0.1", "example.test"]).cert_pem
    assert tls.covers(certificate, ["example.test"])
    assert not tls.covers(certificate, ["example.test", "10.0.0.1"])
    assert not tls.covers(issue(authority, "x", client=True).cert_pem, ["example.test"])
    assert tls.issued_by(certificate, authority)
    assert not tls.issued_by(certificate, tls.create_authority("test-ca", now=NOW))


def test_a_certificate_for_nothing_is_refused(authority: tls.Authority) -> None:
    with pytest.raises(ValueError, match="'x' must be for a client, a server or both"):
        issue(authority, "x")


def test_private_files_are_private_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "pki" / "ca.key"
    tls.write_private(path, b"old")
    tls.write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["ca.key"]
