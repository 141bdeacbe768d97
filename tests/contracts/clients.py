"""The clients that the contract applies to: each a way to reach an API server, opened for every test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

from tests.apiserver.servers import ADMIN_TOKEN, SIGNING_KEY
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.admission.chain import RESOURCE_PLUGINS
from volcano.apiserver.authn.access_control import AccessOptions
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.server import ApiServer, ServerOptions, controlled_registry
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.store import Store
from volcano.base.clock import SystemClock
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.server import Server
from volcano.base.http.tls import client_context
from volcano.kube.client.credentials import bearer
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Client

Opened = AbstractAsyncContextManager[Client]


def api_server(store: Store) -> tuple[Registry, ApiServer]:
    """A complete API server on a store, with its admission chain."""
    uids, ids = itertools.count(1), itertools.count(1)
    controlled = controlled_registry(
        store,
        KindTable(built_in_kinds()),
        clock=SystemClock(),
        random=Random(1),
        new_uid=lambda: f"uid-{next(uids)}",
        access=AccessOptions(
            admin_token=ADMIN_TOKEN,
            signing_key=SIGNING_KEY,
            new_id=lambda: f"id-{next(ids)}",
            authority=b"the CA",
        ),
        disabled_plugins=RESOURCE_PLUGINS,
    )
    options = ServerOptions(new_id=lambda: f"id-{next(ids)}", random=Random(1))
    return controlled.registry, ApiServer(controlled, options)


@asynccontextmanager
async def direct(directory: Path) -> AsyncIterator[Client]:
    """In process, on a store in memory."""
    made, server = api_server(Store())
    await server.start()
    yield DirectClient(made)
    await server.close()


@asynccontextmanager
async def durable(directory: Path) -> AsyncIterator[Client]:
    """In process, on a store on disk."""
    opened = DurableStore(directory / "data")
    made, server = api_server(opened.store)
    await server.start()
    yield DirectClient(made)
    await server.close()
    opened.close()


@asynccontextmanager
async def http(directory: Path) -> AsyncIterator[Client]:
    """Over HTTP, to our own server."""
    _, api = api_server(Store())
    await api.start()
    server = Server(api)
    await server.start()
    client = HttpClient(
        ConnectionPool(server.url), SystemClock(), chance=Random(1).random, credentials=bearer(ADMIN_TOKEN)
    )
    yield client
    await client.close()
    await server.stop(0.1)
    await api.close()


@asynccontextmanager
async def real(cluster: RealCluster) -> AsyncIterator[Client]:
    """Over HTTPS, to a real kube-apiserver."""
    pool = ConnectionPool(cluster.url, tls=client_context(insecure=True))
    client = HttpClient(pool, SystemClock(), chance=Random(1).random, credentials=bearer(cluster.token))
    yield client
    await client.close()
    await asyncio.sleep(0.05)  # TLS connections send close_notify before they close


# Our clients, by name; the real server has its own fixture.
OURS: dict[str, Callable[[Path], Opened]] = {"direct": direct, "durable": durable, "http": http}
