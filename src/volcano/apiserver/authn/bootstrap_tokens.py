"""Bootstrap tokens: Secrets in kube-system by which new nodes authenticate until they have a certificate."""

import base64
import binascii
import hmac
import re
from datetime import datetime

from volcano.apiserver.authn.tokens import BadToken
from volcano.apiserver.interfaces import Lookup, User
from volcano.kube.api.kinds import SECRET
from volcano.kube.api.manifest import Key

NAMESPACE = "kube-system"
SECRET_TYPE = "bootstrap.kubernetes.io/token"
NAME_PREFIX = "bootstrap-token-"
USER_PREFIX = "system:bootstrap:"
GROUP = "system:bootstrappers"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


def is_bootstrap_token(token: str) -> bool:
    """Whether a token has the form of a bootstrap token: `abcdef.0123456789abcdef`."""
    return _TOKEN.fullmatch(token) is not None


def bootstrap_user(token: str, lookup: Lookup, now: float) -> User:
    """The user of a bootstrap token. Raises BadToken when there is no such token, it has expired, or it is not for
    authentication."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise BadToken("the token is not a bootstrap token")
    token_id, secret = match.groups()
    found = lookup.find(SECRET, Key(NAMESPACE, NAME_PREFIX + token_id))
    if found is None or found.get("type") != SECRET_TYPE or found["metadata"].get("deletionTimestamp"):
        raise BadToken("there is no such bootstrap token")
    data = {name: _decoded(value) for name, value in (found.get("data") or {}).items()}
    if not hmac.compare_digest(data.get("token-secret", "").encode(), secret.encode()):
        raise BadToken("the secret of the bootstrap token is wrong")
    if data.get("token-id") != token_id:
        raise BadToken("the bootstrap token has another id")
    if _has_expired(data.get("expiration", ""), now):
        raise BadToken("the bootstrap token has expired")
    if data.get("usage-bootstrap-authentication") != "true":
        raise BadToken("the bootstrap token is not for authentication")
    return User(USER_PREFIX + token_id, (GROUP, *_extra_groups(data.get("auth-extra-groups", ""))))


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _has_expired(text: str, now: float) -> bool:
    """Whether the expiration has passed; a malformed one counts as passed."""
    if not text:
        return False
    try:
        return datetime.fromisoformat(text).timestamp() <= now
    except ValueError:
        return True


def _extra_groups(text: str) -> list[str]:
    groups = [group for group in text.split(",") if group]
    for group in groups:
        if _GROUP.fullmatch(group) is None:
            raise BadToken(f"the bootstrap token has the group {group!r}; groups begin with {GROUP}:")
    return sorted(set(groups))
