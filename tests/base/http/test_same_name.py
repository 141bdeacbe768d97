"""Certificates that bear the name of their authority, as some operators issue them for their webhooks."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.same_name import has_same_names, issued_to
from volcano.base.http.tls_context import Credential, client_context, server_context

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.default.svc")])
OTHER_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other.default.svc")])
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
    subject: x509.Name | None = None,
) -> x509.Certificate:
    """A certificate without key identifiers; unless told otherwise, its subject and issuer are the same."""
    begin = datetime.now(UTC) - DAY - age
    builder = (
        x509.CertificateBuilder()
        .subject_name(NAME if subject is None else subject)
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
PRIVATE = LEAF.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


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

    context = server_context(Credential(pem(certificate(LEAF, signer)), PRIVATE))
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


@pytest.mark.parametrize("subject", [NAME, OTHER_NAME], ids=["same names", "other names"])
async def test_no_handshake_fails_at_a_server_whose_certificate_is_trusted(subject: x509.Name) -> None:
    """Servers in Go write a line for each handshake that fails, and none for a connection without a request."""
    failed: list[object] = []
    established = 0

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            nonlocal established
            established += 1  # the handshake is complete
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            assert isinstance(self.transport, asyncio.Transport)
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    context = server_context(Credential(pem(certificate(LEAF, ROOT, subject=subject)), PRIVATE))
    server = await asyncio.get_running_loop().create_server(
        accepting := Accepting(Server), "127.0.0.1", 0, ssl=context
    )
    async with server:
        pool = ConnectionPool(
            f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            tls=client_context(pem(AUTHORITY)),
            server_name="hooks.default.svc",
            same_name=True,
        )
        for _ in range(3):
            assert (await pool.request("GET", "/")).body == b"ok"
        await pool.close()
    assert established == accepting.count
    assert failed == []
    # A connection for each request, and one that shows the names in the certificate.
    assert established == (3 if subject == NAME else 4)


class Accepting:
    """Counts the connections that a server accepts, also those whose handshake fails."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._protocol, self.count = protocol, 0

    def __call__(self) -> asyncio.Protocol:
        self.count += 1
        return self._protocol()


@pytest.mark.parametrize(
    ("each", "same"),
    [
        pytest.param(certificate(LEAF, ROOT), True, id="of the same name"),
        pytest.param(certificate(LEAF, ROOT, subject=x509.Name([])), False, id="without a subject"),
        pytest.param(certificate(LEAF, ROOT, subject=OTHER_NAME), False, id="of another name"),
    ],
)
def test_the_names_of_a_certificate_are_compared(each: x509.Certificate, same: bool) -> None:
    assert has_same_names(der(each)) is same is (each.subject == each.issuer)


@given(
    st.binary(max_size=60) | st.integers(0, len(der(AUTHORITY)) // 3).map(lambda end: der(AUTHORITY)[:end])
)
def test_data_that_is_no_certificate_has_no_names(data: bytes) -> None:
    assert not has_same_names(data)
    assert not has_same_names(None)


GO_SERVER = """
package main

import ("crypto/tls"; "fmt"; "net"; "net/http")

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil { panic(err) }
	fmt.Println(listener.Addr().String())
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "ok")
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	panic(server.ServeTLS(listener, "cert.pem", "key.pem"))
}
"""


@pytest.fixture(scope="module")
def go_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A web server in Go, built into a directory of its own."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    directory = tmp_path_factory.mktemp("go")
    (directory / "main.go").write_text(GO_SERVER)
    build = ["go", "build", "-o", "server", "main.go"]
    subprocess.run(build, cwd=directory, check=True, env={**os.environ, "GO111MODULE": "off"}, timeout=600)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("subject", [NAME, OTHER_NAME], ids=["same names", "other names"])
@pytest.mark.parametrize("signer", [ROOT, OTHER], ids=["trusted", "not trusted"])
async def test_a_server_in_go_logs_no_handshake_error_of_a_trusted_certificate(
    go_server: Path, subject: x509.Name, signer: Key
) -> None:
    (go_server / "cert.pem").write_bytes(pem(certificate(LEAF, signer, subject=subject)))
    (go_server / "key.pem").write_bytes(PRIVATE)
    process = await asyncio.create_subprocess_exec(
        go_server / "server", cwd=go_server, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().strip()
        pool = ConnectionPool(
            f"https://{address}",
            tls=client_context(pem(AUTHORITY)),
            server_name="hooks.default.svc",
            same_name=True,
        )
        for _ in range(3):
            if signer is ROOT:
                assert (await pool.request("GET", "/")).body == b"ok"
            else:
                with pytest.raises(RequestFailed, match="is not trusted"):
                    await pool.request("GET", "/")
        await pool.close()
        await asyncio.sleep(0.2)  # for the server to read what was sent
    finally:
        process.kill()
        _, errors = await process.communicate()
    assert (b"TLS handshake error" in errors) is (signer is OTHER), errors.decode()
