"""Snapshots of live clusters: `volcano snapshot save` and `volcano simulate --from-cluster`."""

import argparse
import asyncio
import os
from contextlib import aclosing

from volcano.analysis.rerun.state import ClusterState, MissingRights
from volcano.base.clock import Clock, SystemClock
from volcano.cli.errors import CommandError
from volcano.cli.volcano.configuration import read
from volcano.kube.api.errors import ApiError
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import ConfigError as ClientConfigError
from volcano.kube.client.kubeconfig import Overrides, load_client_config
from volcano.kube.client.protocol import Client
from volcano.model.cluster import WATCHED
from volcano.scheduler.engine.config import ConfigError, parse, shipped
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.snapshot_file import save


def save_snapshot(arguments: argparse.Namespace) -> int:
    """Writes a snapshot of a live cluster to a file."""
    try:
        config = read(arguments.config) if arguments.config else shipped()
        parse(config, arguments.config or "default")
    except ConfigError as error:
        raise CommandError(str(error)) from None
    data = live_snapshot(arguments.kubeconfig, arguments.context, config)
    arguments.file.write_bytes(data)
    print(
        f"wrote {arguments.file}; `volcano simulate --trace {arguments.file} --format snapshot` starts from it"
    )
    return 0


def live_snapshot(kubeconfig: str, context: str, config: str) -> bytes:
    """A saved snapshot of everything that the scheduler would see."""
    clock = SystemClock()
    try:
        settings = load_client_config(os.environ, kubeconfig=kubeconfig, overrides=Overrides(context=context))
        client = connect(settings, clock, connections=4, user_agent="volcano-simulate")
    except ClientConfigError as error:
        raise CommandError(str(error)) from None

    async def take() -> bytes:
        async with aclosing(_Closing(client)):
            return await snapshot_of(client, clock, config)

    try:
        return asyncio.run(take())
    except ApiError as error:
        raise CommandError(f"the cluster at {settings.server} cannot be read: {error.message}") from None
    except MissingRights as error:
        raise CommandError(f"the cluster at {settings.server} cannot be read: {error}") from None


async def snapshot_of(client: Client, clock: Clock, config: str) -> bytes:
    """Lists every kind that the scheduler watches; a kind that the server does not know has no objects."""
    state = await ClusterState.read(client, clock, SchedulerOptions())
    missing = [kind for kind in state.not_listed if kind in WATCHED]
    if missing:
        raise MissingRights(missing)
    return save(state.snapshot(), config)


class _Closing:
    """Closes a client at the end of a block."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def aclose(self) -> None:
        close = getattr(self._client, "close", None)
        if close is not None:
            await close()
