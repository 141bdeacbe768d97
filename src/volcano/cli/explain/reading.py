"""Reads what explanations are computed from: the state of the cluster, the configuration, and the record of cycles."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from volcano.cli.errors import CommandError
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError, BadRequest, Forbidden, NotFound
from volcano.kube.api.kinds import SERVICE
from volcano.kube.client.protocol import Query

if TYPE_CHECKING:
    from volcano.analysis.explain.case import Case

LOCAL_PATH = "/debug/scheduler/cycles"  # of the API server of `volcano up`
PATH = "/debug/cycles"  # of the scheduler, behind its Service
SERVICE_LABELS = "app=volcano-scheduler"
DEFAULT_SCHEDULER = "default-scheduler"
PORT = "metrics"
ATTEMPTS = 4  # a Service may choose a replica that does not lead


@dataclass(frozen=True, slots=True)
class Reading:
    """A case, and notes about what it may differ in from the scheduler in the cluster."""

    case: "Case"
    notes: tuple[str, ...] = ()


async def read_case(session: Session) -> Reading:
    """Lists the cluster and its configuration. Raises MissingRights."""
    from volcano.analysis.explain.case import Case
    from volcano.analysis.rerun.live_config import read_config, read_options
    from volcano.analysis.rerun.state import ClusterState

    client = session.client
    live = await read_config(client)
    options = await read_options(client)
    state = await ClusterState.read(client, session.clock, options, config=live.config)
    notes = [live.note] if live.note else []
    if state.not_listed:
        kinds = ", ".join(kind.plural for kind in state.not_listed)
        notes.append(f"you may not list {kinds}; they are taken as absent")
    schedulers = (*options.scheduler_names, *((DEFAULT_SCHEDULER,) if options.serve_default else ()))
    return Reading(Case(state, live.config, schedulers, lambda: session.clock.now().monotonic), tuple(notes))


class NoHistory(CommandError):
    """The record of cycles cannot be read; the message says why."""


async def read_history(session: Session, **query: str) -> dict[str, Any]:
    """Answer of the scheduler about its last cycles, through the API server. Raises NoHistory."""
    wanted = {name: value for name, value in query.items() if value}
    parameters = f"?{urlencode(wanted)}" if wanted else ""
    try:
        return await _get(session, LOCAL_PATH + parameters)
    except BadRequest as error:
        raise NoHistory(error.message) from None
    except (Forbidden, NotFound):
        return await _through_service(session, parameters)
    except ApiError as error:
        raise NoHistory(f"the record of cycles cannot be read: {error.message}") from None


async def _through_service(session: Session, parameters: str) -> dict[str, Any]:
    try:
        services = (await session.client.list(SERVICE, Query(labels=SERVICE_LABELS))).items
    except ApiError as error:
        raise NoHistory(f"the scheduler's Service cannot be found: {error.message}") from None
    if not services:
        raise NoHistory(f"no Service has the labels {SERVICE_LABELS}: the record of cycles cannot be reached")
    metadata = services[0]["metadata"]
    namespace, name = quote(metadata["namespace"]), quote(metadata["name"])
    target = f"/api/v1/namespaces/{namespace}/services/{name}:{PORT}/proxy{PATH}{parameters}"
    found: dict[str, Any] = {}
    for _ in range(ATTEMPTS):
        try:
            found = await _get(session, target)
        except BadRequest as error:
            raise NoHistory(error.message) from None
        except ApiError as error:
            raise NoHistory(f"the record of cycles cannot be read: {error.message}") from None
        if found.get("last"):
            break
    return found


async def _get(session: Session, target: str) -> dict[str, Any]:
    reply = await session.client.raw("GET", target)
    found: dict[str, Any] = json.loads(reply.body)
    return found
