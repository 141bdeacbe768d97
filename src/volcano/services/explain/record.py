"""Reads the scheduler's record of cycles, through the API server."""

from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from volcano.kube.api.errors import ApiError, BadRequest, Forbidden, NotFound
from volcano.kube.api.kinds import SERVICE
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Query
from volcano.scheduler.history.endpoint import API_SERVER_PATH, PATH
from volcano.scheduler.history.queries import Answer, CycleList, Entries, Evictions, OneCycle
from volcano.services.errors import ServiceError

SERVICE_LABELS = "app=volcano-scheduler"
PORT = "metrics"
ATTEMPTS = 4  # a Service may choose a replica that does not lead
Found = TypeVar("Found", bound=Answer)


class NoRecord(ServiceError):
    """The record of cycles cannot be read; the message says why."""


async def read_cycles(client: HttpClient, *, before: int = 0, limit: int = 0) -> CycleList:
    """The last cycles that decided something, or those before one. Raises NoRecord, as all of these functions."""
    return await _read(client, CycleList, before=str(before or ""), limit=str(limit or ""))


async def read_cycle(client: HttpClient, number: int | None = None, at: str = "") -> OneCycle:
    """A cycle by number or time, such as 2026-11-17T18:00:00Z."""
    return await _read(client, OneCycle, **_moment(number, at))


async def read_entries(
    client: HttpClient, *, job: str = "", pod: str = "", cycle: int | None = None, at: str = ""
) -> Entries:
    """What happened to a job or pod ("namespace/name"), up to a cycle or time."""
    return await _read(client, Entries, job=job, pod=pod, **_moment(cycle, at))


async def read_evictions(client: HttpClient) -> Evictions:
    """The last evictions."""
    return await _read(client, Evictions, evictions="true")


def _moment(number: int | None, at: str) -> dict[str, str]:
    return {"number": "" if number is None else str(number), "at": at}


async def _read(client: HttpClient, answer: type[Found], **query: str) -> Found:
    wanted = {name: value for name, value in query.items() if value}
    parameters = f"?{urlencode(wanted)}" if wanted else ""
    try:
        try:
            return await _get(client, answer, API_SERVER_PATH + parameters)
        except (Forbidden, NotFound):
            target = await _service(client) + parameters
        for _ in range(ATTEMPTS):
            found = await _get(client, answer, target)
            if found.last:
                break
        return found
    except BadRequest as error:
        raise NoRecord(error.message) from None
    except ApiError as error:
        raise NoRecord(f"the record of cycles cannot be read: {error.message}") from None
    except msgspec.DecodeError as error:
        raise NoRecord(f"the record of cycles cannot be read: {error}") from None


async def _service(client: HttpClient) -> str:
    """Path of the record behind the scheduler's Service."""
    try:
        services = (await client.list(SERVICE, Query(labels=SERVICE_LABELS))).items
    except ApiError as error:
        raise NoRecord(f"the scheduler's Service cannot be found: {error.message}") from None
    if not services:
        raise NoRecord(f"no Service has the labels {SERVICE_LABELS}: the record of cycles cannot be reached")
    metadata = services[0]["metadata"]
    namespace, name = quote(metadata["namespace"]), quote(metadata["name"])
    return f"/api/v1/namespaces/{namespace}/services/{name}:{PORT}/proxy{PATH}"


async def _get(client: HttpClient, answer: type[Found], target: str) -> Found:
    return msgspec.json.decode((await client.raw("GET", target)).body, type=answer)
