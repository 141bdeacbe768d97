"""`volcano nodes`: simulated nodes for any API server."""

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from volcano.clients.connect import connect
from volcano.clients.kubeconfig import ConfigError, Overrides, load_client_config
from volcano.clock import SteadyClock, SystemClock
from volcano.entry.process import run_until_signal
from volcano.kube.controller_runner import ControllerRunner
from volcano.log import Log
from volcano.nodes.pools import Pool, nodes_of
from volcano.nodes.simulated.controller import STOP_DELAY, SimulatedNodes
from volcano.nodes.simulated.devices import SimulatedDevices

log = Log("nodes")

CONNECTIONS = 32


def simulate(pools: Sequence[Pool], duration: float, kubeconfig: str, context: str, verbose: int) -> int:
    """Runs until it is stopped."""
    logging.getLogger("volcano").setLevel(logging.INFO)
    return run_until_signal(
        _simulate(pools, duration, kubeconfig, context), name="volcano nodes", verbosity=2 + verbose
    )


async def _simulate(pools: Sequence[Pool], duration: float, kubeconfig: str, context: str) -> None:
    clock = SteadyClock(SystemClock())  # pods end after a duration, not at a time of day
    try:
        settings = load_client_config(os.environ, kubeconfig=kubeconfig, overrides=Overrides(context=context))
        client = connect(settings, clock, connections=CONNECTIONS, user_agent="volcano-nodes")
    except ConfigError as error:
        raise SystemExit(f"volcano: {error}") from None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        nodes = nodes_of(pools)
        controller = SimulatedNodes(nodes, default_duration=duration, stop_delay=STOP_DELAY)
        log.info("nodes simulated", nodes=len(nodes), server=settings.server)
        async with asyncio.TaskGroup() as group:
            group.create_task(ControllerRunner(controller, client, clock, concurrency=CONNECTIONS).run())
            if any(pool.devices for pool in pools):
                group.create_task(ControllerRunner(SimulatedDevices(nodes), client, clock).run())
