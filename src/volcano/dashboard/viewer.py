"""Viewers: who looks at the dashboard, with which credentials requests are made for them."""

import io
from dataclasses import replace
from functools import cached_property

from volcano.base.clock import Clock
from volcano.cli.session import Session
from volcano.dashboard.rights import Rights
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import SELF_SUBJECT_REVIEW
from volcano.kube.client.credentials import Impersonation
from volcano.kube.client.kubeconfig import ClientConfig
from volcano.services.connection import Connection


class ViewerSession(Session):
    """Session of a command with the credentials of a viewer: the functions of `vcctl` act with these."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        connection = Connection(settings=config, clock=clock, environment={})
        super().__init__(connection, stdout=io.StringIO(), stderr=io.StringIO())

    def notes(self) -> list[str]:
        """Lines that a command has written to standard error."""
        written = self.stderr.getvalue() if isinstance(self.stderr, io.StringIO) else ""
        return [line.removeprefix("note: ") for line in written.splitlines() if line]

    async def close(self) -> None:
        """Closes the connections, if any were opened."""
        await self.connection.close()


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
    def session(self) -> ViewerSession:
        return self.new_session()

    @cached_property
    def rights(self) -> Rights:
        return Rights(self.session.client, self._clock)

    def new_session(self) -> ViewerSession:
        """Another session with the same credentials, for another event loop. The caller closes it."""
        return ViewerSession(self._config, self._clock)

    async def close(self) -> None:
        self.ended = True
        if "session" in self.__dict__:
            await self.session.close()


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


async def user_name(session: Session) -> str:
    """Name of the user that the API server sees; "" when it does not accept the credentials."""
    review = {"apiVersion": SELF_SUBJECT_REVIEW.api_version, "kind": SELF_SUBJECT_REVIEW.kind, "metadata": {}}
    try:
        answer = await session.client.create(SELF_SUBJECT_REVIEW, review)
    except ApiError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")
