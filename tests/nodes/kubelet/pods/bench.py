"""A small cluster with one kubelet on a fake runtime, under a virtual clock."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cluster import SmallCluster
from tests.nodes.kubelet.pods.fake import FakeRuntime
from volcano.kube.api.kinds import EVENT, POD, SERVICE_ACCOUNT
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.numa.layout import Cpu
from volcano.nodes.kubelet.gpus.nvml import GpuReader
from volcano.nodes.kubelet.images import FindImage, no_image
from volcano.nodes.kubelet.kubelet import Kubelet
from volcano.nodes.kubelet.machine import MachineInfo
from volcano.nodes.kubelet.options import KubeletOptions

MACHINE = MachineInfo(
    millicores=4000,
    memory=8 << 30,
    storage=100 << 30,
    gpus=(),
    address="192.0.2.7",
    architecture="amd64",
    kernel="6.1",
    system="Test Linux",
    machine_id="m",
    boot_id="b",
)
TIMEOUT = 5.0  # real seconds


class InlineExecutor(ThreadPoolExecutor):
    """Runs work inline instead of in threads, which a virtual clock does not wait for."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **rest: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **rest))
        except BaseException as error:
            done.set_exception(error)
        return done


class KubeletBench:
    """A kubelet with its cluster and runtime."""

    def __init__(self, cluster: SmallCluster, runtime: FakeRuntime, directory: Path, **choices: Any) -> None:
        self.cluster = cluster
        self.runtime = runtime
        self.machine: MachineInfo = choices.pop("machine", MACHINE)
        self.gpu_reader: GpuReader | None = choices.pop("gpu_reader", None)
        self.cpus: Mapping[int, Cpu] | None = choices.pop("cpus", None)
        self.find_image: FindImage = choices.pop("find_image", no_image)
        self.options = KubeletOptions(directory, **{"status_delay": 0.0, **choices})
        self.kubelet: Kubelet
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Starts the kubelet, or another one in its place."""
        ready = asyncio.Event()
        self.kubelet = Kubelet(
            self.options,
            self.runtime,
            self.cluster.client,
            self.cluster.clock,
            on_ready=ready.set,
            machine=self.machine,
            gpu_reader=self.gpu_reader,
            cpus=self.cpus,
            find_image=self.find_image,
        )
        self._task = asyncio.create_task(self.kubelet.run())
        await self.until(lambda: ready.is_set() or (self._task is not None and self._task.done()))
        if self._task.done():
            await self._task
        await self.cluster.rest()

    async def stop(self) -> None:
        """Stops the kubelet as a crash would; pods keep running."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, true: Callable[[], object]) -> None:
        """Waits for a condition without advancing the clock."""
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while not true():
            assert asyncio.get_running_loop().time() < deadline, "it does not come true"
            await asyncio.sleep(0.002)

    async def settle(self) -> None:
        """Waits until all tasks are idle, without advancing the clock."""
        await self.cluster.rest()
        await self.cluster.rest()

    async def create(self, name: str = "p", **fields: Any) -> Manifest:
        metadata = fields.pop("metadata", {})
        made = await self.cluster.create(POD, name, metadata=metadata, spec={**spec(), **fields})
        await self.settle()
        return made

    async def pod(self, name: str = "p") -> Manifest:
        return await self.cluster.get(POD, name)

    async def status(self, name: str = "p") -> Manifest:
        status: Manifest = (await self.pod(name))["status"]
        return status

    async def container(self, name: str = "c", pod: str = "p") -> Manifest:
        status = await self.status(pod)
        entries = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        entry: Manifest = next(each for each in entries if each["name"] == name)
        return entry

    async def end(self, container: str, code: int = 0, reason: str = "") -> None:
        self.runtime.end(container, code, reason)
        await self.settle()

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        while seconds > 0:
            self.cluster.clock.advance(min(step, seconds))
            seconds -= step
            await self.settle()

    async def events(self, reason: str = "") -> list[str]:
        await self.settle()
        return [
            event["message"]
            for event in await self.cluster.all(EVENT)
            if not reason or event["reason"] == reason
        ]

    async def reasons(self) -> list[str]:
        events = await self.cluster.all(EVENT)
        return [
            event["reason"]
            for event in sorted(events, key=lambda each: int(each["metadata"]["name"].rpartition(".")[2], 16))
        ]


@asynccontextmanager
async def bench(**choices: Any) -> AsyncIterator[KubeletBench]:
    features = choices.pop("features", {})
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    with tempfile.TemporaryDirectory() as folder:
        async with SmallCluster() as cluster:
            await cluster.create(SERVICE_ACCOUNT, "default")
            made = KubeletBench(cluster, FakeRuntime(cluster.clock, **features), Path(folder), **choices)
            await made.begin()
            try:
                yield made
            finally:
                await made.stop()


def container(name: str = "c", **fields: Any) -> Manifest:
    return {"name": name, "image": "busybox", "command": ["run"], **fields}


def spec(*containers: Manifest, **fields: Any) -> Manifest:
    return {
        "nodeName": "local-0",
        "automountServiceAccountToken": False,
        "containers": list(containers) or [container()],
        **fields,
    }
