"""PKCS#10 certificate signing requests: parsing, and issuing the certificate that one asks for."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from volcano.base.http.tls import Authority

BLOCK = b"-----BEGIN CERTIFICATE REQUEST-----"
# Clocks of kubelets may be slow.
BACKDATE = timedelta(minutes=5)
# The end of a certificate that is valid for a shorter time than this is not moved with its beginning.
SHORT = timedelta(hours=8)
# Usages in a CertificateSigningRequest: bits of the key usage extension, and purposes of the extended one.
KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
PURPOSES = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class BadRequestPem(ValueError):
    """A certificate signing request that cannot be read, or is not signed by its own key."""


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """The subject and the alternative names that a request asks for."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]


def parse(pem: bytes) -> CertificateRequest:
    """Reads a request and verifies its signature. Raises BadRequestPem."""
    request = _load(pem)
    names = {name.oid: str(name.value) for name in request.subject}
    alternatives = _alternatives(request) or ()
    return CertificateRequest(
        common_name=names.get(NameOID.COMMON_NAME, ""),
        organizations=tuple(
            str(name.value) for name in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        ),
        dns_names=tuple(name.value for name in alternatives if isinstance(name, x509.DNSName)),
        ip_addresses=tuple(str(name.value) for name in alternatives if isinstance(name, x509.IPAddress)),
        emails=tuple(name.value for name in alternatives if isinstance(name, x509.RFC822Name)),
        uris=tuple(name.value for name in alternatives if isinstance(name, x509.UniformResourceIdentifier)),
    )


def sign(authority: Authority, pem: bytes, usages: Iterable[str], *, now: float, seconds: float) -> bytes:
    """The certificate (PEM) for a request: its subject, key and alternative names, limited to these usages. It ends
    with the authority's at the latest."""
    request = _load(pem)
    issuer = x509.load_pem_x509_certificate(authority.cert_pem)
    signer = serialization.load_pem_private_key(authority.key_pem, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    begin, lifetime = datetime.fromtimestamp(now, UTC), timedelta(seconds=seconds)
    end = begin + lifetime - (timedelta() if lifetime < SHORT else BACKDATE)
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - BACKDATE)
        .not_valid_after(min(end, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    wanted = set(usages)
    bits = {KEY_USAGES[usage] for usage in wanted if usage in KEY_USAGES}
    if bits:
        flags = {bit: bit in bits for bit in set(KEY_USAGES.values())}
        builder = builder.add_extension(x509.KeyUsage(**flags), critical=True)
    purposes = list(dict.fromkeys(PURPOSES[usage] for usage in sorted(wanted) if usage in PURPOSES))
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    alternatives = _alternatives(request)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _load(pem: bytes) -> x509.CertificateSigningRequest:
    if not pem.lstrip().startswith(BLOCK):
        raise BadRequestPem("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(pem)
        valid = request.is_signature_valid
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise BadRequestPem(f"the certificate request cannot be read: {error}") from None
    if not valid:
        raise BadRequestPem("the certificate request is not signed by its own key")
    return request


def _alternatives(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    except (ValueError, x509.DuplicateExtension) as error:
        raise BadRequestPem(f"the extensions of the certificate request cannot be read: {error}") from None
