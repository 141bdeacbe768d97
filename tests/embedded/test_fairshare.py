"""fairshare in a whole cluster: usage is recorded, and restored when the cluster is started again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_screens import FixedSession
from tests.embedded.test_cluster import cluster, gang, phase, until
from volcano.base.clock import SystemClock
from volcano.cli.program import parser_of
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: fairshare}, {name: predicates}]
"""


def owned(name: str, user: str, cpu: str = "1", seconds: str = "") -> Manifest:
    manifest = gang(name, 1, cpu)
    manifest["metadata"]["annotations"] = {"volcano.sh/user": user}
    if seconds:
        template = manifest["spec"]["tasks"][0]["template"]
        template["metadata"] = {"annotations": {"volcano.sh/sim-duration": seconds}}
    return manifest


async def vcctl(made: Any, *command: str) -> Any:
    """Runs a command against the API server over HTTP; returns its JSON."""
    config = load_client_config({}, kubeconfig=str(made.kubeconfig))
    client = connect(config, SystemClock(), user_agent="test")
    try:
        arguments = parser_of("vcctl").parse_args([*command, "-o", "json"])
        session = FixedSession(client, SystemClock(), None)  # type: ignore[arg-type]
        assert await arguments.run(arguments, session) == 0
        return json.loads(session.output.getvalue())
    finally:
        await client.close()


@pytest.mark.slow
async def test_usage_is_restored_after_a_restart(tmp_path: Path) -> None:
    settings: Any = {"durable": True, "nodes": "cpu=2,count=1", "scheduler_conf": CONFIG}
    async with cluster(tmp_path, **settings) as made:
        await made.client.create(JOB, owned("past", "alice", "2", "3s"))

        async def completed() -> bool:
            return await phase(made.client, "past") == "Completed"

        await until(completed, 60.0)
        shares = await vcctl(made, "fairshare")
        assert shares["usageSource"] == "accounting"
        await asyncio.sleep(1.5)  # the recorder writes once a second
    async with cluster(tmp_path, **settings) as made:
        # The node is full, so that both jobs wait; the older one belongs to who used the cluster before.
        await made.client.create(JOB, owned("full", "carol", "2", "4s"))

        async def running() -> bool:
            return await phase(made.client, "full") == "Running"

        await until(running, 60.0)
        await made.client.create(JOB, owned("of-alice", "alice", "2", "60s"))
        await asyncio.sleep(1.1)
        await made.client.create(JOB, owned("of-bob", "bob", "2", "60s"))

        async def factors() -> bool:
            shares = await vcctl(made, "fairshare", "-q", "default")
            found = {row.get("user"): row for row in shares["items"]}
            return "alice" in found and found["alice"]["usageSeconds"] > 3.0 and "bob" in found

        await until(factors, 60.0)
        waiting = await vcctl(made, "priority")
        names = [row["name"] for row in waiting["items"]]
        if len(names) == 2:  # otherwise one of them has started meanwhile
            assert names == ["of-bob", "of-alice"]

        async def one_runs() -> str:
            phases = {name: await phase(made.client, name) for name in ("of-alice", "of-bob")}
            return next((name for name, found in phases.items() if found == "Running"), "")

        assert await until(one_runs, 60.0) == "of-bob"
