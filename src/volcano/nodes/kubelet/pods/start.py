"""Brings a pod's sandbox and containers into being: fetches what they refer to, and hands the runtime their specs."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volcano.kube.manifest import Manifest, key_of, uid_of
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.devices import device_environment, device_mounts
from volcano.nodes.kubelet.environment.environment import command_of, environment
from volcano.nodes.kubelet.environment.references import References, gather
from volcano.nodes.kubelet.pods.context import Surroundings
from volcano.nodes.kubelet.pods.lifecycle import Record
from volcano.nodes.kubelet.pods.pod_resources import amounts
from volcano.nodes.kubelet.pods.sandboxes import sandbox_spec
from volcano.nodes.kubelet.pods.security import identity_of, security_of
from volcano.nodes.kubelet.pods.termination_message import DEFAULT_PATH, make_room
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Mount

KEPT_ATTEMPTS = 2  # the latest start and the one before keep their logs
_OF_IMAGES = frozenset(("HOME", "PATH"))
NOT_PULLED = "is not pulled: the pod runs this host's programs"


class Starter:
    """Starts the containers of one pod."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._references: References | None = None
        self._told = False

    async def prepare(self, pod: Manifest, record: Record) -> str:
        """Makes the volumes and the sandbox of a pod; returns its address."""
        around = self._around
        directory = around.settings.pod_directory(uid_of(pod))
        directory.mkdir(parents=True, exist_ok=True)
        self._references = await gather(around.client, pod)
        facts = around.facts(pod, record)
        await around.volumes.prepare(pod, directory, self._references, facts)
        spec = sandbox_spec(pod, facts, around.settings, around.host)
        sandbox = await around.runtime.create_sandbox(spec)
        return around.host_address if spec.host_network else sandbox.address

    async def start(
        self, pod: Manifest, record: Record, container: Container, attempt: int
    ) -> ContainerState:
        """Starts a container. What it refers to is fetched afresh unless the pod was prepared just now."""
        references, self._references = self._references or await gather(self._around.client, pod), None
        await self.know_volumes(pod, record, references)
        spec = self._spec(pod, record, container, attempt, references)
        self._make_room(spec)
        self._tell(pod, container)
        begun = await self._around.runtime.start(spec)
        if self._around.runtime.features.pulls_images:
            text = f'Container image "{spec.image}" is on this machine'
            about = self._around.about(pod, container)
            self._around.events.normal(pod["spec"]["nodeName"], about, "Pulled", text)
        return begun

    async def know_volumes(self, pod: Manifest, record: Record, references: References | None = None) -> None:
        """A pod that was here before us has its volumes, but we do not know them yet."""
        around, uid = self._around, uid_of(pod)
        if pod["spec"].get("volumes") and not around.volumes.volumes_of(uid):
            references = references or await gather(around.client, pod)
            directory = around.settings.pod_directory(uid)
            await around.volumes.prepare(pod, directory, references, around.facts(pod, record))

    def _spec(
        self, pod: Manifest, record: Record, container: Container, attempt: int, references: References
    ) -> ContainerSpec:
        around, uid, spec = self._around, uid_of(pod), container.spec
        facts, images = around.facts(pod, record), around.runtime.features.pulls_images
        variables = environment(
            pod,
            spec,
            references,
            facts,
            program_path="" if images else around.program_path,
            volume_paths=around.volumes.paths_of(uid),
            api=around.settings.api,
        )
        silent = images and not spec.get("command") and not spec.get("args")
        command = () if silent else command_of(spec, variables, pod=str(key_of(pod)))
        if images:
            variables = _beyond_image(spec, variables)
        gpus = around.devices.take(facts.node_name, uid, spec)
        words = around.settings.termination_path(uid, container.name, attempt)
        mounts = (
            *around.volumes.mounts(pod, spec, variables),
            Mount(str(words), spec.get("terminationMessagePath") or DEFAULT_PATH),
            *device_mounts(gpus),
        )
        return ContainerSpec(
            pod=uid,
            name=container.name,
            attempt=attempt,
            image=spec.get("image") or "",
            command=command,
            environment=variables | device_environment(gpus),
            working_directory=spec.get("workingDir") or "",
            mounts=mounts,
            identity=identity_of(pod, spec, around.default_user),
            security=security_of(spec),
            **_limits(spec),
            stdin=bool(spec.get("stdin")),
            stdin_once=bool(spec.get("stdinOnce")),
            tty=bool(spec.get("tty")),
            log_path=str(around.settings.log_path(uid, container.name, attempt)),
            own_entrypoint=bool(spec.get("command")) or not images,
            pull_policy=spec.get("imagePullPolicy") or "",
        )

    def _make_room(self, spec: ContainerSpec) -> None:
        """The files that a start needs; those of starts long ago go."""
        settings = self._around.settings
        make_room(settings.termination_path(spec.pod, spec.name, spec.attempt))
        old = spec.attempt - KEPT_ATTEMPTS
        if old >= 0:
            log = settings.log_path(spec.pod, spec.name, old)
            for path in (
                *log.parent.glob(f"{log.name}*"),
                settings.termination_path(spec.pod, spec.name, old),
            ):
                _remove(path)

    def _tell(self, pod: Manifest, container: Container) -> None:
        """Says once what a pod cannot have here."""
        if self._told:
            return
        self._told = True
        around, features, node = self._around, self._around.runtime.features, pod["spec"]["nodeName"]
        if not features.pulls_images:
            text = f'Container image "{container.spec.get("image", "")}" {NOT_PULLED}'
            around.events.normal(node, around.about(pod, container), "Pulled", text)
        if features.limitations:
            around.events.normal(node, around.about(pod), "LimitedRuntime", " ".join(features.limitations))


def _beyond_image(container: Mapping[str, Any], variables: dict[str, str]) -> dict[str, str]:
    """Without what only stands in for an image: its own PATH and HOME are the right ones, unless the pod names them."""
    named = {variable["name"] for variable in container.get("env") or ()}
    return {name: value for name, value in variables.items() if name not in _OF_IMAGES or name in named}


def _limits(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = container.get("resources") or {}
    requests, limits = amounts(resources.get("requests")), amounts(resources.get("limits"))
    return {
        "cpu_request": requests.get("cpu", 0.0) / 1000,
        "cpu_limit": limits.get("cpu", 0.0) / 1000,
        "memory_limit": int(limits.get("memory", 0.0)),
    }


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
