"""The kubelet with real processes: a shim in plain mode, which needs no namespaces and no privileges."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cluster import SmallCluster
from tests.nodes.kubelet.pods.bench import container, spec
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import CONFIG_MAP, EVENT, POD, SERVICE_ACCOUNT
from volcano.kube.api.manifest import Key, Manifest, condition_of
from volcano.nodes.kubelet.kubelet import Kubelet
from volcano.nodes.kubelet.options import CONTAINERS, KubeletOptions
from volcano.nodes.runtimes.process import ProcessRuntime
from volcano.nodes.shim.specs import Mode

TIMEOUT = 20.0
LIMITED = {"resources": {"limits": {"ephemeral-storage": "2Mi"}}}


class Host:
    """A cluster in memory and this host as its node."""

    def __init__(self, cluster: SmallCluster, directory: Path, mode: Mode = Mode.PLAIN) -> None:
        self.cluster = cluster
        self._mode = mode
        self.options = KubeletOptions(directory, host_address="127.0.0.1", measure_interval=0.2)
        self.kubelet: Kubelet
        self.runtime: ProcessRuntime
        self._task: asyncio.Task[None]

    async def begin(self) -> None:
        ready = asyncio.Event()
        self.runtime = runtime = ProcessRuntime(self.options.directory, self._mode)
        self.kubelet = Kubelet(self.options, runtime, self.cluster.client, SystemClock(), on_ready=ready.set)
        self._task = asyncio.create_task(self.kubelet.run())
        await asyncio.wait(
            {self._task, waiting := asyncio.create_task(ready.wait())}, return_when="FIRST_COMPLETED"
        )
        waiting.cancel()
        if self._task.done():
            await self._task

    async def stop(self, *, keep: bool) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.kubelet.close(keep=keep)

    async def create(self, name: str, script: str, **fields: Any) -> Manifest:
        own = container(**{"command": ["sh", "-c", script], **fields.pop("container", {})})
        return await self.cluster.client.create(
            POD,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec(own, **fields),
            },
        )

    async def until(self, name: str, true: Callable[[Manifest], object]) -> Manifest:
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while True:
            pod = await self.cluster.get(POD, name)
            if true(pod):
                return pod
            assert asyncio.get_running_loop().time() < deadline, f"never came true: {pod.get('status')}"
            await asyncio.sleep(0.02)

    async def ended(self, name: str) -> Manifest:
        """The pod once it has ended."""
        return await self.until(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"))

    async def running(self, name: str) -> Manifest:
        return await self.until(name, lambda pod: pod["status"]["phase"] == "Running")

    def log(self, pod: Manifest) -> str:
        raw = self.options.log_path(pod["metadata"]["uid"], "c", 0).read_text()
        return "".join(line.split(" ", 3)[3] + "\n" for line in raw.splitlines())


@asynccontextmanager
async def host(mode: Mode = Mode.PLAIN) -> AsyncIterator[Host]:
    folder = tempfile.mkdtemp(prefix="volcano-kubelet-")
    try:
        async with SmallCluster() as cluster:
            await cluster.create(SERVICE_ACCOUNT, "default")
            made = Host(cluster, Path(folder), mode)
            await made.begin()
            try:
                yield made
            finally:
                await made.stop(keep=False)
                left = [path for path in Path(folder).glob("pods/*/*") if path.name != CONTAINERS]
                left += [path for path in Path(folder).glob("pods/*/*/*/*") if ".log" not in path.name]
        assert left == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def terminated(pod: Manifest) -> Manifest:
    state: Manifest = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


async def test_a_pod_runs_reports_and_succeeds() -> None:
    async with host() as it:
        await it.cluster.client.create(
            CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "words", "namespace": "default"},
                "data": {"greeting": "hello"},
            },
        )
        env = [
            {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "greeting"}}},
            {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
        await it.create("p", 'echo "$WORD from $ME"', container={"env": env}, restartPolicy="Never")
        pod = await it.ended("p")
        assert pod["status"]["phase"] == "Succeeded"
        assert it.log(pod) == "hello from p\n"
        assert terminated(pod)["reason"] == "Completed"
        events = await it.cluster.all(EVENT)
        assert {"Pulled", "Created", "Started"} <= {event["reason"] for event in events}


async def test_failures_have_the_reasons_of_a_kubelet() -> None:
    async with host() as it:
        await it.create("code", "exit 42", restartPolicy="Never")
        await it.create("missing", "", container={"command": ["/no/such/program"]}, restartPolicy="Never")
        own = {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x"}}}]}
        await it.create("secret", "true", container=own, restartPolicy="Never")
        words = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await it.create("words", "echo it broke; exit 1", container=words, restartPolicy="Never")
        assert terminated(await it.ended("code"))["exitCode"] == 42
        missing = terminated(await it.ended("missing"))
        assert (missing["exitCode"], missing["reason"]) == (128, "StartError")
        assert terminated(await it.ended("words"))["message"] == "it broke\n"
        waiting = await it.until(
            "secret",
            lambda pod: (
                (pod["status"].get("containerStatuses") or [{}])[0]
                .get("state", {})
                .get("waiting", {})
                .get("message")
            ),
        )
        reason = waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
        assert reason == "CreateContainerConfigError"


async def test_a_deleted_pod_leaves_nothing() -> None:
    async with host() as it:
        pod = await it.create("p", "trap 'exit 0' TERM; while true; do sleep 0.05; done")
        await it.running("p")
        await it.cluster.client.delete(POD, Key("default", "p"))
        deadline = asyncio.get_running_loop().time() + TIMEOUT
        while await it.cluster.names(POD) or it.options.pod_directory(pod["metadata"]["uid"]).exists():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)


async def test_probes_and_hooks_are_run_inside() -> None:
    async with host() as it:
        probe = {"exec": {"command": ["sh", "-c", "test -e $HOME/up"]}, "periodSeconds": 1}
        hook = {"postStart": {"exec": {"command": ["sh", "-c", "touch $HOME/up"]}}}
        await it.create("p", "sleep 60", container={"readinessProbe": probe, "lifecycle": hook})
        pod = await it.until("p", lambda pod: (condition_of(pod, "Ready") or {}).get("status") == "True")
        assert pod["status"]["containerStatuses"][0]["ready"] is True


async def test_a_restarted_kubelet_adopts_running_containers_and_handles_exits() -> None:
    async with host() as it:
        await it.create("stays", "sleep 60")
        await it.create("ends", "sleep 0.3; exit 7", restartPolicy="Never")
        before = await it.running("stays")
        await it.running("ends")
        await it.stop(keep=True)
        await asyncio.sleep(0.5)
        await it.begin()
        ended = await it.ended("ends")
        assert terminated(ended)["exitCode"] == 7
        after = await it.cluster.get(POD, "stays")
        assert after["status"]["phase"] == "Running"
        for field in ("containerID", "restartCount", "state"):
            assert (
                after["status"]["containerStatuses"][0][field]
                == before["status"]["containerStatuses"][0][field]
            )


async def test_pods_restart_when_their_shim_is_killed() -> None:
    async with host() as it:
        await it.create("again", "sleep 60")
        await it.create("once", "sleep 60", restartPolicy="Never")
        await it.running("again")
        await it.running("once")
        os.kill(it.runtime.pid, signal.SIGKILL)
        once = await it.ended("once")
        assert once["status"]["phase"] == "Failed"
        assert (terminated(once)["reason"], terminated(once)["exitCode"]) == ("ContainerStatusUnknown", 137)
        again = await it.until(
            "again",
            lambda pod: (
                pod["status"]["containerStatuses"][0]["state"].get("running")
                and pod["status"]["containerStatuses"][0]["restartCount"]
            ),
        )
        entry = again["status"]["containerStatuses"][0]
        assert entry["restartCount"] == 1
        assert entry["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_pod_that_writes_more_than_it_may_is_evicted() -> None:
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}
    mounts = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    script = "head -c 3145728 /dev/urandom >/scratch/x; sync /scratch/x; exec sleep 60"
    async with host() as it:
        await it.create("p", script, container=mounts, volumes=[volume])
        status = (await it.ended("p"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert status["message"] == 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '
        await it.create("q", script.replace("/scratch", "$VOLCANO_ROOT"), container=LIMITED)
        status = (await it.ended("q"))["status"]
        assert "total limit of containers 2Mi" in status["message"]
        assert len([e for e in await it.cluster.all(EVENT) if e["reason"] == "Evicted"]) == 2
