"""Pods with real processes in a plain shim, and the statuses that a kubelet would write for them."""

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from volcano.base.clock import SystemClock, timestamp
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.nodes.kubelet.logs.logs import PodLogs
from volcano.nodes.kubelet.streams.streams import PodStreams
from volcano.nodes.runtimes.process import ProcessRuntime
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Mode, SandboxSpec

NODE = "local-0"
PYTHON = sys.executable

Publish = Callable[[Manifest], Awaitable[None]]


class Stage:
    """A shim and its pods. `publish` is called with every changed pod."""

    def __init__(self, directory: Path, *, log_size: int = 10 << 20) -> None:
        self.directory = directory
        self.runtime = ProcessRuntime(directory, Mode.PLAIN, lifeline=True, log_size=log_size)
        self.publish: Publish | None = None
        self._pods: dict[Key, Manifest] = {}
        self._publishing: set[asyncio.Task[None]] = set()
        self.logs = PodLogs(directory / "pods", self._pods.get, SystemClock())
        self.streams = PodStreams(self.runtime, SystemClock())

    async def open(self) -> None:
        self.runtime.on_change(self._ended)
        await self.runtime.open()

    async def close(self) -> None:
        await self.runtime.close(keep=False)

    async def pod(self, pod: Manifest) -> Manifest:
        """Gives a pod its sandbox; its containers wait to be started."""
        pod["metadata"].setdefault("uid", str(uuid.uuid4()))
        directory = str(self.directory / "pods" / uid_of(pod))
        key = key_of(pod)
        await self.runtime.create_sandbox(
            SandboxSpec(uid_of(pod), key.namespace, key.name, NODE, directory, key.name)
        )
        statuses = [_status(container["name"]) for container in pod["spec"]["containers"]]
        pod["status"] = {"phase": "Running", "containerStatuses": statuses}
        self._pods[key] = pod
        await self._report_limitations(pod)
        return pod

    async def start(self, pod: Manifest, *command: str, container: str = "main", **rest: Any) -> None:
        """Starts a container, or starts it again."""
        status = self.status(pod, container)
        state = status["state"]
        if "terminated" in state:
            status.update(restartCount=status["restartCount"] + 1, lastState=state)
        attempt = status["restartCount"]
        path = self.directory / "pods" / uid_of(pod) / "containers" / container / f"{attempt}.log"
        began = await self.runtime.start(
            ContainerSpec(uid_of(pod), container, attempt, "image", command, log_path=str(path), **rest)
        )
        status["state"] = {"running": {"startedAt": timestamp(began.started)}}
        await self._report_limitations(pod)

    async def run(self, name: str, *command: str, container: str = "main", **rest: Any) -> Manifest:
        """A pod of one container that runs `command`."""
        pod = await self.pod(pod_of(name, container))
        await self.start(pod, *command, container=container, **rest)
        return pod

    async def ended(self, pod: Manifest, container: str = "main") -> None:
        async with asyncio.timeout(20):
            while "terminated" not in self.status(pod, container)["state"]:
                await asyncio.sleep(0.01)

    def remove(self, pod: Manifest) -> None:
        """Removes the pod from the index."""
        del self._pods[key_of(pod)]

    def status(self, pod: Manifest, container: str = "main") -> dict[str, Any]:
        found: dict[str, Any] = next(
            status for status in pod["status"]["containerStatuses"] if status["name"] == container
        )
        return found

    def _ended(self, state: ContainerState) -> None:
        pod = next((pod for pod in self._pods.values() if uid_of(pod) == state.pod), None)
        if pod is None:
            return
        times = {"startedAt": timestamp(state.started), "finishedAt": timestamp(state.finished)}
        ended = {"exitCode": state.exit_code, "reason": state.reason, "containerID": "c", **times}
        self.status(pod, state.name)["state"] = {"terminated": ended}
        task = asyncio.get_running_loop().create_task(self._report_limitations(pod))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _report_limitations(self, pod: Manifest) -> None:
        if self.publish is not None:
            await self.publish(pod)


def pod_of(name: str, *containers: str, **labels: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": each, "image": "image"} for each in containers or ("main",)],
        },
    }


def _status(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "image",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "lastState": {},
    }
