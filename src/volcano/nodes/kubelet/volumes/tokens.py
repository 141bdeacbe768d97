"""Service account tokens of pods: requested, cached, and renewed after four fifths of their lifetime."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from volcano.base.clock import Clock, parse_timestamp
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import SERVICE_ACCOUNT
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.protocol import Client
from volcano.nodes.kubelet.volumes.payload import MountError

# Sends a TokenRequest for the service account with a key.
TokenRequester = Callable[[Key, Manifest], Awaitable[Manifest]]

DEFAULT_EXPIRATION_SECONDS = 3600
REMAINING_AT_RENEWAL = 0.2
MAX_TOKEN_AGE = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _Token:
    text: bytes
    renew: float  # wall time


class TokenManager:
    """One token for each pod, audience and expiration."""

    def __init__(self, send: TokenRequester, clock: Clock) -> None:
        self._request = send
        self._clock = clock
        self._tokens: dict[tuple[str, str, int], _Token] = {}

    async def get(self, pod: Manifest, source: Manifest) -> bytes:
        """The token of a `serviceAccountToken` projection. If its renewal fails, it is used until it expires."""
        audience, seconds = (
            source.get("audience") or "",
            source.get("expirationSeconds") or DEFAULT_EXPIRATION_SECONDS,
        )
        which = (uid_of(pod), audience, seconds)
        token, now = self._tokens.get(which), self._clock.now().wall
        if token is not None and now < token.renew:
            return token.text
        account = Key(key_of(pod).namespace, pod["spec"].get("serviceAccountName") or "default")
        try:
            response = await self._request(account, _request(pod, account, audience, seconds))
        except ApiError as error:
            if token is not None:
                return token.text
            raise MountError(f"failed to fetch token: {error.message}") from None
        expires = parse_timestamp(response["status"]["expirationTimestamp"])
        renew = min(expires - REMAINING_AT_RENEWAL * (expires - now), now + MAX_TOKEN_AGE)
        self._tokens[which] = _Token(str(response["status"]["token"]).encode(), renew)
        return self._tokens[which].text

    def forget(self, uid: str) -> None:
        for which in [which for which in self._tokens if which[0] == uid]:
            del self._tokens[which]


def client_token_requester(client: Client) -> TokenRequester:
    """Requests tokens from the API server."""

    async def send(account: Key, request: Manifest) -> Manifest:
        return await client.create(SERVICE_ACCOUNT, request, subresource="token")

    return send


def _request(pod: Manifest, account: Key, audience: str, seconds: int) -> Manifest:
    """A TokenRequest for a token that is bound to the pod."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": account.name, "namespace": account.namespace},
        "spec": {
            "audiences": [audience] if audience else [],
            "expirationSeconds": seconds,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": key_of(pod).name,
                "uid": uid_of(pod),
            },
        },
    }
