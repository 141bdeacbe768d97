"""CPUs of the nodes of this host: given to pods, kept over a restart, and published as Numatopologies."""

import asyncio
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import AlreadyExists, ApiError, NotFound
from volcano.kube.api.kinds import NODE, NUMATOPOLOGY
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import perform
from volcano.kube.client.protocol import Client
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.assignment import NONE
from volcano.kube.devices.numa.layout import Cpu, layout_of
from volcano.kube.devices.numa.topology import NumaTopology, PodCpus, parse
from volcano.nodes.cpu_manager import CpuManager, CpuRejection
from volcano.nodes.kubelet.cpu_layout import divided
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.numatopology import write

log = Log("kubelet")

STATE_FILE = "cpu_manager_state"
BACKOFF = Backoff(first=1.0, longest=30.0)


class LocalCpus:
    """CPU managers of the nodes of one host. Changes are saved before they take effect, and published by `run`."""

    def __init__(self, options: KubeletOptions, cpus: Mapping[int, Cpu]) -> None:
        parts = divided(cpus, len(options.node_names))
        self._managers = {
            name: CpuManager(
                name,
                layout_of(part),
                options.cpu_manager_policy if part else NONE,
                options.topology_manager_policy,
            )
            for name, part in zip(options.node_names, parts, strict=True)
        }
        self._path = options.directory / STATE_FILE
        self._changed = asyncio.Event()
        self._changed.set()
        self._restore()

    def admit(self, pod: Manifest) -> CpuRejection | None:
        """Gives a pod its CPUs, or returns why it is rejected."""
        manager = self._managers[pod["spec"]["nodeName"]]
        before = manager.shared
        rejection = manager.admit(pod)
        if manager.shared != before:
            self._save()
        return rejection

    def cpus_of(self, node: str, uid: str, container: str) -> tuple[int, ...]:
        """CPUs of a container; empty when it uses the shared ones."""
        return tuple(cpusets.members(self._managers[node].cpus_of(uid).get(container, 0)))

    def release(self, node: str, uid: str) -> None:
        """Frees the CPUs of a pod that has ended."""
        if self._managers[node].release(uid):
            self._save()

    def release_others(self, uids: Collection[str]) -> None:
        """Frees the CPUs of all pods but these."""
        before = [manager.shared for manager in self._managers.values()]
        for manager in self._managers.values():
            manager.release_others(uids)
        if before != [manager.shared for manager in self._managers.values()]:
            self._save()

    # State file.

    def _save(self) -> None:
        """Replaces the file atomically; if the disk is full, pods keep their CPUs until the kubelet is restarted."""
        self._changed.set()
        content = {
            name: {
                "policyName": manager.cpu_manager,
                "defaultCpuSet": cpusets.text_of(manager.shared),
                "entries": {
                    pod.uid: {
                        "namespace": pod.namespace,
                        "name": pod.name,
                        "cpus": {each: cpusets.text_of(cpus) for each, cpus in pod.containers.items()},
                    }
                    for pod in manager.topology().pods
                },
            }
            for name, manager in self._managers.items()
        }
        try:
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(content))
            os.replace(fresh, self._path)
        except OSError as error:
            log.warning("cpu manager state not saved", file=self._path, reason=str(error))

    def _restore(self) -> None:
        """Takes over the saved CPUs; those that the node no longer has are given up."""
        for name, manager in self._managers.items():
            for pod in _saved_pods(self._path, name):
                if manager.cpu_manager != NONE and not pod.all_cpus & ~manager.shared:
                    manager.restore(pod)

    # Numatopologies.

    async def run(self, client: Client, clock: Clock, nodes: Mapping[str, Manifest]) -> None:
        """Publishes the CPUs of the registered nodes, now and after each change, until cancelled."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            for name, node in nodes.items():
                try:
                    await self._publish(client, clock, name, node)
                    failures = 0
                except ApiError as error:
                    log.warning("numatopology not published, retrying", node=name, reason=error.message)
                    self._changed.set()
                    await clock.sleep(BACKOFF.delay(failures))
                    failures += 1

    async def _publish(self, client: Client, clock: Clock, name: str, node: Manifest) -> None:
        published = await _published(client, name)
        if published is None and not await _exists(client, name):
            return  # the node was deleted; as in the kubelet, it is registered again only after a restart
        wanted = write(self._managers[name].topology(), published, node, clock.now())
        if wanted is not None:
            try:
                await perform(client, wanted)
            except (AlreadyExists, NotFound):
                self._changed.set()  # created or deleted meanwhile


async def _published(client: Client, name: str) -> NumaTopology | None:
    try:
        return parse(await client.get(NUMATOPOLOGY, Key("", name)))
    except NotFound:
        return None
    except (ValueError, TypeError, AttributeError):
        return NumaTopology(name, layout_of({}))  # edited by hand; overwritten


async def _exists(client: Client, node: str) -> bool:
    try:
        await client.get(NODE, Key("", node))
    except NotFound:
        return False
    return True


def _saved_pods(path: Path, node: str) -> list[PodCpus]:
    """Pods of a node in the state file; none if it is missing or cannot be read."""
    try:
        entries: Mapping[str, Any] = json.loads(path.read_text())[node]["entries"]
        return [
            PodCpus(
                uid,
                str(entry["namespace"]),
                str(entry["name"]),
                {each: cpusets.parse(cpus) for each, cpus in entry["cpus"].items()},
            )
            for uid, entry in entries.items()
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
