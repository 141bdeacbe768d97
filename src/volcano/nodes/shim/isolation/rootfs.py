"""Root filesystem of a container: a layer over the template, programs, devices, /proc, /sys and volumes."""

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from volcano.nodes.shim.isolation import gpus, mount_targets, removal, rootfs_template, syscalls
from volcano.nodes.shim.isolation.base import strerror
from volcano.nodes.shim.isolation.rootfs_template import RootfsTemplate
from volcano.nodes.shim.specs import Failure, GpuAccess, Mount

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Accelerators and adapters that are not assigned to containers: all containers have them. NVIDIA's GPUs are.
_SHARED_PREFIXES = ("dri", "kfd", "infiniband")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
    "core": "/proc/kcore",
}
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_MASKED = (
    "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
    "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
)  # fmt: skip
_UNTRUSTED = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
TTY_GROUP = 5


@dataclass(frozen=True, slots=True)
class RootfsLayer:
    """How a root filesystem is made: options of an overlay, or a copy where overlays are not possible."""

    overlay: str | None

    @staticmethod
    def detect(place: str, base: RootfsTemplate, *, user_namespace: bool) -> "RootfsLayer":
        """Finds the best options by mounting an overlay on the filesystem of `place`."""
        extra = ",userxattr" if user_namespace else ""
        # Without `volatile` every unmount syncs the disk.
        for options in (f",volatile{extra}", extra):
            layer = RootfsLayer(options)
            probe = os.path.join(place, "probe")
            removal.remove_tree(probe)
            try:
                layer.prepare(probe, base)
                layer.mount(probe, base)
                open(os.path.join(probe, "merged", "etc", "passwd"), "a").close()  # triggers a copy-up
                return layer
            except OSError:
                continue
            finally:
                os.chdir("/")
                with contextlib.suppress(OSError):  # not mounted
                    syscalls.unmount(os.path.join(probe, "merged"))
                removal.remove_tree(probe)
        return RootfsLayer(None)

    def prepare(self, place: str, base: RootfsTemplate) -> str:
        """Creates the directories of a root filesystem; returns the one whose files the container will see."""
        os.makedirs(place, mode=0o755)
        merged = os.path.join(place, "merged")
        if self.overlay is None:
            rootfs_template.copy(base, merged)
            return merged
        for name in ("work", "upper", "merged"):
            os.mkdir(os.path.join(place, name), 0o755)
        os.mkdir(os.path.join(place, "upper", "etc"), 0o755)
        return os.path.join(place, "upper")

    def mount(self, place: str, base: RootfsTemplate) -> None:
        """Mounts `place`/merged and changes to `place`: relative names need no escaping in the options.

        A container may create device files, as in any engine; nodev prevents it from opening them.
        """
        os.chdir(place)
        if self.overlay is None:
            syscalls.bind("merged", "merged")
            syscalls.add_mount_flags("merged", syscalls.MS_NODEV)
            return
        lower = os.open(base.root, os.O_PATH | os.O_CLOEXEC)
        options = f"lowerdir=/proc/self/fd/{lower},upperdir=upper,workdir=work{self.overlay}"
        try:
            syscalls.mount("volcano", "merged", "overlay", syscalls.MS_NODEV, options)
        finally:
            os.close(lower)


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Contents of a container's /dev."""

    shared_memory: str
    terminals: str = ""  # a directory with a mounted devpts; a new one is mounted when empty
    everything: bool = False  # all devices of the host, for a privileged container
    tty_group: bool = True  # whether the group `tty` is mapped
    gpus: GpuAccess = field(default_factory=GpuAccess)


def mount_dev(dev: str, devices: DeviceOptions) -> None:
    """Mounts /dev as a tmpfs with safe devices of the host, devpts, shared memory and message queues."""
    syscalls.mount("dev", dev, "tmpfs", _UNTRUSTED, "mode=0755,size=64k")
    present = os.listdir("/dev")
    chosen = [name for name in present if name in _DEVICES or name.startswith(_SHARED_PREFIXES)]
    for name in present if devices.everything else chosen:
        _bind_device(name, dev)
    if not devices.everything:
        gpus.bind_device_files(dev, devices.gpus.files)
        _hide_graphics_files(dev, devices.gpus)
    for name, pointed in _DEVICE_LINKS.items():
        if not os.path.lexists(f"{dev}/{name}"):
            os.symlink(pointed, f"{dev}/{name}")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{dev}/{name}", 0o755)
    if devices.terminals:
        syscalls.bind(devices.terminals, f"{dev}/pts")
    else:
        mount_devpts(f"{dev}/pts", tty_group=devices.tty_group)
    syscalls.bind(devices.shared_memory, f"{dev}/shm")
    with contextlib.suppress(OSError):  # a kernel without message queues
        syscalls.mount("mqueue", f"{dev}/mqueue", "mqueue", _UNTRUSTED)


def _hide_graphics_files(dev: str, access: GpuAccess) -> None:
    """Masks the files in /dev/dri through which GPUs of other containers could be used."""
    for name in gpus.hidden_graphics_files(access):
        path = f"{dev}/dri/{name}"
        if os.path.exists(path):
            syscalls.bind("/dev/null", path)


def mount_devpts(target: str, *, tty_group: bool) -> None:
    group = f",gid={TTY_GROUP}" if tty_group else ""
    flags = syscalls.MS_NOSUID | syscalls.MS_NOEXEC
    syscalls.mount("devpts", target, "devpts", flags, f"newinstance,ptmxmode=0666,mode=0620{group}")


def mount_tmpfs(target: str, size: int = 0) -> None:
    """Mounts a tmpfs with the mode and owner of the directory that it covers."""
    covered = os.stat(target)
    limit = f",size={size}" if size else ""
    mode = stat.S_IMODE(covered.st_mode)
    syscalls.mount("memory", target, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode={mode:o}{limit}")
    os.chown(target, covered.st_uid, covered.st_gid)


def mount_proc(target: str, *, host_pid: bool) -> None:
    try:
        syscalls.mount("proc", target, "proc", _UNTRUSTED)
    except OSError:
        if not host_pid:
            raise
        syscalls.bind("/proc", target)


def mount_sys(target: str, *, writable: bool) -> None:
    try:
        syscalls.mount("sysfs", target, "sysfs", _UNTRUSTED | (0 if writable else syscalls.MS_RDONLY))
    except OSError:
        syscalls.bind("/sys", target)
        if not writable:
            syscalls.add_mount_flags(target, syscalls.MS_RDONLY)


def mount_cgroups(target: str, groups: Sequence[tuple[str, str]]) -> None:
    """Mounts the container's own cgroups; each has a name, or "" for version 2."""
    if not groups or not os.path.isdir(target):
        return
    if groups[0][0]:
        syscalls.mount("cgroup", target, "tmpfs", _UNTRUSTED, "mode=0755,size=4k")
    for name, directory in groups:
        place = os.path.join(target, name)
        os.makedirs(place, exist_ok=True)
        syscalls.bind(directory, place)
    syscalls.add_mount_flags(target, syscalls.MS_RDONLY)


def mask_kernel_paths() -> None:
    """Masks paths of /proc and /sys that reach beyond the container; to be called after pivot_root."""
    for path in _READ_ONLY:
        if os.path.exists(path):
            syscalls.bind(path, path)
            syscalls.add_mount_flags(path, syscalls.MS_RDONLY)
    for path in _MASKED:
        if os.path.isdir(path):
            syscalls.mount("masked", path, "tmpfs", syscalls.MS_RDONLY | _UNTRUSTED, "size=0")
        elif os.path.exists(path):
            syscalls.bind("/dev/null", path)


def mount_volumes(merged: str, mounts: Sequence[Mount], *, devices: bool) -> None:
    """Mounts volumes, outer targets first; `devices` allows device files in them."""
    root = os.open(merged, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in sorted(mounts, key=lambda mount: len(mount_targets.path_parts(mount.target))):
            no_devices = 0 if devices else syscalls.MS_NODEV
            _mount_volume(root, each, no_devices | (syscalls.MS_RDONLY if each.read_only else 0))
    finally:
        os.close(root)


def _mount_volume(root: int, volume: Mount, restrictions: int) -> None:
    try:
        source = os.open(volume.source, os.O_PATH | os.O_CLOEXEC)
        is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
    except OSError as error:
        message = f"cannot mount {volume.source} at {volume.target}: {strerror(error)}"
        raise Failure("CreateContainerError", message) from error
    _check_apart(source, volume)
    try:
        parent, name = mount_targets.open_target(root, volume.target, directory=is_directory)
        target = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        # What has been checked is mounted, whatever the path leads to by now.
        syscalls.bind(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}")
        os.close(source)
        os.close(target)
        if restrictions:
            mounted = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            syscalls.add_mount_flags(f"/proc/self/fd/{mounted}", restrictions)
            os.close(mounted)
        os.close(parent)
    except OSError as error:
        message = f"cannot mount {volume.source} at {volume.target} in the container: {strerror(error)}"
        raise Failure("CreateContainerError", message) from error


def _check_apart(source: int, volume: Mount) -> None:
    """Rejects an open source that contains, or is part of, the directory that it must be apart from."""
    if not volume.apart_from:
        return
    real, kept = os.readlink(f"/proc/self/fd/{source}"), volume.apart_from
    if os.path.commonpath((real, kept)) in (real, kept):
        message = f"{volume.source} is not mounted at {volume.target}: it contains or is part of {kept}"
        raise Failure("CreateContainerError", message)


def _bind_device(name: str, dev: str) -> None:
    source, target = f"/dev/{name}", f"{dev}/{name}"
    if name in ("pts", "shm", "mqueue") or name in _DEVICE_LINKS:
        return
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
    with contextlib.suppress(OSError):  # a device that this process may not access
        syscalls.bind(source, target)
