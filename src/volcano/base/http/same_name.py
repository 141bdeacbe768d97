"""Verification of certificates that bear the name of the authority that issued them.

Some operators give the authority and the certificate of their webhook the same subject. OpenSSL takes such a
certificate for self-signed, by its names and without looking at its signature, and rejects it; Go, and so
kube-apiserver, looks at the signature. Here the one authority that can have issued it directly is checked, after a
handshake without verification: a handshake that is broken off is an error in the log of the server.
"""

import ipaddress
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509

SELF_SIGNED = 18  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
VERSION = 0xA0  # tag of the optional first field of a certificate


def unverified_context() -> ssl.SSLContext:
    """A context that accepts any certificate; the caller verifies it with `issued_to`."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def has_same_names(certificate: bytes | None) -> bool:
    """Whether subject and issuer of a DER encoded certificate are the same, without the certificate library."""
    data = certificate or b""
    fields = []
    try:
        begin = _element(data, _element(data, 0)[0])[0]  # of the fields of TBSCertificate in Certificate
        for _ in range(6):
            _, end = _element(data, begin)
            fields.append(data[begin:end])
            begin = end
    except IndexError:
        return False
    _serial, _algorithm, issuer, _validity, subject = fields[1:] if fields[0][0] == VERSION else fields[:5]
    return issuer == subject


def _element(data: bytes, begin: int) -> tuple[int, int]:
    """Begin and end of the content of a DER element. Raises IndexError where it ends beyond the data."""
    content, length = begin + 2, data[begin + 1]
    if length & 0x80:  # the length has a length
        content += length & 0x7F
        length = int.from_bytes(data[begin + 2 : content])
    if content + length > len(data):
        raise IndexError(f"element at byte {begin} ends beyond the data")
    return content, content + length


def issued_to(certificate: bytes | None, name: str, authorities: Iterable[bytes], now: float) -> bool:
    """Whether an authority has issued a certificate to the server of this name. Certificates are DER encoded."""
    from cryptography import x509  # late: it takes 8 MiB of memory

    try:
        leaf = x509.load_der_x509_certificate(certificate or b"")
        issuers = [x509.load_der_x509_certificate(authority) for authority in authorities]
        moment = datetime.fromtimestamp(now, UTC)
        valid = [each for each in issuers if _is_valid(each, moment) and _is_authority(each)]
        return (
            _is_valid(leaf, moment)
            and not _is_authority(leaf)
            and _serves(leaf)
            and _has_name(leaf, name)
            and any(_has_issued(issuer, leaf) for issuer in valid)
        )
    except (ValueError, x509.DuplicateExtension, x509.InvalidVersion):
        return False


def _has_issued(issuer: "x509.Certificate", leaf: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        leaf.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_valid(certificate: "x509.Certificate", moment: datetime) -> bool:
    return certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc


def _is_authority(certificate: "x509.Certificate") -> bool:
    from cryptography import x509

    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return constraints.ca
    return constraints.ca and usage.key_cert_sign


def _serves(certificate: "x509.Certificate") -> bool:
    """Whether a certificate may be used by servers: it says so, or restricts its use to nothing."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return bool({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usage))


def _has_name(certificate: "x509.Certificate", name: str) -> bool:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ipaddress.ip_address(name) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        wanted = name.lower()
        suffix = f"*.{wanted.partition('.')[2]}"  # a wildcard stands for the first label
        return any(given.lower() in (wanted, suffix) for given in names.get_values_for_type(x509.DNSName))
