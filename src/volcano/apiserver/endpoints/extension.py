"""Groups that another component of the program answers, as an aggregated API server does on a cluster."""

from collections.abc import Sequence
from typing import Protocol

from volcano.base.http.messages import Answer, Request
from volcano.kube.api.kinds import Kind


class Extension(Protocol):
    """One version of a group. Requests are authenticated and authorized before."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def kinds(self) -> Sequence[Kind]:
        """What discovery lists, as that of an APIService."""
        ...

    async def handle(self, request: Request) -> Answer:
        """Answers a request for one of the resources. Raises an ApiError."""
        ...
