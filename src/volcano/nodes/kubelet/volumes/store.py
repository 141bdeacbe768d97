"""Volume manager: sets up volumes before a pod starts, updates them while it runs, and removes them afterwards."""

import asyncio
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from volcano.base.clock import Clock
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import PERSISTENT_VOLUME
from volcano.kube.api.manifest import Manifest, key_of, uid_of
from volcano.kube.api.quantity import units
from volcano.kube.client.protocol import Client
from volcano.nodes.kubelet.environment.downward import PodInfo
from volcano.nodes.kubelet.environment.expansion import expand, unknown_names
from volcano.nodes.kubelet.environment.references import References, all_containers, fetch_volume_sources
from volcano.nodes.kubelet.volumes import atomic, payload
from volcano.nodes.kubelet.volumes.claims import FINALIZER, bound_volume, is_local_volume, local_path
from volcano.nodes.kubelet.volumes.fs_group import set_volume_ownership
from volcano.nodes.kubelet.volumes.hostpaths import check_host_path, ensure_host_path
from volcano.nodes.kubelet.volumes.payload import DEFAULT_MODE, MountError, Payload, VolumeFile
from volcano.nodes.kubelet.volumes.subpaths import CONFIG_ERROR, resolve_subpath
from volcano.nodes.kubelet.volumes.tokens import TokenManager, TokenRequester, client_token_requester
from volcano.nodes.shim.specs import Failure, Mount

REFRESH_SECONDS = 60.0  # how often volumes made of objects are updated
FIRST_REFRESH_SECONDS = 5.0
FAILED_MOUNT = "FailedMount"
VOLUMES = "volumes"
# Volumes made of objects, and the kubelet's names of their directories.
_CONTENT = {
    "configMap": "configmap",
    "secret": "secret",
    "downwardAPI": "downward-api",
    "projected": "projected",
}
_CLAIMS = ("persistentVolumeClaim", "ephemeral")
_SUPPORTED = ("emptyDir", *_CONTENT, "hostPath", *_CLAIMS)
_ONLY_OWNER = 0o600


def refresh_delay(pod: Manifest, refreshes: int) -> float:
    """Seconds until the volumes of a pod that are made of objects are updated again, after so many times.

    Secrets are updated soon after the start: an operator stores the certificate of its webhook in one when it starts,
    and is not ready before it finds it in the volume.
    """
    if any("secret" in volume for volume in pod["spec"].get("volumes") or ()):
        return float(min(FIRST_REFRESH_SECONDS * 2 ** min(refreshes, 10), REFRESH_SECONDS))
    return REFRESH_SECONDS


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod on this host."""

    name: str
    path: str
    read_only: bool = False
    memory: bool = False  # mounted as tmpfs by the runtime
    size: int = 0  # bytes of a memory volume; 0 is no limit
    apart_from: str = ""  # a directory that it neither contains nor is part of, of a path of the host


@dataclass(frozen=True, slots=True)
class _PreparedPod:
    """The volumes of one pod."""

    directory: Path
    info: PodInfo
    volumes: Mapping[str, Volume]


class VolumeManager:
    """Volumes of the pods of this host. After a restart, `prepare` keeps existing content."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        request_token: TokenRequester | None = None,
        private: Sequence[Path] = (),
    ) -> None:
        """`request_token` sends TokenRequests; by default the client does. Paths in `private`, the data directory of
        the cluster first, are not mounted by hostPath."""
        self._private = tuple(private)
        self._client = client
        self._clock = clock
        self._tokens = TokenManager(request_token or client_token_requester(client), clock)
        self._prepared: dict[str, _PreparedPod] = {}

    async def prepare(
        self, pod: Manifest, directory: Path, references: References, info: PodInfo
    ) -> Mapping[str, Volume]:
        """Sets up every volume of a pod in its `directory`. A Failure (FailedMount) is to be retried later."""
        volumes: dict[str, Volume] = {}
        for volume in pod["spec"].get("volumes") or ():
            name = volume["name"]
            try:
                volumes[name] = await self._set_up(pod, volume, directory, references, info)
            except (MountError, ApiError, OSError) as error:
                raise Failure(
                    FAILED_MOUNT, f'MountVolume.SetUp failed for volume "{name}" : {error}'
                ) from None
        self._prepared[uid_of(pod)] = _PreparedPod(directory, info, volumes)
        return volumes

    async def refresh(self, pod: Manifest) -> list[str]:
        """Updates volumes made of objects. Returns messages for events about those that failed and stay unchanged."""
        prepared = self._prepared.get(uid_of(pod))
        following = [
            volume for volume in pod["spec"].get("volumes") or () if not _CONTENT.keys().isdisjoint(volume)
        ]
        if prepared is None or not following:
            return []
        try:
            references = await fetch_volume_sources(self._client, pod)
        except ApiError as error:
            return [error.message]
        errors = []
        for volume in following:
            try:
                await self._set_up_content(pod, volume, prepared.directory, references, prepared.info)
            except (MountError, OSError) as error:
                errors.append(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}')
        return errors

    def mounts(self, pod: Manifest, container: Manifest, environment: Mapping[str, str]) -> tuple[Mount, ...]:
        """The volume mounts of a container. `environment` is for `subPathExpr`."""
        volumes = self.volumes_of(uid_of(pod))
        if container.get("volumeDevices"):
            raise Failure(
                CONFIG_ERROR, f"container {container['name']}: volumeDevices are not supported on this node"
            )
        return tuple(
            _mount(volumes, mount, container, environment) for mount in container.get("volumeMounts") or ()
        )

    def volumes_of(self, uid: str) -> Mapping[str, Volume]:
        """The volumes of a prepared pod."""
        prepared = self._prepared.get(uid)
        return prepared.volumes if prepared else {}

    def paths_of(self, uid: str) -> dict[str, str]:
        """The paths of a pod's volumes by name, for `fileKeyRef` variables."""
        return {name: volume.path for name, volume in self.volumes_of(uid).items()}

    async def remove(self, uid: str, directory: Path) -> None:
        """Removes the volumes in a pod's directory; claims and host paths stay. No container runs any more."""
        await asyncio.to_thread(remove_tree, directory / VOLUMES)
        self._prepared.pop(uid, None)
        self._tokens.forget(uid)

    async def _set_up(
        self,
        pod: Manifest,
        volume: Manifest,
        directory: Path,
        references: References,
        info: PodInfo,
    ) -> Volume:
        kind = next((key for key, value in volume.items() if key != "name" and value is not None), "emptyDir")
        if kind == "emptyDir":
            return _set_up_empty_dir(pod, volume, directory)
        if kind in _CONTENT:
            return await self._set_up_content(pod, volume, directory, references, info)
        if kind == "hostPath":
            source = volume["hostPath"]
            check_host_path(source["path"], self._private)
            ensure_host_path(source["path"], source.get("type") or "")
            return Volume(volume["name"], source["path"], apart_from=self._data_directory)
        if kind in _CLAIMS:
            return await self._set_up_claim(pod, volume, bound_volume(pod, volume, references))
        raise MountError(
            f"volumes of kind {kind} are not supported on this node; those supported are {', '.join(_SUPPORTED)}"
        )

    async def _set_up_content(
        self, pod: Manifest, volume: Manifest, directory: Path, references: References, info: PodInfo
    ) -> Volume:
        """A read-only volume made of objects."""
        kind = next(key for key in volume if key in _CONTENT)
        files = await self._files(pod, kind, volume[kind] or {}, references, info)
        path = volume_path(directory, _CONTENT[kind], volume["name"])
        group = _group(pod)
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)  # regardless of the umask: containers may run as any user
        for point in payload.nested_mount_points(pod, volume["name"]):
            if point.partition("/")[0] not in {name.partition("/")[0] for name in files}:
                (path / point).mkdir(parents=True, exist_ok=True)

        def set_ownership(fresh: Path) -> None:
            if group is not None:
                set_volume_ownership(fresh, group, read_only=True)

        atomic.write(path, files, self._clock.now().wall, set_ownership)
        return Volume(volume["name"], str(path), read_only=True)

    async def _files(
        self, pod: Manifest, kind: str, source: Manifest, references: References, info: PodInfo
    ) -> Payload:
        default = source.get("defaultMode")
        mode = DEFAULT_MODE if default is None else int(default)
        match kind:
            case "configMap":
                return payload.from_config_map(references.config_maps, source, mode)
            case "secret":
                return payload.from_secret(references.secrets, source, mode)
            case "downwardAPI":
                return payload.from_downward_api(pod, source.get("items") or (), mode, info)
            case "serviceAccountToken":
                owner = _common_user(pod)
                private = owner is not None or _group(pod) is not None
                text = await self._tokens.get(pod, source)
                return {source["path"]: VolumeFile(text, _ONLY_OWNER if private else mode, owner)}
            case "projected":
                together: Payload = {}
                for part in source.get("sources") or ():
                    inner = next(iter(part))
                    content = {**(part[inner] or {}), "defaultMode": mode}
                    together |= await self._files(pod, inner, content, references, info)
                return together
        raise MountError(
            f"projected source {kind} is not supported on this node; use configMap, secret, downwardAPI or "
            "serviceAccountToken"
        )

    async def _set_up_claim(self, pod: Manifest, volume: Manifest, persistent: Manifest) -> Volume:
        if is_local_volume(persistent):
            await self._add_finalizer(persistent)
        path, apart_from = local_path(persistent), ""
        if not self._is_provisioned(path):
            check_host_path(path, self._private)
            apart_from = self._data_directory
        read_only = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))
        group = _group(pod)
        if (
            group is not None
            and not read_only
            and (is_local_volume(persistent) or persistent["spec"].get("local"))
        ):
            policy = (pod["spec"].get("securityContext") or {}).get("fsGroupChangePolicy")
            await asyncio.to_thread(
                set_volume_ownership,
                Path(path),
                group,
                read_only=False,
                only_on_mismatch=policy == "OnRootMismatch",
            )
        return Volume(volume["name"], path, read_only, apart_from=apart_from)

    @property
    def _data_directory(self) -> str:
        return os.path.realpath(self._private[0]) if self._private else ""

    def _is_provisioned(self, path: str) -> bool:
        """Whether a path is the directory of a volume of the local StorageClass, in the data directory."""
        if not self._private:
            return False
        volumes = Path(self._data_directory, VOLUMES)
        real = Path(os.path.realpath(path))
        return real != volumes and real.is_relative_to(volumes)

    async def _add_finalizer(self, persistent: Manifest) -> None:
        """Marks a volume as having a directory on this host, before it is created."""
        metadata = persistent["metadata"]
        held = metadata.get("finalizers") or []
        if FINALIZER not in held:
            change = {"finalizers": [*held, FINALIZER], "resourceVersion": metadata["resourceVersion"]}
            await self._client.patch(PERSISTENT_VOLUME, key_of(persistent), {"metadata": change})


def remove_tree(path: Path) -> None:
    """Removes a directory with its content, including inaccessible directories; links are not followed."""
    if path.is_symlink() or not path.exists():
        return
    _make_accessible(str(path))
    for folder, names, _ in os.walk(path):
        for name in names:
            _make_accessible(os.path.join(folder, name))
    with suppress(FileNotFoundError):  # removed concurrently
        shutil.rmtree(path)


def _make_accessible(path: str) -> None:
    """Restores access to a directory whose mode excludes its owner."""
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(path, stat.S_IRWXU)


def _set_up_empty_dir(pod: Manifest, volume: Manifest, directory: Path) -> Volume:
    """An emptyDir volume. With `subPath` mounts it is on disk even if its medium is Memory."""
    source = volume.get("emptyDir") or {}
    path = volume_path(directory, "empty-dir", volume["name"])
    fresh = not path.is_dir()
    path.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.chmod(0o777)
        if (group := _group(pod)) is not None:
            set_volume_ownership(path, group, read_only=False)
    medium = source.get("medium") or ""
    if medium.startswith("HugePages"):
        raise MountError(
            "emptyDir of medium HugePages is not supported on this node; use Memory or leave it out"
        )
    if medium == "Memory" and not _has_subpath_mounts(pod, volume["name"]):
        return Volume(volume["name"], str(path), memory=True, size=_memory_size(pod, source))
    return Volume(volume["name"], str(path))


def _has_subpath_mounts(pod: Manifest, name: str) -> bool:
    return any(
        mount["name"] == name and (mount.get("subPath") or mount.get("subPathExpr"))
        for container in all_containers(pod)
        for mount in container.get("volumeMounts") or ()
    )


def _memory_size(pod: Manifest, source: Manifest) -> int:
    """The smaller of the volume's limit and the sum of the containers' memory limits; 0 when neither is set."""
    limits = [
        ((container.get("resources") or {}).get("limits") or {}).get("memory")
        for container in pod["spec"]["containers"]
    ]
    together = sum(int(units(limit)) for limit in limits if limit) if all(limits) else 0
    own = int(units(source["sizeLimit"])) if source.get("sizeLimit") else 0
    return min(size for size in (own, together) if size) if own or together else 0


def _mount(
    volumes: Mapping[str, Volume], mount: Manifest, container: Manifest, environment: Mapping[str, str]
) -> Mount:
    volume = volumes.get(mount["name"])
    if volume is None:
        raise Failure(
            CONFIG_ERROR,
            f'cannot find volume "{mount["name"]}" to mount into container "{container["name"]}"',
        )
    sub_path = mount.get("subPath") or ""
    if expression := mount.get("subPathExpr"):
        if missing := unknown_names(expression, environment):
            raise Failure(CONFIG_ERROR, f'missing value for "{missing[0]}" in subPathExpr {expression}')
        sub_path = expand(expression, environment)
    source = volume.path
    if sub_path:
        source = resolve_subpath(volume.path, sub_path, mount=mount["name"], container=container["name"])
    target = mount["mountPath"]
    return Mount(
        source=source,
        target=target if target.startswith("/") else f"/{target}",
        read_only=bool(mount.get("readOnly")) or volume.read_only,
        memory=volume.memory,
        size=volume.size,
        apart_from=volume.apart_from,
    )


def volume_path(directory: Path, plugin: str, name: str) -> Path:
    """The path of a volume in a pod's directory."""
    return directory / VOLUMES / f"kubernetes.io~{plugin}" / name


def _group(pod: Manifest) -> int | None:
    return (pod["spec"].get("securityContext") or {}).get("fsGroup")


def _common_user(pod: Manifest) -> int | None:
    """The user of all containers of a pod, if they have the same."""
    common = (pod["spec"].get("securityContext") or {}).get("runAsUser")
    users = {(each.get("securityContext") or {}).get("runAsUser", common) for each in all_containers(pod)}
    return users.pop() if len(users) == 1 else None
