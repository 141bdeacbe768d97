"""Certificates that bear the name of their authority, as some operators issue them for their webhooks."""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from volcano.net.client_connection import RequestFailed
from volcano.net.pool import ConnectionPool
from volcano.net.same_name import issued_to
from volcano.net.tls_context import Credential, client_context, server_context

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.default.svc")])
Key = ec.EllipticCurvePrivateKey
DAY = timedelta(days=1)


def key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(
    own: Key,
    signer: Key,
    *,
    ca: bool = False,
    hosts: Iterable[str] = ("hooks.default.svc",),
    age: timedelta = timedelta(),
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> x509.Certificate:
    """A certificate without key identifiers whose subject and issuer are the same."""
    begin = datetime.now(UTC) - DAY - age
    builder = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + 2 * DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if not ca:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


ROOT, LEAF, OTHER = key(), key(), key()
AUTHORITY = certificate(ROOT, ROOT, ca=True)


@pytest.mark.parametrize(
    ("leaf", "authority", "accepted"),
    [
        pytest.param(certificate(LEAF, ROOT), AUTHORITY, True, id="issued by the authority"),
        pytest.param(certificate(LEAF, ROOT, hosts=["*.default.svc"]), AUTHORITY, True, id="by a wildcard"),
        pytest.param(certificate(LEAF, LEAF), AUTHORITY, False, id="self-signed"),
        pytest.param(certificate(LEAF, OTHER), AUTHORITY, False, id="issued by another of the same name"),
        pytest.param(certificate(LEAF, ROOT, hosts=["other.svc"]), AUTHORITY, False, id="for another server"),
        pytest.param(certificate(LEAF, ROOT, age=3 * DAY), AUTHORITY, False, id="expired"),
        pytest.param(certificate(LEAF, ROOT, age=-2 * DAY), AUTHORITY, False, id="not valid yet"),
        pytest.param(
            certificate(LEAF, ROOT),
            certificate(ROOT, ROOT, ca=True, age=3 * DAY),
            False,
            id="authority expired",
        ),
        pytest.param(certificate(LEAF, ROOT), certificate(ROOT, ROOT), False, id="issued by no authority"),
        pytest.param(certificate(ROOT, ROOT, ca=True), AUTHORITY, False, id="the authority itself"),
        pytest.param(
            certificate(LEAF, ROOT, usage=ExtendedKeyUsageOID.CLIENT_AUTH), AUTHORITY, False, id="of a client"
        ),
    ],
)
def test_a_certificate_is_accepted_only_from_its_authority(
    leaf: x509.Certificate, authority: x509.Certificate, accepted: bool
) -> None:
    assert issued_to(der(leaf), "hooks.default.svc", [der(authority)], time.time()) is accepted


def test_what_is_no_certificate_is_rejected() -> None:
    assert not issued_to(None, "hooks.default.svc", [der(AUTHORITY)], time.time())
    assert not issued_to(b"x", "hooks.default.svc", [der(AUTHORITY)], time.time())
    assert not issued_to(der(certificate(LEAF, ROOT)), "hooks.default.svc", [], time.time())


@pytest.mark.parametrize(
    ("signer", "same_name", "accepted"), [(ROOT, True, True), (ROOT, False, False), (OTHER, True, False)]
)
async def test_a_server_is_reached_with_a_certificate_of_the_same_name(
    signer: Key, same_name: bool, accepted: bool
) -> None:
    received = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    private = LEAF.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = server_context(Credential(pem(certificate(LEAF, signer)), private))
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        pool = ConnectionPool(
            f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            tls=client_context(pem(AUTHORITY)),
            server_name="hooks.default.svc",
            same_name=same_name,
        )
        try:
            if accepted:
                assert (await pool.request("GET", "/")).body == b"ok"
            else:
                with pytest.raises(RequestFailed, match="is not trusted: self-signed certificate"):
                    await pool.request("GET", "/")
                assert received == []
        finally:
            await pool.close()
