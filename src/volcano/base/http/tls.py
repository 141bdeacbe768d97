"""Certificates: a certificate authority and the certificates it issues; with the TLS contexts of `tls_context`."""

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from volcano.base.http.tls_context import Credential as Credential
from volcano.base.http.tls_context import client_context as client_context
from volcano.base.http.tls_context import load_credential as load_credential
from volcano.base.http.tls_context import server_context as server_context
from volcano.base.http.tls_context import write_private as write_private

# Clocks differ between machines and may be set: certificates are valid from well before they are issued.
BACKDATE = timedelta(days=1)
AUTHORITY_DAYS = 3650
DAYS = 365


class Authority(Credential):
    """A credential that may sign others."""


def create_authority(name: str, *, now: float, days: float = AUTHORITY_DAYS) -> Authority:
    """Creates a self-signed authority. `now` is wall time in seconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _certificate(subject, subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(authority=True), critical=True)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
    )
    certificate = builder.sign(key, hashes.SHA256())
    return Authority(certificate.public_bytes(serialization.Encoding.PEM), _key_bytes(key))


def issue(
    authority: Authority,
    common_name: str,
    *,
    now: float,
    organizations: Sequence[str] = (),
    hosts: Iterable[str] = (),
    days: float = DAYS,
    client: bool = False,
    server: bool = False,
) -> Credential:
    """Issues a certificate signed by `authority`, for the names and addresses in `hosts`."""
    if not client and not server:
        raise ValueError(f"certificate {common_name!r} must be for a client, a server or both")
    issuer = x509.load_pem_x509_certificate(authority.cert_pem)
    signer = serialization.load_pem_private_key(authority.key_pem, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = _certificate(subject, issuer.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(authority=False), critical=True)
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] * client + [ExtendedKeyUsageOID.SERVER_AUTH] * server
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    if alternatives := [_general_name(host) for host in hosts]:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return Credential(certificate.public_bytes(serialization.Encoding.PEM), _key_bytes(key))


def expires_at(cert_pem: bytes) -> float:
    """The wall time at which a certificate expires."""
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc.timestamp()


def needs_renewal(cert_pem: bytes, now: float) -> bool:
    """Whether less than a third of a certificate's validity is left, or it is not yet valid."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    begin = certificate.not_valid_before_utc.timestamp()
    end = certificate.not_valid_after_utc.timestamp()
    return now < begin or end - now < (end - begin) / 3


def covers(cert_pem: bytes, hosts: Iterable[str]) -> bool:
    """Whether a certificate is valid for all of these names and addresses."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return not list(hosts)
    return {_general_name(host) for host in hosts} <= set(extension.value)


def issued_by(cert_pem: bytes, authority: Credential) -> bool:
    """Whether `authority` signed this certificate."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.cert_pem))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def is_pair(credential: Credential) -> bool:
    """Whether a certificate and a private key can be read and belong together."""
    try:
        certificate = x509.load_pem_x509_certificate(credential.cert_pem)
        key = serialization.load_pem_private_key(credential.key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return certificate.public_key() == key.public_key()


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: float
) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(now, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - BACKDATE)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        key_encipherment=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
