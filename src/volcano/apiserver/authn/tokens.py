"""ServiceAccount tokens: signed JWTs, issued on request and checked against the store."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from volcano.apiserver.interfaces import Lookup, User
from volcano.kube.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from volcano.kube.api.manifest import Key, Manifest, uid_of

ISSUER = "https://kubernetes.default.svc.cluster.local"
LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_CLAIM = "kubernetes.io/serviceaccount/"
EXTRA = "authentication.kubernetes.io/"
BOUND_KINDS: dict[str, Kind] = {"Pod": POD, "Secret": SECRET, "Node": NODE}


class BadToken(Exception):
    """A token that has a foreign signature, has expired, or belongs to a deleted object."""


@dataclass(frozen=True, slots=True)
class Identified:
    """The user of a token and its audiences."""

    user: User
    audiences: tuple[str, ...]


class SigningKey:
    """A P-256 key that signs and verifies JWTs (ES256)."""

    def __init__(self, pem: bytes) -> None:
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
            raise ValueError("the token signing key must be an elliptic curve key on P-256")
        self._private = key
        self._public = key.public_key()
        point = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.id = _encode(hashlib.sha256(point).digest())
        self.claims = lru_cache(maxsize=4096)(self._checked_claims)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The JWT with `claims`."""
        header = _encode(orjson.dumps({"alg": "ES256", "kid": self.id}))
        message = f"{header}.{_encode(orjson.dumps(claims))}"
        der = self._private.sign(message.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = decode_dss_signature(der)
        return f"{message}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def _checked_claims(self, token: str) -> Mapping[str, Any]:
        """The claims of a token signed by this key; raises `BadToken`."""
        message, _, signature = token.rpartition(".")
        raw = _decode(signature)
        header, claims = (_decode_object(part) for part in _halves(message))
        if header.get("alg") != "ES256" or len(raw) != 64:
            raise BadToken("the token is not signed with ES256")
        der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            self._public.verify(der, message.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise BadToken("the token's signature is wrong") from None
        return claims

    def jwks(self) -> Manifest:
        """The public key as a JSON Web Key Set."""
        numbers = self._public.public_numbers()
        coordinates = {
            name: _encode(value.to_bytes(32, "big")) for name, value in (("x", numbers.x), ("y", numbers.y))
        }
        return {
            "keys": [
                {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id, **coordinates}
            ]
        }


def new_signing_key() -> bytes:
    """A new key as PEM, to be stored with the data."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class Tokens:
    """Issues and verifies ServiceAccount tokens."""

    key: SigningKey
    new_id: Callable[[], str]
    issuer: str = ISSUER
    audiences: tuple[str, ...] = field(default=(ISSUER,))

    def issue(
        self,
        account: Manifest,
        *,
        now: float,
        seconds: int,
        audiences: Sequence[str] = (),
        bound: Mapping[str, Mapping[str, str]] | None = None,
    ) -> str:
        """A token for a ServiceAccount. `bound` is, for example, {"pod": {"name": ..., "uid": ...}}."""
        metadata = account["metadata"]
        issued = int(now)
        return self.key.sign(
            {
                "aud": list(audiences or self.audiences),
                "exp": issued + seconds,
                "iat": issued,
                "iss": self.issuer,
                "jti": self.new_id(),
                "kubernetes.io": {
                    "namespace": metadata["namespace"],
                    "serviceaccount": {"name": metadata["name"], "uid": uid_of(account)},
                    **(bound or {}),
                },
                "nbf": issued,
                "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
            }
        )

    def issue_legacy(self, account: Manifest, secret: str) -> str:
        """The token without expiry of a Secret of type service-account-token."""
        metadata = account["metadata"]
        return self.key.sign(
            {
                "iss": LEGACY_ISSUER,
                f"{LEGACY_CLAIM}namespace": metadata["namespace"],
                f"{LEGACY_CLAIM}secret.name": secret,
                f"{LEGACY_CLAIM}service-account.name": metadata["name"],
                f"{LEGACY_CLAIM}service-account.uid": uid_of(account),
                "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
            }
        )

    def identify(self, token: str, now: float, lookup: Lookup, audiences: Sequence[str] = ()) -> Identified:
        """The user of a token; raises `BadToken` unless it is valid for one of `audiences`, by default this
        server's."""
        claims = self.key.claims(token)
        if claims.get("iss") == LEGACY_ISSUER:
            return _legacy(claims, lookup, audiences or self.audiences)
        if claims.get("iss") != self.issuer:
            raise BadToken("the token was issued by another issuer")
        if not claims["nbf"] - 60 <= now < claims["exp"]:
            raise BadToken("the token has expired or is not valid yet")
        meant_for = tuple(name for name in audiences or self.audiences if name in claims["aud"])
        if not meant_for:
            raise BadToken(f"the token is meant for {claims['aud']}")
        return Identified(_user(claims, lookup), meant_for)


def _user(claims: Mapping[str, Any], lookup: Lookup) -> User:
    private = claims["kubernetes.io"]
    namespace, account = private["namespace"], private["serviceaccount"]
    _must_exist(lookup, SERVICE_ACCOUNT, Key(namespace, account["name"]), account["uid"])
    extra: dict[str, tuple[str, ...]] = {f"{EXTRA}credential-id": (f"JTI={claims['jti']}",)}
    for kind in BOUND_KINDS.values():
        field_name = kind.kind.lower()
        if reference := private.get(field_name):
            where = Key(namespace if kind.namespaced else "", reference["name"])
            if field_name in _bound_to(private):
                _must_exist(lookup, kind, where, reference["uid"])
            if kind is not SECRET:
                extra[f"{EXTRA}{field_name}-name"] = (reference["name"],)
                extra[f"{EXTRA}{field_name}-uid"] = (reference["uid"],)
    return service_account_user(namespace, account["name"], account["uid"], extra)


def _bound_to(private: Mapping[str, Any]) -> tuple[str, ...]:
    """The objects whose deletion invalidates the token. A pod's token also names its node, which may be
    deleted before the pod."""
    return ("pod",) if "pod" in private else ("secret", "node")


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    """The user a ServiceAccount acts as."""
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
        uid,
        extra or {},
    )


def _legacy(claims: Mapping[str, Any], lookup: Lookup, audiences: Sequence[str]) -> Identified:
    namespace, name, uid, secret = (
        str(claims.get(f"{LEGACY_CLAIM}{part}", ""))
        for part in ("namespace", "service-account.name", "service-account.uid", "secret.name")
    )
    _must_exist(lookup, SERVICE_ACCOUNT, Key(namespace, name), uid)
    _must_exist(lookup, SECRET, Key(namespace, secret))
    return Identified(service_account_user(namespace, name, uid), tuple(audiences))


def _must_exist(lookup: Lookup, kind: Kind, key: Key, uid: str = "") -> None:
    found = lookup.find(kind, key)
    if found is None or (uid and uid_of(found) != uid):
        raise BadToken(f"the token belongs to {kind.singular} {key}, which does not exist")


def _halves(message: str) -> tuple[str, str]:
    header, separator, claims = message.partition(".")
    if not separator or "." in claims:
        raise BadToken("the token is not a JWT")
    return header, claims


def _decode_object(part: str) -> dict[str, Any]:
    try:
        value = orjson.loads(_decode(part))
    except orjson.JSONDecodeError:
        raise BadToken("the token is not a JWT") from None
    if not isinstance(value, dict):
        raise BadToken("the token is not a JWT")
    return value


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise BadToken("the token is not a JWT") from None
