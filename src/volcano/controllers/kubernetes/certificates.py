"""CertificateSigningRequests: approves those of kubelets, signs approved ones, and removes old ones."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.clock import Instant, parse_timestamp
from volcano.kube.client import Options
from volcano.kube.controller import ObjectReconciler, Plan, Watch
from volcano.kube.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from volcano.kube.manifest import Manifest, key_of, uid_of
from volcano.kube.operations import Delete, Update
from volcano.net.certificate_requests import BadRequestPem, CertificateRequest, parse, sign
from volcano.net.tls import Authority, expires_at

HOUR = 3600.0
PENDING_SECONDS, DECIDED_SECONDS = 24 * HOUR, HOUR
LIFETIME = 365 * 24 * HOUR
LEAST_LIFETIME = 600.0

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
NODE_GROUP, NODE_PREFIX = "system:nodes", "system:node:"
_SIGNATURE, _ENCIPHERMENT = "digital signature", "key encipherment"


@dataclass(frozen=True, slots=True)
class Requestor:
    """The user who created a request."""

    name: str
    groups: tuple[str, ...]
    uid: str
    extra: Mapping[str, tuple[str, ...]]


# Whether a user may create a subresource of requests: `nodeclient` for a node's certificate, `selfnodeclient` for the
# user's own.
MayRequest = Callable[[Requestor, str], bool]


class CertificateController(ObjectReconciler):
    """Does what kube-controller-manager's approver, signers and cleaner do, with the cluster's authority."""

    name = "certificates"
    kind = CSR
    watches: Sequence[Watch] = (Watch(CSR),)

    def __init__(self, authority: Authority, may_request: MayRequest) -> None:
        super().__init__()
        self._authority = authority
        self._may_request = may_request

    def reconcile_object(self, request: Manifest, now: Instant) -> Plan:
        left = _seconds_left(request, now)
        if left <= 0:
            return Plan([Delete(CSR, key_of(request), Options(uid=uid_of(request)), if_present=True)])
        types = _condition_types(request)
        if not types & {"Approved", "Denied"}:
            reason = self._approval(request)
            if reason:
                return Plan([_with_condition(request, "Approved", "AutoApproved", reason, "approval")], left)
        elif "Approved" in types and "Failed" not in types and not _status(request).get("certificate"):
            return self._signed(request, now, left)
        return Plan((), left)

    def _approval(self, request: Manifest) -> str:
        """Why a request is approved automatically: it is for a kubelet's client certificate, and its user may have
        it. Empty when an administrator has to decide."""
        spec = request["spec"]
        if spec.get("signerName") != KUBELET_CLIENT:
            return ""
        wanted = _parsed(spec)
        if isinstance(wanted, str) or kubelet_client_error(wanted, _usages(spec)):
            return ""
        user = _requestor(spec)
        if user.name == wanted.common_name and self._may_request(user, "selfnodeclient"):
            return "Auto approving self kubelet client certificate after SubjectAccessReview."
        if self._may_request(user, "nodeclient"):
            return "Auto approving kubelet client certificate after SubjectAccessReview."
        return ""

    def _signed(self, request: Manifest, now: Instant, left: float) -> Plan:
        spec = request["spec"]
        check = SIGNERS.get(spec.get("signerName") or "")
        if check is None:
            return Plan((), left)  # another signer's
        wanted, usages = _parsed(spec), _usages(spec)
        error = wanted if isinstance(wanted, str) else check(wanted, usages)
        if error:
            return Plan(
                [_with_condition(request, "Failed", "SignerValidationFailure", error, "status")], left
            )
        seconds = min(max(float(spec.get("expirationSeconds") or LIFETIME), LEAST_LIFETIME), LIFETIME)
        pem = base64.b64decode(spec["request"])
        certificate = sign(self._authority, pem, usages, now=now.wall, seconds=seconds)
        status = {**_status(request), "certificate": base64.b64encode(certificate).decode()}
        return Plan([Update(CSR, {**request, "status": status}, "status")], left)


def kubelet_client_error(wanted: CertificateRequest, usages: frozenset[str]) -> str:
    """Why a request is not one for a kubelet's client certificate; empty when it is."""
    if wanted.organizations != (NODE_GROUP,):
        return "subject organization is not system:nodes"
    for names, kind in (
        (wanted.dns_names, "DNS"),
        (wanted.emails, "Email"),
        (wanted.ip_addresses, "IP"),
        (wanted.uris, "URI"),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if not wanted.common_name.startswith(NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _usage_error(usages, "client auth")


def kubelet_serving_error(wanted: CertificateRequest, usages: frozenset[str]) -> str:
    """Why a request is not one for a kubelet's serving certificate; empty when it is."""
    if wanted.organizations != (NODE_GROUP,):
        return "subject organization is not system:nodes"
    if not wanted.dns_names and not wanted.ip_addresses:
        return "DNS or IP subjectAltName is required"
    if wanted.emails:
        return "Email subjectAltNames are not allowed"
    if wanted.uris:
        return "URI subjectAltNames are not allowed"
    if error := _usage_error(usages, "server auth"):
        return error
    if not wanted.common_name.startswith(NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return ""


def client_error(wanted: CertificateRequest, usages: frozenset[str]) -> str:
    """Why a request is not one for a client certificate of the API server; empty when it is."""
    for usage in sorted(usages - {_SIGNATURE, _ENCIPHERMENT, "client auth"}):
        return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


SIGNERS: Mapping[str, Callable[[CertificateRequest, frozenset[str]], str]] = {
    CLIENT: client_error,
    KUBELET_CLIENT: kubelet_client_error,
    KUBELET_SERVING: kubelet_serving_error,
}


def _usage_error(usages: frozenset[str], purpose: str) -> str:
    required = {_SIGNATURE, purpose}
    if usages in (required, required | {_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(required | {_ENCIPHERMENT}))}]"


def _parsed(spec: Mapping[str, Any]) -> CertificateRequest | str:
    """The request, or why it cannot be read."""
    try:
        return parse(base64.b64decode(str(spec.get("request") or ""), validate=True))
    except (BadRequestPem, binascii.Error) as error:
        return str(error)


def _usages(spec: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(spec.get("usages") or ())


def _requestor(spec: Mapping[str, Any]) -> Requestor:
    extra = {name: tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return Requestor(
        spec.get("username") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra
    )


def _status(request: Manifest) -> Mapping[str, Any]:
    return request.get("status") or {}


def _condition_types(request: Manifest) -> set[str]:
    return {condition.get("type", "") for condition in _status(request).get("conditions") or ()}


def _with_condition(request: Manifest, type_: str, reason: str, message: str, subresource: str) -> Update:
    condition = {"type": type_, "status": "True", "reason": reason, "message": message}
    conditions = [*(_status(request).get("conditions") or ()), condition]
    return Update(CSR, {**request, "status": {**_status(request), "conditions": conditions}}, subresource)


def _seconds_left(request: Manifest, now: Instant) -> float:
    """Seconds until a request is removed: an hour after its decision, a day after its creation without one."""
    certificate = _status(request).get("certificate")
    conditions = {known.get("type"): known for known in _status(request).get("conditions") or ()}
    ends: list[float] = []
    for type_ in ("Approved", "Denied", "Failed"):
        since = conditions.get(type_, {}).get("lastUpdateTime")
        if since:
            kept = PENDING_SECONDS if type_ == "Approved" and not certificate else DECIDED_SECONDS
            ends.append(parse_timestamp(since) + kept)
    if not conditions:
        ends.append(parse_timestamp(request["metadata"]["creationTimestamp"]) + PENDING_SECONDS)
    if certificate and "Approved" in conditions:
        ends.append(_certificate_end(certificate))
    return min(ends, default=float("inf")) - now.wall if ends else PENDING_SECONDS


def _certificate_end(certificate: str) -> float:
    try:
        return expires_at(base64.b64decode(certificate))
    except ValueError:
        return float("inf")
