"""Screens of `vcctl plan` at 80 columns and in a file, compared with files that were reviewed by eye.

`UPDATE_SCREENS=1 pytest tests/cli/test_plan_screens.py` writes them again.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import job, node, priority_class, queue, resources
from tests.cli.test_screens import SCREENS, FixedSession
from tests.cluster import SmallCluster
from volcano.cli.plan import NOT_NOW
from volcano.cli.program import parser_of
from volcano.kube.api import names
from volcano.kube.api.kinds import CONFIG_MAP, JOB, NAMESPACE, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.scheduler.engine.config import PRESETS, shipped

# Requests and priority of a job of pods, flags, exit code.
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "plan-fits": ({"replicas": 3, "cpu": 2}, (), 0),
    "plan-waits": ({"replicas": 8, "cpu": 6}, (), NOT_NOW),
    "plan-evicts": ({"replicas": 2, "cpu": 8, "priority": "urgent"}, ("--allow-preempt",), 0),
    "plan-may-not-evict": ({"replicas": 2, "cpu": 8, "priority": "urgent"}, (), NOT_NOW),
}


def manifest(replicas: int, cpu: int, priority: str = "") -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    task = {
        "name": "worker",
        "replicas": replicas,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    spec: Manifest = {"queue": "research", "tasks": [task]}
    spec |= {"priorityClassName": priority} if priority else {}
    return {"apiVersion": JOB.api_version, "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


async def fill(cluster: SmallCluster) -> None:
    """Two nodes, one of them full of a job that may be evicted, and a queue with a limit."""
    low = job(
        "low", 4, min_available=0, cpu=2, queue="research", on="gpu-0", phase="Running", preemptable=True
    )
    configuration: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.SCHEDULER_CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE},
        "data": {names.SCHEDULER_CONFIG_KEY: shipped(PRESETS["preempt"])},
    }
    await cluster.create(NAMESPACE, names.SYSTEM_NAMESPACE)
    for kind, each in (
        (CONFIG_MAP, configuration),
        (NODE, node("gpu-0", cpu=8)),
        (NODE, node("gpu-1", cpu=8)),
        (QUEUE, queue("research", capability=resources(cpu=64))),
        (PRIORITY_CLASS, priority_class("urgent", 1000)),
        (POD_GROUP, low.group),
        *((POD, pod) for pod in low.pods),
    ):
        each["metadata"].pop("resourceVersion", None)
        made = await cluster.client.create(kind, each)
        if kind in (POD, POD_GROUP, NODE):
            key = Key(made["metadata"].get("namespace", ""), made["metadata"]["name"])
            subresource = "status" if "status" in kind.subresources else ""
            await cluster.client.patch(kind, key, {"status": each["status"]}, subresource=subresource)


async def drawn(name: str, columns: int | None, path: Path) -> str:
    options, flags, code = CASES[name]
    path.write_text(yaml.safe_dump(manifest(**options)))
    async with SmallCluster() as cluster:
        await fill(cluster)
        arguments = parser_of("vcctl").parse_args(["plan", "-f", str(path), *flags])
        session = FixedSession(cluster.client, cluster.clock, columns)
        assert await arguments.run(arguments, session) == code, session.output.getvalue()
        text = session.output.getvalue()
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("columns", [80, None], ids=["80 columns", "file"])
@pytest.mark.parametrize("name", CASES)
def test_the_screen_is_as_reviewed(name: str, columns: int | None, tmp_path: Path) -> None:
    text = asyncio.run(drawn(name, columns, tmp_path / "train.yaml"))
    path = SCREENS / f"{name}.{columns or 'file'}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()
