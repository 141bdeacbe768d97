"""Pod sandboxes on an engine: the pause container, and the hosts and resolv.conf files of the pod."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from volcano.base.log import Log
from volcano.nodes.runtimes.engine import capability_probe, commands
from volcano.nodes.runtimes.engine.cli import EngineCLI
from volcano.nodes.runtimes.engine.commands import ClusterRef, EngineCapabilities, EngineProfile
from volcano.nodes.runtimes.engine.container_inspect import InspectedContainer, parse_inspect
from volcano.nodes.runtimes.engine.hosts_files import PodSandbox, hosts_text, resolv_text, write_in_place
from volcano.nodes.runtimes.engine.pause_image import IMAGE
from volcano.nodes.shim import wire
from volcano.nodes.shim.specs import ContainerSpec, Failure, Mount, SandboxSpec, SandboxState

SHARED_MEMORY = Path("/dev/shm")
_SPEC, _HOSTS, _RESOLV = "engine.json", "hosts", "resolv.conf"
_IN_USE = ("already in use", "already exists")
_log = Log("nodes.engine")


def memory_directory(cluster: str) -> Path:
    """Directory of the memory-backed volumes of a cluster."""
    return SHARED_MEMORY / f"volcano-{cluster}"


class Sandboxes:
    """All pod sandboxes of this cluster."""

    def __init__(self, engine: EngineCLI, profile: EngineProfile, cluster: ClusterRef) -> None:
        self._capabilities = EngineCapabilities()
        self._unserved: set[str] = set()  # name servers of specs at which nothing listens
        self._engine = engine
        self._profile = profile
        self._cluster = cluster
        self._pods: dict[str, PodSandbox] = {}
        self._pids: dict[str, int] = {}

    @property
    def capabilities(self) -> EngineCapabilities:
        return self._capabilities

    async def probe(self) -> None:
        """Probes the engine; to be awaited before the first sandbox is created."""
        self._capabilities = await capability_probe.probe_capabilities(
            self._engine, self._profile, self._cluster
        )

    def exclude_name_server(self, address: str) -> None:
        """Removes a name server from the resolv.conf of sandboxes created from now on."""
        self._unserved.add(address)

    def find(self, pod: str) -> PodSandbox | None:
        return self._pods.get(pod)

    def pid(self, pod: str) -> int:
        """Pid of the pause container's process."""
        return self._pids.get(pod, 0)

    def adopt(self, found: Iterable[InspectedContainer]) -> list[SandboxState]:
        """Adopts running sandboxes of an earlier process."""
        for each in found:
            path = Path(each.labels.get(commands.DIRECTORY, ""), "sandbox", _SPEC)
            if not each.running:
                continue
            try:
                spec = wire.sandbox_spec(json.loads(path.read_text()))
            except (OSError, ValueError, TypeError, KeyError) as error:
                _log.warning("sandbox not adopted", pod=each.pod, error=error)
                continue
            self._add(spec, each)
        self._write_hosts_files()
        return [self._state(pod_sandbox) for pod_sandbox in self._pods.values()]

    async def create(self, spec: SandboxSpec) -> SandboxState:
        pod_sandbox = self._pods.get(spec.uid)
        if pod_sandbox is not None:
            return self._state(pod_sandbox)
        return await self.recreate(spec)

    async def recreate(self, spec: SandboxSpec) -> SandboxState:
        """Creates a sandbox; an existing one is removed."""
        command = commands.create_sandbox(self._profile, self._cluster, self._capabilities, spec, IMAGE)
        created = await self._engine.call(*command)
        if not created.ok and any(text in created.error for text in _IN_USE):
            await self.remove_containers(spec.uid)
            created = await self._engine.call(*command)
        name = commands.sandbox_name(self._cluster, spec.uid)
        started = await self._engine.call("start", name) if created.ok else created
        found = await self._engine.inspect(name) if started.ok else []
        if not found:
            await self.remove_containers(spec.uid)
            raise Failure("FailedCreatePodSandBox", started.error or f"container {name} is gone")
        self._write(spec)
        pod_sandbox = self._add(spec, parse_inspect(found[0]))
        self._write_hosts_files()
        return self._state(pod_sandbox)

    async def remove(self, pod: str) -> None:
        await self.remove_containers(pod)
        self._pids.pop(pod, None)
        pod_sandbox = self._pods.pop(pod, None)
        shutil.rmtree(memory_directory(self._cluster.id) / pod, ignore_errors=True)
        if pod_sandbox is not None:
            shutil.rmtree(Path(pod_sandbox.spec.directory, "sandbox"), ignore_errors=True)
            self._write_hosts_files()

    async def remove_containers(self, pod: str) -> None:
        """Removes the containers of a pod, then its sandbox, whose namespaces they join."""
        labels = (f"{commands.POD_UID}={pod}", f"{commands.PART}={commands.CONTAINER_PART}")
        listed = await self._engine.call("ps", "-aq", "--no-trunc", *self._cluster.filters(*labels))
        if not listed.ok:
            raise Failure("FailedKillPod", listed.error)
        for some in (listed.text.split(), [commands.sandbox_name(self._cluster, pod)]):
            remove = ("rm", "--force", "--volumes", *self._profile.remove_options)
            result = await self._engine.call(*remove, *some) if some else None
            if result is not None and not result.ok and not result.not_found:
                raise Failure("FailedKillPod", result.error)

    def mounts(self, spec: ContainerSpec) -> list[Mount]:
        """Returns the mounts of a container: its volumes, and the pod's hosts and resolv.conf."""
        sandbox = self._pods[spec.pod].spec
        mounts = [self._with_memory_backing(spec.pod, mount) for mount in spec.mounts]
        targets = {mount.target for mount in mounts}
        for name in (_HOSTS, _RESOLV):
            path = Path(sandbox.directory, "sandbox", name)
            if f"/etc/{name}" not in targets and path.exists():
                mounts.append(Mount(str(path), f"/etc/{name}"))
        return mounts

    def _with_memory_backing(self, pod: str, mount: Mount) -> Mount:
        """Replaces a memory-backed volume by a directory in /dev/shm: containers would not share a tmpfs mount."""
        if not mount.memory or not SHARED_MEMORY.is_dir():
            return mount
        top = memory_directory(self._cluster.id)
        top.mkdir(mode=0o711, exist_ok=True)
        inside = mount.source.strip("/").replace("/", "_")
        directory = top / pod / inside[-200:]
        if not directory.exists():
            directory.mkdir(parents=True)
            with contextlib.suppress(OSError):
                like = os.stat(mount.source)
                os.chmod(directory, like.st_mode & 0o7777)
                os.chown(directory, like.st_uid, like.st_gid)
        return dataclasses.replace(mount, source=str(directory), memory=False)

    def _add(self, spec: SandboxSpec, found: InspectedContainer) -> PodSandbox:
        address = found.address or (spec.host_address if spec.host_network else "")
        pod_sandbox = self._pods[spec.uid] = PodSandbox(spec, address)
        self._pids[spec.uid] = found.pid
        return pod_sandbox

    def _write(self, spec: SandboxSpec) -> None:
        directory = Path(spec.directory, "sandbox")
        write_in_place(directory / _SPEC, json.dumps(wire.to_json(spec)))
        if resolv := resolv_text(spec.resolv_conf, self._unserved):
            write_in_place(directory / _RESOLV, resolv)

    def _write_hosts_files(self) -> None:
        """Writes the names of all pods into the hosts file of each."""
        pods = list(self._pods.values())
        others = [each for each in pods if not each.spec.host_network or each.address]
        for each in pods:
            path = Path(each.spec.directory, "sandbox", _HOSTS)
            try:
                write_in_place(path, hosts_text(each, others))
            except OSError as error:
                _log.warning("hosts file not written", path=path, error=error)

    @staticmethod
    def _state(pod_sandbox: PodSandbox) -> SandboxState:
        spec: Mapping[str, str] = {
            name: getattr(pod_sandbox.spec, name)
            for name in ("uid", "namespace", "name", "node", "directory")
        }
        address = "" if pod_sandbox.spec.host_network else pod_sandbox.address
        return SandboxState(**spec, address=address)
