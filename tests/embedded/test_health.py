"""/readyz of an embedded cluster: components and the scheduler, with warnings that do not fail it."""

import asyncio
from pathlib import Path

import pytest

from volcano.base.clock import SystemClock
from volcano.base.http.messages import Request
from volcano.cli.volcano.status import parse_health
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.embedded.supervisor import Supervisor
from volcano.embedded.system import CONFIG_KEY, CONFIG_NAME
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.api.manifest import Key


async def test_a_component_that_fails_is_named_until_it_is_ready_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("volcano.embedded.supervisor.RESTART_DELAY", 0.01)
    supervisor = Supervisor(SystemClock())
    attempts: list[int] = []
    repaired = asyncio.Event()

    async def run(on_ready) -> None:  # type: ignore[no-untyped-def]
        attempts.append(1)
        if not repaired.is_set():
            raise ValueError("broken")
        on_ready()
        await asyncio.Event().wait()

    supervisor.start_until_ready("part", "worker", run)
    assert supervisor.problem() == "not ready yet: worker"
    while len(attempts) < 2:
        await asyncio.sleep(0.01)
    assert supervisor.problem() == "worker failed: broken"
    repaired.set()
    while supervisor.problem():
        await asyncio.sleep(0.01)
    await supervisor.stop()


async def test_a_rejected_scheduler_configuration_is_a_warning(tmp_path: Path) -> None:
    async with LocalCluster(ClusterOptions(tmp_path, durable=False)) as cluster:
        assert cluster.control_plane is not None
        key = Key("volcano-system", CONFIG_NAME)
        await cluster.client.patch(CONFIG_MAP, key, {"data": {CONFIG_KEY: 'actions: "dance"'}})
        for _ in range(500):
            if cluster.scheduler.source.warning:
                break
            await asyncio.sleep(0.02)
        request = Request("GET", "/readyz", {"verbose": [""]}, {}, b"")
        answer = await cluster.control_plane.api_server(request)
        report = parse_health(answer.body.decode())  # type: ignore[union-attr]
        assert report.healthy
        assert "components" in report.passed
        assert "dance" in report.warnings["scheduler-config"]
        assert "the previous configuration is used" in report.warnings["scheduler-config"]
