"""TokenRequest, TokenReview and token Secrets for ServiceAccount tokens."""

import base64
from typing import Any

from volcano.apiserver.authn.identity import user_info
from volcano.apiserver.authn.tokens import BOUND_KINDS, BadToken, Identified, Tokens
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.base.clock import timestamp
from volcano.kube.api.errors import BadRequest, Cause, Conflict, Invalid, NotFound
from volcano.kube.api.kinds import NODE, SECRET, SERVICE_ACCOUNT, Kind
from volcano.kube.api.manifest import Key, Manifest, annotations_of, uid_of

LEAST_SECONDS, MOST_SECONDS, USUAL_SECONDS = 600, 1 << 32, 3600
SECRET_TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


def request_token(tokens: Tokens, lookup: Lookup, key: Key, request: Manifest, now: float) -> Manifest:
    """Answers a TokenRequest for the ServiceAccount at `key`."""
    account = lookup.find(SERVICE_ACCOUNT, key)
    if account is None:
        raise NotFound(f'serviceaccounts "{key.name}" not found', name=key.name, kind="serviceaccounts")
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    seconds = USUAL_SECONDS if seconds is None else seconds
    _check_seconds(seconds)
    audiences = spec.get("audiences") or list(tokens.audiences)
    bound = _bound(lookup, key.namespace, spec.get("boundObjectRef") or {})
    token = tokens.issue(account, now=now, seconds=seconds, audiences=audiences, bound=bound)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": key.name, "namespace": key.namespace, "creationTimestamp": timestamp(now)},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token, "expirationTimestamp": timestamp(int(now) + seconds)},
    }


def _check_seconds(seconds: Any) -> None:
    wrong = ""
    if not isinstance(seconds, int):
        raise BadRequest("spec.expirationSeconds must be a whole number")
    if seconds < LEAST_SECONDS:
        wrong = "may not specify a duration less than 10 minutes"
    elif seconds > MOST_SECONDS:
        wrong = "may not specify a duration larger than 2^32 seconds"
    if wrong:
        message = f"Invalid value: {seconds}: {wrong}"
        raise Invalid(
            f'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: {message}',
            causes=[Cause("FieldValueInvalid", message, "spec.expirationSeconds")],
            group="authentication.k8s.io",
            kind="TokenRequest",
        )


def _bound(lookup: Lookup, namespace: str, reference: Manifest) -> dict[str, dict[str, str]]:
    if not reference:
        return {}
    kind = BOUND_KINDS.get(reference.get("kind", ""))
    if kind is None:
        raise BadRequest(f"cannot bind token for serviceaccount to a {reference.get('kind')!r} object")
    name = str(reference.get("name", ""))
    found = lookup.find(kind, Key(namespace if kind.namespaced else "", name))
    if found is None:
        raise NotFound(f'{kind.resource} "{name}" not found', name=name, group=kind.group, kind=kind.plural)
    uid = uid_of(found)
    if reference.get("uid") and reference["uid"] != uid:
        raise Conflict(
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    bound = {kind.kind.lower(): {"name": name, "uid": uid}}
    node = (found.get("spec") or {}).get("nodeName") if kind.kind == "Pod" else ""
    if node and (machine := lookup.find(NODE, Key("", node))) is not None:
        bound["node"] = {"name": node, "uid": uid_of(machine)}
    return bound


def review_token(identified: Identified | None, error: str, request: Manifest) -> Manifest:
    """The answer to a TokenReview, from the result of authentication."""
    status: Manifest = {"user": {}}
    if identified is None:
        status["error"] = error
    else:
        status = {
            "authenticated": True,
            "user": user_info(identified.user),
            "audiences": list(identified.audiences),
        }
    return {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "spec": request.get("spec") or {},
        "status": status,
    }


class TokenSecrets:
    """Admission plugin that fills Secrets of type service-account-token with a token, the CA and the
    namespace."""

    def __init__(self, tokens: Tokens, authority: bytes = b"") -> None:
        self._tokens = tokens
        self._authority = authority

    def handles(self, kind: Kind) -> bool:
        return kind == SECRET

    async def __call__(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.kind != SECRET or new is None or new.get("type") != SECRET_TYPE:
            return new
        name = annotations_of(new).get(ACCOUNT_NAME, "")
        namespace = request.key.namespace
        account = lookup.find(SERVICE_ACCOUNT, Key(namespace, name))
        secret = new["metadata"].get("name", "")
        if account is None or not secret:
            return new
        data = new.setdefault("data", {})
        if not self._is_current(data.get("token"), lookup):
            data["token"] = _base64(self._tokens.issue_legacy(account, secret).encode())
        data.setdefault("namespace", _base64(namespace.encode()))
        if self._authority:
            data.setdefault("ca.crt", _base64(self._authority))
        new["metadata"]["annotations"][ACCOUNT_UID] = uid_of(account)
        return new

    def _is_current(self, token: Any, lookup: Lookup) -> bool:
        try:
            self._tokens.key.claims(base64.b64decode(str(token or "")).decode())
        except (BadToken, ValueError):
            return False
        return True


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
