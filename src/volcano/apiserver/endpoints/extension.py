"""Groups that another component of the program answers, as an aggregated API server does on a cluster."""

from collections.abc import Collection
from typing import Protocol

from volcano.apiserver.endpoints.request_info import RequestInfo
from volcano.net.messages import Answer, Request


class Extension(Protocol):
    """One version of a group. Requests are authenticated and authorized before."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def resources(self) -> Collection[str]: ...

    async def handle(self, request: Request, info: RequestInfo) -> Answer:
        """Answers a request for one of the resources. Raises an ApiError."""
        ...
