"""Pods of an engine: a container that holds what theirs share, and the files that each of those is given."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from volcano.log import Log
from volcano.nodes.runtimes.engine import commands as commands
from volcano.nodes.runtimes.engine.calls import Engine
from volcano.nodes.runtimes.engine.commands import Abilities, Belonging, Flavour
from volcano.nodes.runtimes.engine.hosts_files import Resident, hosts_text, resolv_text, write_in_place
from volcano.nodes.runtimes.engine.pause_image import IMAGE
from volcano.nodes.runtimes.engine.records import Known, known
from volcano.nodes.shim import wire
from volcano.nodes.shim.specs import ContainerSpec, Failure, Mount, SandboxSpec, SandboxState

MEMORY = Path("/dev/shm")
_SPEC, _HOSTS, _RESOLV = "engine.json", "hosts", "resolv.conf"
_IN_USE = ("already in use", "already exists")
_log = Log("nodes.engine")


def memory_of(cluster: str) -> Path:
    """Where the memory-backed volumes of a cluster are."""
    return MEMORY / f"volcano-{cluster}"


class Sandboxes:
    """Every pod that an engine has for us."""

    def __init__(self, engine: Engine, flavour: Flavour, belonging: Belonging) -> None:
        self.able = Abilities()
        self.unserved: set[str] = set()  # addresses that pods were promised a server at, in vain
        self._engine = engine
        self._flavour = flavour
        self._belonging = belonging
        self._residents: dict[str, Resident] = {}
        self._pids: dict[str, int] = {}

    def find(self, pod: str) -> Resident | None:
        return self._residents.get(pod)

    def pid(self, pod: str) -> int:
        """The process that holds the pod's network."""
        return self._pids.get(pod, 0)

    def adopt(self, found: Iterable[Known]) -> list[SandboxState]:
        """Takes over those of an earlier process that still hold their namespaces."""
        for each in found:
            path = Path(each.labels.get(commands.DIRECTORY, ""), "sandbox", _SPEC)
            if not each.running:
                continue
            try:
                spec = wire.sandbox_spec(json.loads(path.read_text()))
            except (OSError, ValueError, TypeError, KeyError) as error:
                _log.warning("pod not adopted", pod=each.pod, reason=str(error))
                continue
            self._settle(spec, each)
        self._tell_names()
        return [self._state(resident) for resident in self._residents.values()]

    async def create(self, spec: SandboxSpec) -> SandboxState:
        resident = self._residents.get(spec.uid)
        if resident is not None:
            return self._state(resident)
        return await self.create_anew(spec)

    async def create_anew(self, spec: SandboxSpec) -> SandboxState:
        """Whatever there was of it before is removed."""
        command = commands.create_sandbox(self._flavour, self._belonging, self.able, spec, IMAGE)
        made = await self._engine.call(*command)
        if not made.well and any(words in made.complaint for words in _IN_USE):
            await self.remove_containers(spec.uid)
            made = await self._engine.call(*command)
        name = commands.sandbox_name(self._belonging, spec.uid)
        started = await self._engine.call("start", name) if made.well else made
        found = await self._engine.inspect(name) if started.well else []
        if not found:
            await self.remove_containers(spec.uid)
            raise Failure("FailedCreatePodSandBox", started.complaint or f"container {name} is gone")
        self._write(spec)
        resident = self._settle(spec, known(found[0]))
        self._tell_names()
        return self._state(resident)

    async def remove(self, pod: str) -> None:
        await self.remove_containers(pod)
        self._pids.pop(pod, None)
        resident = self._residents.pop(pod, None)
        shutil.rmtree(memory_of(self._belonging.cluster) / pod, ignore_errors=True)
        if resident is not None:
            shutil.rmtree(Path(resident.spec.directory, "sandbox"), ignore_errors=True)
            self._tell_names()

    async def remove_containers(self, pod: str) -> None:
        """Ends everything of a pod; what joins its sandbox goes before that."""
        labels = (f"{commands.POD_UID}={pod}", f"{commands.PART}={commands.CONTAINER_PART}")
        listed = await self._engine.call("ps", "-aq", "--no-trunc", *self._belonging.filters(*labels))
        if not listed.well:
            raise Failure("FailedKillPod", listed.complaint)
        for some in (listed.text.split(), [commands.sandbox_name(self._belonging, pod)]):
            remove = ("rm", "--force", "--volumes", *self._flavour.removes)
            answer = await self._engine.call(*remove, *some) if some else None
            if answer is not None and not answer.well and not answer.about_nothing:
                raise Failure("FailedKillPod", answer.complaint)

    def mounts(self, spec: ContainerSpec) -> list[Mount]:
        """What a container sees of this host: its volumes, and the names its pod knows."""
        sandbox = self._residents[spec.pod].spec
        mounts = [self._backed(spec.pod, mount) for mount in spec.mounts]
        targets = {mount.target for mount in mounts}
        for name in (_HOSTS, _RESOLV):
            path = Path(sandbox.directory, "sandbox", name)
            if f"/etc/{name}" not in targets and path.exists():
                mounts.append(Mount(str(path), f"/etc/{name}"))
        return mounts

    def _backed(self, pod: str, mount: Mount) -> Mount:
        """A memory-backed volume is a directory of the host's shared memory: a tmpfs would be one container's own."""
        if not mount.memory or not MEMORY.is_dir():
            return mount
        top = memory_of(self._belonging.cluster)
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

    def _settle(self, spec: SandboxSpec, found: Known) -> Resident:
        address = found.address or (spec.host_address if spec.host_network else "")
        resident = self._residents[spec.uid] = Resident(spec, address)
        self._pids[spec.uid] = found.pid
        return resident

    def _write(self, spec: SandboxSpec) -> None:
        directory = Path(spec.directory, "sandbox")
        write_in_place(directory / _SPEC, json.dumps(wire.plain(spec)))
        if resolv := resolv_text(spec.resolv_conf, self.unserved):
            write_in_place(directory / _RESOLV, resolv)

    def _tell_names(self) -> None:
        """Every pod knows the names of all."""
        residents = list(self._residents.values())
        others = [each for each in residents if not each.spec.host_network or each.address]
        for each in residents:
            path = Path(each.spec.directory, "sandbox", _HOSTS)
            try:
                write_in_place(path, hosts_text(each, others))
            except OSError as error:
                _log.warning("names of pods not written", path=path, reason=str(error))

    @staticmethod
    def _state(resident: Resident) -> SandboxState:
        spec: Mapping[str, str] = {
            name: getattr(resident.spec, name) for name in ("uid", "namespace", "name", "node", "directory")
        }
        address = "" if resident.spec.host_network else resident.address
        return SandboxState(**spec, address=address)
