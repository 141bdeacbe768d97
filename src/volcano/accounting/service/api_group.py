"""The API group of accounting: answers requests that the API server has authenticated and authorized."""

from typing import Final

import orjson

from volcano.accounting import api
from volcano.accounting.service.service import AccountingService
from volcano.base.http.messages import Answer, Request, Response
from volcano.kube.api.errors import MethodNotAllowed, NotFound

JSON: Final = {"Content-Type": "application/json"}


class ApiGroup:
    """One version of the group: an extension of an API server in the same process, or what an aggregated one serves."""

    group = api.GROUP
    version = api.VERSION
    kinds = api.KINDS

    def __init__(self, service: AccountingService) -> None:
        self._service = service

    async def handle(self, request: Request) -> Answer:
        """Answers a request for one of the resources; all can only be listed. Raises an ApiError."""
        match [part for part in request.path.split("/") if part]:
            case ["apis", self.group, self.version, "namespaces", namespace, resource, *name]:
                pass
            case ["apis", self.group, self.version, resource, *name]:
                namespace = ""
            case _:
                raise NotFound("the server could not find the requested resource")
        if request.method != "GET" or name or "watch" in request.query:
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        found = await self._service.respond(resource, namespace, request.query)
        return Response(200, dict(JSON), orjson.dumps(found))
