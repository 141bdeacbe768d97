"""Creates sandboxes and starts containers: fetches referenced objects and builds the specs for the runtime."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from volcano.kube.api.manifest import Manifest, uid_of
from volcano.kube.devices.vgpu import card_uuid
from volcano.nodes.image_mapping import ImageMapping
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.device_claims import claimed_devices, fetch_claims
from volcano.nodes.kubelet.devices import VISIBLE_VARIABLES, Allocation, device_environment
from volcano.nodes.kubelet.environment.environment import environment, own_command
from volcano.nodes.kubelet.environment.references import References, fetch_references
from volcano.nodes.kubelet.gpus.driver import gpu_access
from volcano.nodes.kubelet.gpus.sharing import sharing_containers
from volcano.nodes.kubelet.images import command_in_image, image_mounts
from volcano.nodes.kubelet.pods.context import PodWorkerContext
from volcano.nodes.kubelet.pods.lifecycle import PodState
from volcano.nodes.kubelet.pods.pod_resources import amounts
from volcano.nodes.kubelet.pods.sandboxes import sandbox_spec
from volcano.nodes.kubelet.pods.security import identity_of, security_of
from volcano.nodes.kubelet.pods.termination_message import DEFAULT_PATH, create_message_file
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Mount

LOGGED_ATTEMPTS = 2  # attempts of a container whose logs are kept
_IMAGE_VARIABLES = frozenset(("HOME", "PATH"))
NOT_PULLED = "is not pulled: the pod runs this host's programs"
MAPPED = "is not pulled: the pod runs the programs of this host that the image map names for it"
SHARES_ADVISORY = (
    "Memory and cores of shared GPUs are not enforced: programs are told their share by CUDA_DEVICE_MEMORY_LIMIT_0 "
    "and similar variables."
)


class Starter:
    """Starts the containers of one pod."""

    def __init__(self, context: PodWorkerContext) -> None:
        self._context = context
        self._references: References | None = None
        self._limitations_reported = False

    async def prepare(self, pod: Manifest, pod_state: PodState) -> str:
        """Sets up the volumes and creates the sandbox of a pod; returns its address."""
        context = self._context
        directory = context.options.pod_directory(uid_of(pod))
        directory.mkdir(parents=True, exist_ok=True)
        await fetch_claims(context.client, pod)  # a pod starts only with its claims
        self._references = await fetch_references(context.client, pod)
        info = context.pod_info(pod, pod_state)
        await context.volumes.prepare(pod, directory, self._references, info)
        spec = sandbox_spec(pod, info, context.options, context.host)
        sandbox = await context.runtime.create_sandbox(spec)
        address = context.host_address if spec.host_network else sandbox.address
        await context.on_sandbox(pod, address)
        return address

    async def start(
        self, pod: Manifest, pod_state: PodState, container: Container, attempt: int
    ) -> ContainerState:
        """Starts a container. Referenced objects are fetched again unless the pod has just been prepared."""
        references, self._references = (
            self._references or await fetch_references(self._context.client, pod),
            None,
        )
        await self.ensure_volumes(pod, pod_state, references)
        claims = await fetch_claims(self._context.client, pod)
        spec = self._spec(pod, pod_state, container, attempt, references, claims)
        self._prepare_files(spec)
        self._report_limitations(pod, container)
        begun = await self._context.runtime.start(spec)
        if self._context.runtime.features.pulls_images:
            text = f'Container image "{spec.image}" is on this machine'
            reference = self._context.reference(pod, container)
            self._context.events.normal(pod["spec"]["nodeName"], reference, "Pulled", text)
        return begun

    async def ensure_volumes(
        self, pod: Manifest, pod_state: PodState, references: References | None = None
    ) -> None:
        """Loads the volumes of an adopted pod."""
        context, uid = self._context, uid_of(pod)
        if pod["spec"].get("volumes") and not context.volumes.volumes_of(uid):
            references = references or await fetch_references(context.client, pod)
            directory = context.options.pod_directory(uid)
            await context.volumes.prepare(pod, directory, references, context.pod_info(pod, pod_state))

    def _spec(
        self,
        pod: Manifest,
        pod_state: PodState,
        container: Container,
        attempt: int,
        references: References,
        claims: Mapping[str, Manifest],
    ) -> ContainerSpec:
        context, uid, spec = self._context, uid_of(pod), container.spec
        info, images = context.pod_info(pod, pod_state), context.runtime.features.pulls_images
        mapping = None if images else context.find_image(spec.get("image") or "")
        variables = environment(
            pod,
            spec,
            references,
            info,
            program_path="" if images else context.program_path,
            volume_paths=context.volumes.paths_of(uid),
            api=context.options.api,
            image_variables=mapping.environment if mapping else {},
        )
        command, arguments = own_command(spec, variables, mapping.environment if mapping else {})
        if images:
            variables = _without_image_variables(spec, variables)
        else:
            command = command_in_image(pod, spec, mapping, command, arguments)
        claimed = claimed_devices(spec, claims, context.nodes[info.node_name])
        devices = context.devices.allocate(info.node_name, pod, spec, claimed)
        security = security_of(pod, spec)
        message_path = context.options.termination_path(uid, container.name, attempt)
        mounts = (
            *image_mounts(
                spec, mapping, context.options, shares_files=not context.runtime.features.own_network
            ),
            *context.volumes.mounts(pod, spec, variables),
            Mount(str(message_path), spec.get("terminationMessagePath") or DEFAULT_PATH),
            *self._driver_mounts(devices),
        )
        return ContainerSpec(
            pod=uid,
            name=container.name,
            attempt=attempt,
            image=spec.get("image") or "",
            command=(*command, *arguments) if images else command,
            environment=self._with_devices(variables, devices, info.node_name, hide=not security.privileged),
            working_directory=spec.get("workingDir") or (mapping.working_directory if mapping else ""),
            mounts=mounts,
            identity=identity_of(pod, spec, context.default_user, self._image_user(mapping)),
            security=security,
            gpus=gpu_access(context.nodes[info.node_name].cards, map(card_uuid, devices.names)),
            **_limits(spec),
            stdin=bool(spec.get("stdin")),
            stdin_once=bool(spec.get("stdinOnce")),
            tty=bool(spec.get("tty")),
            log_path=str(context.options.log_path(uid, container.name, attempt)),
            own_entrypoint=bool(spec.get("command")) or not images,
            pull_policy=spec.get("imagePullPolicy") or "",
            cpus=context.cpus.cpus_of(info.node_name, uid, container.name),
        )

    def _image_user(self, mapping: ImageMapping | None) -> int | None:
        """The user of a mapped image; None where the runtime cannot change users."""
        return mapping.user if mapping and self._context.runtime.features.any_user else None

    def _driver_mounts(self, devices: Allocation) -> tuple[Mount, ...]:
        """The directory of the driver's libraries, where the linker and so the pod does not find it by itself."""
        directory = self._context.driver_libraries if devices.names else ""
        return (Mount(directory, directory, read_only=True),) if directory else ()

    def _with_devices(
        self, variables: dict[str, str], devices: Allocation, node: str, *, hide: bool
    ) -> dict[str, str]:
        context = self._context
        hide = hide and context.hides_gpus
        named = device_environment(devices, context.nodes[node], hide=hide)
        advisory = {name: value for name, value in named.items() if name not in VISIBLE_VARIABLES}
        variables = advisory | variables | {name: named[name] for name in VISIBLE_VARIABLES if name in named}
        if devices.names and context.driver_libraries:
            paths = (context.driver_libraries, variables.get("LD_LIBRARY_PATH", ""))
            variables["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
        return variables

    def _prepare_files(self, spec: ContainerSpec) -> None:
        """Creates the files of an attempt and removes those of old attempts."""
        options = self._context.options
        create_message_file(options.termination_path(spec.pod, spec.name, spec.attempt))
        old = spec.attempt - LOGGED_ATTEMPTS
        if old >= 0:
            log = options.log_path(spec.pod, spec.name, old)
            for path in (
                *log.parent.glob(f"{log.name}*"),
                options.termination_path(spec.pod, spec.name, old),
            ):
                _remove(path)

    def _report_limitations(self, pod: Manifest, container: Container) -> None:
        """Records, once per pod, events about features that the runtime lacks."""
        if self._limitations_reported:
            return
        self._limitations_reported = True
        context, features, node = self._context, self._context.runtime.features, pod["spec"]["nodeName"]
        if not features.pulls_images:
            image = container.spec.get("image") or ""
            text = f'Container image "{image}" {MAPPED if context.find_image(image) else NOT_PULLED}'
            context.events.normal(node, context.reference(pod, container), "Pulled", text)
        limitations = [*features.limitations, *([SHARES_ADVISORY] if sharing_containers(pod) else [])]
        if limitations:
            context.events.normal(node, context.reference(pod), "LimitedRuntime", " ".join(limitations))


def _without_image_variables(container: Mapping[str, Any], variables: dict[str, str]) -> dict[str, str]:
    """Without defaults that the image sets itself (PATH, HOME), unless the pod sets them."""
    named = {variable["name"] for variable in container.get("env") or ()}
    return {name: value for name, value in variables.items() if name not in _IMAGE_VARIABLES or name in named}


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
