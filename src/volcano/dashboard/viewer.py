"""Viewers: who looks at the dashboard, with which credentials requests are made for them."""

from dataclasses import replace
from functools import cached_property

from volcano.base.clock import Clock
from volcano.dashboard.rights import Rights
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import SELF_SUBJECT_REVIEW
from volcano.kube.client.credentials import Impersonation
from volcano.kube.client.kubeconfig import ClientConfig
from volcano.services.connection import Connection


def connection_of(config: ClientConfig, clock: Clock) -> Connection:
    """Connection with the credentials of a viewer. The caller closes it."""
    return Connection(settings=config, clock=clock, environment={})


class Viewer:
    """One person. Requests for the person are made with the person's credentials only."""

    def __init__(self, name: str, config: ClientConfig, clock: Clock) -> None:
        self.name = name
        self.theme = "auto"
        self.ended = False  # logged out, or not seen for long
        self.prices = ""  # YAML, of the page of usage
        self._config = config
        self._clock = clock

    @cached_property
    def connection(self) -> Connection:
        return self.new_connection()

    @cached_property
    def rights(self) -> Rights:
        return Rights(self.connection.client, self._clock)

    def new_connection(self) -> Connection:
        """Another connection with the same credentials, for another event loop. The caller closes it."""
        return connection_of(self._config, self._clock)

    async def close(self) -> None:
        self.ended = True
        if "connection" in self.__dict__:
            await self.connection.close()


def with_token(config: ClientConfig, token: str) -> ClientConfig:
    """The same server with a bearer token as the only credential: a client certificate of the kubeconfig would be
    accepted before the token, and the viewer would act as the owner of the kubeconfig."""
    return replace(
        config,
        token=token,
        token_file=None,
        username="",
        password="",
        certificate=None,
        certificate_files=None,
        plugin=None,
        impersonation=Impersonation(),
    )


def impersonating(config: ClientConfig, user: str, groups: tuple[str, ...]) -> ClientConfig:
    """The same server, for a user that an authenticating proxy has named."""
    return replace(config, impersonation=Impersonation(user=user, groups=groups))


async def user_name(connection: Connection) -> str:
    """Name of the user that the API server sees; "" when it does not accept the credentials."""
    review = {"apiVersion": SELF_SUBJECT_REVIEW.api_version, "kind": SELF_SUBJECT_REVIEW.kind, "metadata": {}}
    try:
        answer = await connection.client.create(SELF_SUBJECT_REVIEW, review)
    except ApiError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")
