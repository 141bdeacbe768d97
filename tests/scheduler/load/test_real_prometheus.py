"""The queries against a real Prometheus that scrapes an exporter on loopback."""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.scheduler.load.serving import Answer, LoopbackServer, Received
from tests.scheduler.load.test_sources import NODES
from volcano.scheduler.engine.load_settings import parse_load_settings
from volcano.scheduler.load.prometheus import Prometheus
from volcano.scheduler.load.values import LoadSourceError

PROGRAM = shutil.which("prometheus")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROGRAM is None, reason="no prometheus on the PATH")]
STEP = 1.0  # seconds


class Exporter:
    """Two cpus, a quarter and three quarters idle, and a quarter of the memory available."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, received: Received) -> Answer:
        seconds = time.monotonic() - self.started
        lines = [
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {seconds * part}'
            for cpu, idle in enumerate((0.25, 0.75))
            for mode, part in (("idle", idle), ("user", 1 - idle))
        ]
        lines += ["node_memory_MemTotal_bytes 8e9", "node_memory_MemAvailable_bytes 2e9"]
        return 200, ("\n".join(lines) + "\n").encode()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with LoopbackServer(Exporter()) as exporter, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        target = {"targets": [f"127.0.0.1:{exporter.port}"]}
        jobs = [
            {"job_name": "named", "static_configs": [{**target, "labels": {"instance": "n1:9100"}}]},
            {"job_name": "labelled", "static_configs": [{**target, "labels": {"node": "n2"}}]},
        ]
        document = {"global": {"scrape_interval": f"{STEP:.0f}s"}, "scrape_configs": jobs}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(document))
        command = [
            str(PROGRAM), f"--config.file={tmp_path}/prometheus.yml", f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={tmp_path}/data",
        ]  # fmt: skip
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


async def test_the_load_of_all_nodes_is_read(address: str) -> None:
    source, settings = Prometheus(step="1s"), parse_load_settings({"type": "prometheus", "address": address})
    for _ in range(120):
        try:
            found = await source.fetch(settings, NODES, time.time())
        except LoadSourceError:
            found = {}
        if found.keys() == {"n1", "n2"}:
            break
        await asyncio.sleep(0.5)
    assert found.keys() == {"n1", "n2"}, "n3 is not scraped"
    for load in found.values():
        assert load.cpu == pytest.approx(50, abs=10)
        assert load.memory == pytest.approx(75)
        assert load.measured == pytest.approx(time.time(), abs=60)
    with pytest.raises(LoadSourceError, match="it answered 400"):
        await Prometheus(step="nonsense").fetch(settings, NODES, time.time())
