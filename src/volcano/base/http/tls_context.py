"""TLS contexts of servers and clients; without the certificate library, which takes 8 MiB of memory."""

import contextlib
import os
import ssl
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its private key, PEM encoded."""

    cert_pem: bytes
    key_pem: bytes


def server_context(credential: Credential, *, client_authority: bytes | None = None) -> ssl.SSLContext:
    """Returns a server's TLS context; with `client_authority` (PEM), clients may present certificates signed
    by it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_credential(context, credential)
    if client_authority is not None:
        context.load_verify_locations(cadata=client_authority.decode("ascii"))
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(
    authority: bytes | None = None, credential: Credential | None = None, *, insecure: bool = False
) -> ssl.SSLContext:
    """Returns a client's TLS context: the authority to trust (the system's by default) and a client
    certificate, if any."""
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential is not None:
        load_credential(context, credential)
    return context


def is_certificate(pem: bytes) -> bool:
    """Whether a file contains certificates that a client can trust, PEM encoded."""
    try:
        return bool(pem) and bool(client_context(pem).cert_store_stats()["x509"])
    except (ssl.SSLError, ValueError):
        return False


def write_private(path: Path, content: bytes) -> None:
    """Writes a file with permissions for its owner only, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):  # renamed
            os.unlink(temporary)


def open_private(path: Path) -> BinaryIO:
    """Opens a file for appending, unbuffered, with permissions for its owner only, also if it exists already."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):  # not a pipe or a terminal
        os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def load_credential(context: ssl.SSLContext, credential: Credential) -> None:
    """Loads a certificate and key; the ssl module reads them from files only."""
    with tempfile.NamedTemporaryFile(prefix="tls-") as file:  # created readable by its owner only
        file.write(credential.cert_pem + b"\n" + credential.key_pem)
        file.flush()
        context.load_cert_chain(file.name)
