"""Service account tokens of pods: asked for, kept, and asked for again when four fifths of their life are over."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from volcano.clock import Clock, parse_timestamp
from volcano.kube.client import Client
from volcano.kube.errors import ApiError
from volcano.kube.kinds import SERVICE_ACCOUNT
from volcano.kube.manifest import Key, Manifest, key_of, uid_of
from volcano.nodes.kubelet.volumes.payload import CannotMount

# Answers a TokenRequest for the account at a key.
AskToken = Callable[[Key, Manifest], Awaitable[Manifest]]

USUAL_SECONDS = 3600
LEFT_AT_RENEWAL = 0.2
LONGEST_USE = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _Token:
    text: bytes
    renew: float  # wall time


class Tokens:
    """One token for each pod, audience and length of life."""

    def __init__(self, ask: AskToken, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._kept: dict[tuple[str, str, int], _Token] = {}

    async def token(self, pod: Manifest, source: Manifest) -> bytes:
        """The token for a `serviceAccountToken` projection. One that could not be renewed is used while it lasts."""
        audience, seconds = source.get("audience") or "", source.get("expirationSeconds") or USUAL_SECONDS
        which = (uid_of(pod), audience, seconds)
        kept, now = self._kept.get(which), self._clock.now().wall
        if kept is not None and now < kept.renew:
            return kept.text
        account = Key(key_of(pod).namespace, pod["spec"].get("serviceAccountName") or "default")
        try:
            answer = await self._ask(account, _request(pod, account, audience, seconds))
        except ApiError as error:
            if kept is not None:
                return kept.text
            raise CannotMount(f"failed to fetch token: {error.message}") from None
        expires = parse_timestamp(answer["status"]["expirationTimestamp"])
        renew = min(expires - LEFT_AT_RENEWAL * (expires - now), now + LONGEST_USE)
        self._kept[which] = _Token(str(answer["status"]["token"]).encode(), renew)
        return self._kept[which].text

    def forget(self, uid: str) -> None:
        for which in [which for which in self._kept if which[0] == uid]:
            del self._kept[which]


def through(client: Client) -> AskToken:
    """Asks the API server as any client does."""

    async def ask(account: Key, request: Manifest) -> Manifest:
        return await client.create(SERVICE_ACCOUNT, request, subresource="token")

    return ask


def _request(pod: Manifest, account: Key, audience: str, seconds: int) -> Manifest:
    """A request for a token that is worth nothing once the pod is gone."""
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
