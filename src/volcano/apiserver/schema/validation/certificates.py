"""Validation of CertificateSigningRequests."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from cryptography import x509

from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.base.http.certificate_requests import KEY_USAGES, PURPOSES, BadRequestPem, parse
from volcano.kube.api.formats.names import dns_label, dns_subdomain
from volcano.kube.api.manifest import Manifest

LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
LEAST_SECONDS = 600
USAGES = tuple(sorted({*KEY_USAGES, *PURPOSES}))
DECISIONS = ("Approved", "Denied")
_TRUE_ONLY = ("Approved", "Denied", "Failed")
_CONDITIONS = "status.conditions"
_CERTIFICATE = "status.certificate"
_LONGEST_DOMAIN, _LONGEST_LABEL = 253, 63


def certificate_signing_request(manifest: Manifest) -> Causes:
    """Validates a CertificateSigningRequest: its request must be signed by the key that it contains."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    encoded = spec.get("request") or ""
    try:
        parse(base64.b64decode(encoded, validate=True))
    except (BadRequestPem, binascii.Error) as error:
        yield field.invalid("spec.request", encoded, str(error))
    usages = spec.get("usages") or []
    if not usages:
        yield field.required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            yield field.unsupported(f"spec.usages[{index}]", usage, USAGES)
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield field.duplicate(f"spec.usages[{index}]", usage)
    yield from _signer_name(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < LEAST_SECONDS:
        yield field.invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
        )
    yield from _conditions(status.get("conditions") or [])
    if status.get("certificate") and (why := _certificate_error(status["certificate"])):
        yield field.invalid(_CERTIFICATE, "<certificate data>", why)


def certificate_update(new: Manifest, old: Manifest, subresource: str) -> Causes:
    """Validates who decides what: `approval` sets Approved and Denied, `status` sets the certificate, and neither
    takes anything back."""
    if subresource == "status":  # the other checks are not made for updates of the status
        yield from certificate_signing_request(new)
    for type_ in _TRUE_ONLY:
        after, before = _of_type(new, type_), _of_type(old, type_)
        if len(after) < len(before):
            yield field.forbidden(_CONDITIONS, f'updates may not remove a condition of type "{type_}"')
        elif type_ in DECISIONS and subresource != "approval":
            if len(after) > len(before):
                yield field.forbidden(_CONDITIONS, f'updates may not add a condition of type "{type_}"')
            elif after != before:
                yield field.forbidden(_CONDITIONS, f'updates may not modify a condition of type "{type_}"')
    certificates = [(each.get("status") or {}).get("certificate") or "" for each in (new, old)]
    if certificates[0] != certificates[1]:
        if subresource != "status":
            yield field.forbidden(_CERTIFICATE, "updates may not set certificate content")
        elif certificates[1]:
            yield field.forbidden(_CERTIFICATE, "updates may not modify existing certificate content")


def _of_type(manifest: Manifest, type_: str) -> list[Mapping[str, Any]]:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return [condition for condition in conditions if condition.get("type") == type_]


def _conditions(conditions: list[Manifest]) -> Causes:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path, type_ = f"{_CONDITIONS}[{index}]", condition.get("type") or ""
        if not type_:
            yield field.required(f"{path}.type")
        allowed = ("True",) if type_ in _TRUE_ONLY else ("False", "True", "Unknown")
        yield from field.one_of(f"{path}.status", condition.get("status"), allowed, needed=True)
        other = {"Approved": "Denied", "Denied": "Approved"}.get(type_)
        if other in seen:
            yield field.invalid(_CONDITIONS, type_, "Approved and Denied conditions are mutually exclusive")
        yield from field.unique(f"{path}.type", type_, seen)


def _certificate_error(encoded: str) -> str:
    """Why the bytes of `status.certificate` are not certificates; empty when they are."""
    try:
        pem = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        return str(error)
    for line in pem.splitlines():
        if line.startswith(b"-----BEGIN ") and line.strip() != b"-----BEGIN CERTIFICATE-----":
            kind = line.strip().removeprefix(b"-----BEGIN ").removesuffix(b"-----").decode(errors="replace")
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        return "must contain at least one CERTIFICATE PEM block"
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        return str(error)
    return ""


def _signer_name(name: str) -> Causes:
    path = "spec.signerName"
    if name == LEGACY_SIGNER:
        yield field.invalid(path, name, "the legacy signerName is not allowed via this API version")
        return
    if not name:
        yield field.required(path)
        return
    domain, slash, signer = name.partition("/")
    if not slash or "/" in signer:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield field.invalid(path, name, text)
        return
    if len(domain) > _LONGEST_DOMAIN:
        yield field.too_long(path, _LONGEST_DOMAIN)
    yield from _labels(path, domain, dns_label)
    if "." not in domain:
        yield field.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    yield from _labels(path, signer, dns_subdomain)
    longest = _LONGEST_DOMAIN + (_LONGEST_DOMAIN + _LONGEST_LABEL + 1) + 1
    if len(name) > longest:
        yield field.too_long(path, longest)


def _labels(path: str, value: str, check: Any) -> Causes:
    """Errors of the first invalid label in a name with dots."""
    for label in value.split("."):
        errors = check(label)
        if errors:
            yield from (field.invalid(path, value, f'validating label "{label}": {why}') for why in errors)
            return
