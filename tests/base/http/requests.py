"""Certificate signing requests to test with."""

import base64
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate_request(
    common_name: str,
    organizations: Sequence[str] = (),
    *,
    dns: Sequence[str] = (),
    addresses: Sequence[str] = (),
    emails: Sequence[str] = (),
    uris: Sequence[str] = (),
) -> str:
    """A request signed by `KEY`, as the field `spec.request` of a CertificateSigningRequest."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    alternatives: list[x509.GeneralName] = [
        *map(x509.DNSName, dns),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        *map(x509.RFC822Name, emails),
        *map(x509.UniformResourceIdentifier, uris),
    ]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    pem = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()
