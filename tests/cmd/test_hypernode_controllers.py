"""`vc-hypernode-controller-manager`: its flags, its endpoints, and who leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.cmd.loopback import ask, free_port
from volcano.cmd.controllers import manage
from volcano.cmd.hypernode_controllers import parse
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import HYPER_NODE, LEASE, NAMESPACE, NODE, QUEUE

SPEC = {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]}


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("kube_api_qps", 50),
        ("kube_api_burst", 100),
        ("enable_healthz", False),
        ("healthz_address", ":11251"),
        ("enable_metrics", False),
        ("listen_address", ":8081"),
        ("leader_elect", True),
        ("leader_elect_resource_name", "vc-hypernode-controller-manager"),
        ("leader_elect_resource_namespace", "volcano-system"),
        ("controllers", ["hyperNode-controller"]),
    ],
)
def test_flags_have_volcanos_defaults(flag: str, value: Any) -> None:
    assert getattr(parse([]), flag) == value


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--kube-api-qps=0"], "--kube-api-qps=0: must be greater than 0"),
        (["--kube-api-burst=-1"], "--kube-api-burst=-1: must be greater than 0"),
        (["--controllers=*"], "unknown flag --controllers"),
        (
            ["--enable-healthz", "--enable-metrics", "--healthz-address=127.0.0.1:8081"],
            "--healthz-address=127.0.0.1:8081 and --listen-address=:8081 overlap; use different ports",
        ),
    ],
)
def test_flags_that_make_no_sense_end_the_program_with_a_reason(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_equal_addresses_are_accepted_when_only_one_is_used() -> None:
    assert parse(["--enable-healthz", "--healthz-address=:8081"]).enable_healthz


@contextlib.asynccontextmanager
async def managing(cluster: SmallCluster, *flags: str) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(manage(parse(flags), cluster.client, cluster.clock))
    try:
        await cluster.rest()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_runs_the_hypernode_controller_alone_and_serves_health_and_metrics() -> None:
    health, metrics = free_port(), free_port()
    flags = (
        "--leader-elect=false",
        "--enable-healthz",
        f"--healthz-address=127.0.0.1:{health}",
        "--enable-metrics",
        f"--listen-address=127.0.0.1:{metrics}",
    )
    async with SmallCluster() as cluster, managing(cluster, *flags):
        assert await ask(health, "/healthz") == (200, b"ok")
        assert await ask(health, "/readyz") == (200, b"ok")
        status, text = await ask(metrics, "/metrics")
        assert status == 200
        assert b"volcano_controller_write_loops" in text
        await cluster.create(NODE, "n0", spec={})
        await cluster.create(HYPER_NODE, "h", spec=SPEC)
        assert (await cluster.get(HYPER_NODE, "h"))["status"]["nodeCount"] == 1
        with pytest.raises(NotFound):
            await cluster.get(QUEUE, "default")


async def test_it_takes_part_in_an_election_of_its_own() -> None:
    async with SmallCluster() as cluster:
        await cluster.create(NAMESPACE, "volcano-system")
        async with managing(cluster):
            lease = await cluster.get(LEASE, "vc-hypernode-controller-manager", namespace="volcano-system")
            assert lease["spec"]["holderIdentity"]
