"""`vc-controller-manager`: its flags, which controllers run, its endpoints, and who leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.cmd.loopback import ask, free_port
from volcano.cmd.controllers import (
    check_controllers,
    enabled_controllers,
    is_enabled,
    manage,
    parse,
    runs_notifications,
)
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import LEASE, NAMESPACE, QUEUE

LEASE_NAME = "vc-controller-manager"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("worker_threads", 3),
        ("worker_threads_for_cronjob", 3),
        ("worker_threads_for_podgroup", 5),
        ("worker_threads_for_queue", 5),
        ("worker_threads_for_gc", 1),
        ("max_requeue_num", 15),
        ("scheduler_name", ["volcano"]),
        ("controllers", ["*", "-sharding-controller"]),
        ("inherit_owner_annotations", True),
        ("enable_healthz", False),
        ("healthz_address", ":11251"),
        ("enable_metrics", False),
        ("listen_address", ":8081"),
        ("leader_elect", True),
        ("leader_elect_lease_duration", 15.0),
        ("leader_elect_renew_deadline", 10.0),
        ("leader_elect_retry_period", 2.0),
        ("leader_elect_resource_name", LEASE_NAME),
        ("leader_elect_resource_namespace", "volcano-system"),
    ],
)
def test_flags_have_volcanos_defaults(flag: str, value: Any) -> None:
    assert getattr(parse([]), flag) == value


def test_notifications_can_be_the_only_controller_or_left_out() -> None:
    alone = parse(
        ["--controllers=notification-controller", "--notify-allow=10.0.0.0/8", "--notify-allow=a.example"]
    )
    assert alone.notify_allow == ["10.0.0.0/8", "a.example"]
    assert runs_notifications(alone.controllers, alone.gates)
    without = parse(["--controllers=*,-notification-controller"])
    assert not runs_notifications(without.controllers, without.gates)
    assert not runs_notifications(["*"], parse(["--feature-gates=VolcanoJobSupport=false"]).gates)


def test_controllers_may_ask_as_often_as_the_scheduler() -> None:
    assert (parse([]).kube_api_qps, parse([]).kube_api_burst) == (2000, 2000)


def test_a_deployments_arguments_are_taken() -> None:
    parsed = parse(
        [
            "--logtostderr",
            "--enable-healthz=true",
            "--enable-metrics=true",
            "--leader-elect=false",
            "--leader-elect-lease-duration=1m30s",
            "--scheduler-name=volcano",
            "--scheduler-name=other",
            "--log-flush-frequency=5s",
            "-v=4",
        ]
    )
    assert (parsed.enable_healthz, parsed.leader_elect, parsed.v) == (True, False, 4)
    assert parsed.scheduler_name == ["volcano", "other"]
    assert parsed.leader_elect_lease_duration == 90.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--controllers=*,magic-controller"], "'magic-controller' is unknown", id="unknown"),
        pytest.param(
            ["--controllers=+queue-controller,-queue-controller"], "is listed twice", id="one twice"
        ),
        pytest.param(["--notify-allow=http://x"], "--notify-allow: 'http://x' is not an", id="no target"),
        pytest.param(["--notify-source="], "--notify-source: '' is no URI reference", id="no source"),
        pytest.param(["--controllers=sharding-controller"], "not provided", id="one that is not built"),
        pytest.param(["--controllers="], "--controllers=: no controller to run", id="an empty list"),
        pytest.param(["--controllers= , "], "no controller to run; name one of job-controller", id="blanks"),
        pytest.param(["--controllers=-job-controller"], "no controller to run", id="only what not to run"),
        pytest.param(
            ["--controllers=gc-controller"], "no controller to run", id="a part of another controller"
        ),
        pytest.param(
            ["--controllers=job-controller", "--feature-gates=VolcanoJobSupport=false"],
            "no controller to run",
            id="only what a gate disables",
        ),
        pytest.param(["--leader-elect=maybe"], "neither true nor false", id="no switch"),
        pytest.param(["--leader-elect-lease-duration=soon"], "such as 15s", id="no duration"),
    ],
)
def test_flags_that_make_no_sense_end_the_program_with_a_reason(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "wanted", "runs"),
    [
        pytest.param("job-controller", ["*"], True, id="star"),
        pytest.param("gc-controller", ["*", "-gc-controller"], False, id="all but one"),
        pytest.param("job-controller", ["*", "-gc-controller"], True, id="all but another"),
        pytest.param("job-controller", ["queue-controller"], False, id="only another"),
        pytest.param("job-controller", ["+job-controller"], True, id="with a plus"),
        pytest.param("job-controller", ["-job-controller", "*"], False, id="the explicit entry wins"),
    ],
)
def test_which_controllers_a_list_switches_on(name: str, wanted: Sequence[str], runs: bool) -> None:
    assert check_controllers(wanted) == ""
    assert is_enabled(name, wanted) is runs


@pytest.mark.parametrize(
    ("gates", "name", "off"),
    [
        ("", "cronjob-controller", False),
        ("CronVolcanoJobSupport=false", "cronjob-controller", True),
        ("CronVolcanoJobSupport=false", "job-controller", False),
        ("WorkLoadSupport=true,VolcanoJobSupport=False", "cronjob-controller", True),
        ("VolcanoJobSupport=true", "job-controller", False),
    ],
)
def test_feature_gates_switch_controllers_off(gates: str, name: str, off: bool) -> None:
    arguments = parse([f"--feature-gates={gates}"])
    assert (name not in enabled_controllers(arguments.controllers, arguments.gates)) is off


@contextlib.asynccontextmanager
async def managing(cluster: SmallCluster, *flags: str) -> AsyncIterator[asyncio.Task[None]]:
    """A controller manager at work in this process."""
    task = asyncio.create_task(manage(parse(flags), cluster.client, cluster.clock))
    try:
        await cluster.rest()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_health_readiness_and_metrics_are_served() -> None:
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
        assert (await ask(health, "/metrics"))[0] == 404
        await cluster.create(QUEUE, "q", spec={})
        status, text = await ask(metrics, "/metrics")
        assert status == 200
        for name in (
            'volcano_queue_pod_group_running_count{queue_name="q"} 0.0',
            "volcano_jobflow_succeed_phase_count",
            "volcano_job_completed_phase_count",
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
        ):
            assert name.encode() in text
        await cluster.delete(QUEUE, "q")
        assert b'queue_name="q"' not in (await ask(metrics, "/metrics"))[1]


async def test_only_the_controllers_asked_for_run() -> None:
    async with (
        SmallCluster() as cluster,
        managing(cluster, "--leader-elect=false", "--controllers=pg-controller"),
    ):
        with pytest.raises(NotFound):
            await cluster.get(QUEUE, "default")


async def holder(cluster: SmallCluster) -> str:
    lease = await cluster.get(LEASE, LEASE_NAME, namespace="volcano-system")
    return str(lease["spec"].get("holderIdentity") or "")


async def test_one_of_two_leads_and_hands_over_when_it_stops() -> None:
    port = free_port()
    serving = ("--enable-healthz", f"--healthz-address=127.0.0.1:{port}")
    async with SmallCluster() as cluster:
        await cluster.create(NAMESPACE, "volcano-system")
        async with managing(cluster) as first, managing(cluster, *serving) as second:
            leader = await holder(cluster)
            assert leader
            assert await cluster.names(QUEUE) == ["default", "root"]
            await cluster.pass_time(30, step=1)
            assert await holder(cluster) == leader
            # Who waits to lead is alive and ready.
            assert await ask(port, "/healthz") == (200, b"ok")
            assert await ask(port, "/readyz") == (200, b"ok")
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert await holder(cluster) != leader  # released: no time has passed
            await cluster.pass_time(6, step=1)
            assert await holder(cluster) not in ("", leader)
            assert not second.done()
            await cluster.create(QUEUE, "q", spec={})
            assert (await cluster.get(QUEUE, "q"))["status"]["state"] == "Open"


async def test_a_leader_that_vanished_is_succeeded_when_its_lease_has_run_out() -> None:
    async with SmallCluster() as cluster:
        await cluster.create(NAMESPACE, "volcano-system")
        now = cluster.clock.now().micro_timestamp()
        lease = {
            "holderIdentity": "gone",
            "leaseDurationSeconds": 15,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        await cluster.create(LEASE, LEASE_NAME, namespace="volcano-system", spec=lease)
        async with managing(cluster):
            await cluster.pass_time(10, step=1)
            assert await holder(cluster) == "gone"
            assert await cluster.names(QUEUE) == []
            await cluster.pass_time(12, step=1)
            assert await holder(cluster) != "gone"
            assert await cluster.names(QUEUE) == ["default", "root"]
