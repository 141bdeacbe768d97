"""Volumes and names as a process in a real pod sees them, on every runtime with a network of its own."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster import SmallCluster
from tests.nodes.kubelet.dns.test_names import DOMAIN
from tests.nodes.kubelet.dns.test_server import world
from tests.nodes.kubelet.environment.pods import FACTS, container, pod
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.api.manifest import uid_of
from volcano.nodes.kubelet.dns.server import DnsServer
from volcano.nodes.kubelet.environment.environment import environment, own_command
from volcano.nodes.kubelet.environment.references import fetch_references
from volcano.nodes.kubelet.volumes.store import VolumeManager
from volcano.nodes.runtimes.process import ProcessRuntime
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Failure, Mode, SandboxSpec

pytestmark = pytest.mark.slow

RESOLV = f"search default.{DOMAIN} {DOMAIN} cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
SCRIPT = """
echo worker $(getent ahostsv4 worker-0.train | cut -d' ' -f1 | sort -u)
echo service $(getent ahostsv4 web | cut -d' ' -f1 | sort -u | wc -l)
echo called $(getent hosts 10.88.0.5)
getent hosts example.org || echo outside $?
echo config $(cat /etc/app/k) $(readlink /etc/app/k)
echo part $(cat /etc/part) && (echo x > /etc/app/k) 2> /dev/null || echo refused
echo memory $(df --output=size /mem | tail -1) && echo $(VALUE)
"""


@asynccontextmanager
async def opened(directory: Path, mode: Mode) -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime(directory, mode, lifeline=True)
    try:
        await runtime.open()
    except (Failure, OSError) as error:
        pytest.skip(f"{mode} is not to be had here: {error}")
    try:
        yield runtime
    finally:
        await runtime.close(keep=False)


@pytest.mark.parametrize("mode", [Mode.NETNS, Mode.USERNS])
async def test_a_process_finds_its_volumes_and_the_others(tmp_path: Path, mode: Mode) -> None:
    if not shutil.which("getent"):
        pytest.skip("getent is not installed")
    main = container(
        command=["sh", "-c", SCRIPT],
        env=[{"name": "VALUE", "value": "expanded"}],
        volumeMounts=[
            {"name": "config", "mountPath": "/etc/app"},
            {"name": "config", "mountPath": "/etc/part", "subPath": "k"},
            {"name": "memory", "mountPath": "/mem"},
        ],
    )
    volumes = [
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
    of = pod(main, volumes=volumes)
    async with SmallCluster() as cluster, opened(tmp_path, mode) as runtime:
        await cluster.create(CONFIG_MAP, "c", data={"k": "value"})
        udp, tcp = (
            await runtime.listen("10.96.0.10", 53, datagram=True),
            await runtime.listen("10.96.0.10", 53),
        )
        assert udp is not None
        server = DnsServer(world().names, udp, tcp)
        await server.start()
        directory = tmp_path / "pods" / uid_of(of)
        directory.mkdir(parents=True)
        references, store = (
            await fetch_references(cluster.client, of),
            VolumeManager(cluster.client, cluster.clock),
        )
        await store.prepare(of, directory, references, FACTS)
        given = environment(of, main, references, FACTS)
        hosts = "127.0.0.1 localhost\n{address} p\n"
        await runtime.create_sandbox(
            SandboxSpec(uid_of(of), "default", "p", "local-0", str(directory), "p", hosts, RESOLV)
        )
        ended: asyncio.Queue[ContainerState] = asyncio.Queue()
        runtime.on_change(ended.put_nowait)
        log, mounts = directory / "log", store.mounts(of, main, given)
        spec = ContainerSpec(
            uid_of(of), "main", 0, "i", own_command(main, given)[0], given, "", mounts, log_path=str(log)
        )
        await runtime.start(spec)
        state = await asyncio.wait_for(ended.get(), 30)
        await server.stop()
    lines = [line.split(" ", 3)[3].split() for line in log.read_text().splitlines()]
    assert lines == [
        ["worker", "10.88.0.5"],
        ["service", "100"],
        ["called", "10.88.0.5", f"train-worker-0.train.default.{DOMAIN}"],
        ["outside", "2"],
        ["config", "value", "..data/k"],
        ["part", "value"],
        ["refused"],
        ["memory", "1024"],
        ["expanded"],
    ]
    assert state.exit_code == 0
