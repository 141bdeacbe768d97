"""Admission of CertificateSigningRequests: their user, the rights to approve and sign, and reserved groups."""

import base64
import binascii

from volcano.apiserver.authn.identity import user_info
from volcano.apiserver.authz.actions import Action
from volcano.apiserver.authz.rbac import MASTERS, Authorizer
from volcano.apiserver.errors import forbidden
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.base.http.certificate_requests import BadRequestPem, parse
from volcano.kube.api.kinds import CERTIFICATE_SIGNING_REQUEST, Kind
from volcano.kube.api.manifest import Manifest

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_USER_FIELDS = ("username", "uid", "groups", "extra")


class CertificateRequests:
    """Admission plugin: records the user of a new request and checks the rights of those who decide on it."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, kind: Kind) -> bool:
        return kind == CERTIFICATE_SIGNING_REQUEST

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if new is None:
            return new
        if old is None:
            _set_user(request, new)
            _check_subject(request, new)
        elif request.subresource == "approval":
            self._check_right(request, "approve", old)
        elif request.subresource == "status" and _signs(new, old):
            self._check_right(request, "sign", old)
        return new

    def _check_right(self, request: Attributes, verb: str, stored: Manifest) -> None:
        """The right for the signer of the stored request, or for every signer of its domain."""
        signer = str((stored.get("spec") or {}).get("signerName") or "")
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            action = Action(verb, CERTIFICATE_SIGNING_REQUEST.group, "signers", name=name)
            if self._authorizer.allowed(request.user, action):
                return
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise forbidden(request.kind, request.key.name, why)


def _set_user(request: Attributes, new: Manifest) -> None:
    """Records the user of the request, whatever the client sent."""
    spec = new.setdefault("spec", {})
    for name in _USER_FIELDS:
        spec.pop(name, None)
    spec.update(user_info(request.user))


def _check_subject(request: Attributes, new: Manifest) -> None:
    """A client certificate cannot make its owner a cluster admin by group."""
    spec = new["spec"]
    if spec.get("signerName") != CLIENT_SIGNER:
        return
    try:
        wanted = parse(base64.b64decode(str(spec.get("request") or ""), validate=True))
    except (BadRequestPem, binascii.Error):
        return  # validation reports it
    if MASTERS in wanted.organizations:
        why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        raise forbidden(request.kind, request.key.name, why)


def _signs(new: Manifest, old: Manifest) -> bool:
    """Whether an update of the status sets the certificate or a condition of the signer."""
    after, before = new.get("status") or {}, old.get("status") or {}
    return bool(
        after.get("certificate") != before.get("certificate")
        or after.get("conditions") != before.get("conditions")
    )
