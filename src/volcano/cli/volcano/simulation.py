"""`volcano nodes`: simulated nodes for any API server."""

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from volcano.base.clock import SteadyClock, SystemClock
from volcano.base.log import Log
from volcano.component.process import run_until_signal
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import ConfigError, Overrides, load_client_config
from volcano.kube.controllers.controller import Controller
from volcano.kube.controllers.runner import ControllerRunner
from volcano.nodes.pools import Pool, nodes_of
from volcano.nodes.simulated.controller import STOP_DELAY, SimulatedNodes
from volcano.nodes.simulated.devices import SimulatedDevices
from volcano.nodes.simulated.topology import SimulatedTopology
from volcano.nodes.topology import Topology

log = Log("nodes")

CONNECTIONS = 32


def simulate(
    pools: Sequence[Pool], topology: Topology, duration: float, kubeconfig: str, context: str, verbose: int
) -> int:
    """Runs until it is stopped."""
    logging.getLogger("volcano").setLevel(logging.INFO)
    return run_until_signal(
        _simulate(pools, topology, duration, kubeconfig, context), name="volcano nodes", verbosity=2 + verbose
    )


async def _simulate(
    pools: Sequence[Pool], topology: Topology, duration: float, kubeconfig: str, context: str
) -> None:
    clock = SteadyClock(SystemClock())  # pods end after a duration, not at a time of day
    try:
        settings = load_client_config(os.environ, kubeconfig=kubeconfig, overrides=Overrides(context=context))
        client = connect(settings, clock, connections=CONNECTIONS, user_agent="volcano-nodes")
    except ConfigError as error:
        raise SystemExit(f"volcano: {error}") from None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        nodes = topology.labelled(nodes_of(pools))
        controllers: list[Controller] = [
            SimulatedNodes(nodes, default_duration=duration, stop_delay=STOP_DELAY)
        ]
        if topology.levels:
            controllers.append(SimulatedTopology(topology, nodes))
        if any(pool.slices for pool in pools):
            controllers.append(SimulatedDevices(nodes))
        log.info("nodes simulated", nodes=len(nodes), server=settings.server)
        async with asyncio.TaskGroup() as group:
            for controller in controllers:
                runner = ControllerRunner(controller, client, clock, concurrency=CONNECTIONS)
                group.create_task(runner.run())
