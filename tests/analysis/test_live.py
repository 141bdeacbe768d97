"""Re-runs on a live cluster decide what its scheduler decides."""

import asyncio
from pathlib import Path

import pytest

from tests.simulate.test_same_as_cluster import LONG, SHAPES, submit
from volcano.analysis.rerun.live_config import read_config, read_options
from volcano.analysis.rerun.rerun import Rerun, run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.base.clock import SystemClock
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api import names
from volcano.kube.api.kinds import CONFIG_MAP, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Client, Options
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import parse, shipped

# name, pods, cores, GiB; the last two do not fit beside the others
JOBS = (("gang", 3, 4, 12), ("wide", 2, 7, 4), ("one", 1, 6, 8), ("large", 2, 9, 8), ("never", 1, 64, 8))
PAUSED = "actions: backfill\ntiers: []\n"  # places no pod that requests anything


async def configure(client: Client, text: str) -> None:
    patch = {"data": {names.SCHEDULER_CONFIG_KEY: text}}
    key = Key(names.SYSTEM_NAMESPACE, names.SCHEDULER_CONFIG_MAP)
    await client.patch(CONFIG_MAP, key, patch, options=Options())


async def placed(client: Client) -> dict[str, str]:
    return {
        f"default/{pod['metadata']['name']}": pod["spec"]["nodeName"]
        for pod in (await client.list(POD)).items
        if pod["metadata"]["namespace"] == "default" and pod["spec"].get("nodeName")
    }


async def compare(directory: Path) -> tuple[Rerun, dict[str, str]]:
    """What a re-run says while the scheduler is paused, and what the scheduler does when it is not."""
    options = ClusterOptions(directory, durable=False, pools=parse_pools([], SHAPES))
    async with LocalCluster(options) as cluster:
        client = cluster.client
        await configure(client, PAUSED)
        await asyncio.sleep(1.0)
        for name, pods, cores, gib in JOBS:
            await submit(client, name, LONG, pods, cores, gib)
        assert await placed(client) == {}
        live = await read_config(client)
        assert (live.config.text, live.note) == (PAUSED, "")
        state = await ClusterState.read(client, SystemClock(), await read_options(client))
        rerun = run(state, parse(shipped()))
        await configure(client, shipped())
        found: dict[str, str] = {}
        for _ in range(300):
            found = await placed(client)
            if len(found) == len(rerun.placements):
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.5)  # more pods would be an error
        return rerun, await placed(client)


@pytest.mark.slow
def test_a_rerun_on_a_live_cluster_places_what_the_scheduler_places(tmp_path: Path) -> None:
    rerun, found = asyncio.run(compare(tmp_path / "cluster"))
    assert rerun.placements == found
    assert len(found) > 3
    assert starts(rerun, "default/gang")
    assert not starts(rerun, "default/never")
