"""Accounting of a local cluster: a database in its directory, served by its API server."""

from collections.abc import Callable
from typing import Final

import orjson

from volcano.accounting import api
from volcano.accounting.service.service import AccountingOptions, AccountingService
from volcano.accounting.store.file_check import accounting_database
from volcano.apiserver.endpoints.request_info import RequestInfo
from volcano.base.clock import Clock
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.metrics import CollectorRegistry
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.errors import MethodNotAllowed
from volcano.scheduler.usage_history import ReadUsage

NO_DATABASE: Final = "none"  # instead of a URL: accounting is disabled


class AccountingExtension:
    """The API group, answered by the accounting service."""

    group = api.GROUP
    version = api.VERSION
    kinds = api.KINDS

    def __init__(self, service: AccountingService) -> None:
        self._service = service

    async def handle(self, request: Request, info: RequestInfo) -> Answer:
        if info.verb != "list":
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        found = await self._service.respond(info.resource, info.namespace, request.query)
        return Response(200, {"Content-Type": "application/json"}, orjson.dumps(found))


def accounting_service(
    options: ClusterOptions, clock: Clock, metrics: Callable[[], CollectorRegistry]
) -> AccountingService | None:
    """The service of a cluster; None when accounting is disabled."""
    if options.accounting_database == NO_DATABASE:
        return None
    url = options.accounting_database
    if not url:
        database = accounting_database(options.directory)
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        url = f"sqlite:///{database}"
    return AccountingService(AccountingOptions(url, options.accounting_retention), clock, metrics)


def recorded_usage(service: AccountingService) -> ReadUsage:
    """Reads decayed usage for fair shares."""

    async def read(half_life: float) -> api.DecayedUsage:
        found = await service.respond(api.DECAYED_USAGE, "", {"halfLifeSeconds": [repr(half_life)]})
        return api.parse_decayed(found)

    return read
