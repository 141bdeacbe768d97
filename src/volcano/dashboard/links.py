"""One-time links: signed by a key that only the owner of the cluster can read, valid for minutes and for one use.

The token is in the fragment of the link, which browsers neither send nor log; the login page sends it in a POST request
and removes it from the address, so that it is in no history either.
"""

import hashlib
import hmac
import secrets

VALID_SECONDS = 600
KEY_BYTES = 32


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def new_token(key: bytes, now: float) -> str:
    """A token that is valid once, for ten minutes from `now` (wall time)."""
    content = f"{int(now) + VALID_SECONDS}.{secrets.token_urlsafe(18)}"
    return f"{content}.{_signature(key, content)}"


def link(url: str, token: str) -> str:
    """Address that a browser opens to log in."""
    return f"{url.rstrip('/')}/login#{token}"


class LinkTokens:
    """Accepts each token once."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._used: dict[str, int] = {}  # expiry of used tokens

    def redeem(self, token: str, now: float) -> bool:
        """Whether the token is genuine, not expired and not used before; it is used from now on."""
        content, _, signature = token.rpartition(".")
        expiry, _, nonce = content.partition(".")
        if not self._key or not hmac.compare_digest(
            signature.encode(), _signature(self._key, content).encode()
        ):
            return False
        self._used = {each: until for each, until in self._used.items() if until >= now}
        if not nonce or int(expiry) < now or token in self._used:
            return False
        self._used[token] = int(expiry)
        return True


def _signature(key: bytes, content: str) -> str:
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()
