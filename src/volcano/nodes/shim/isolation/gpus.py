"""GPUs in a container's root: its own device files, and its own entries of the driver in /proc."""

import os
from collections.abc import Collection, Sequence

from volcano.nodes.shim.isolation import device_cgroups, syscalls
from volcano.nodes.shim.isolation.base import strerror
from volcano.nodes.shim.specs import ContainerSpec, Failure, GpuAccess

DRIVER_FILES = "/proc/driver/nvidia"
DEVICE_PREFIX = "nvidia"
_DRM_CLASS = "/sys/class/drm"
_UNTRUSTED = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
# Programs read this file to learn whether they should create missing device files.
_PARAMETERS, _CREATES_FILES, _CREATES_NONE = "params", "ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0"
_COPIED = (_PARAMETERS, "version")
_SHARED_DIRECTORY = "capabilities"  # of MIG instances: which device file belongs to which


def driver_majors(path: str = "/proc/devices") -> frozenset[int]:
    """Major numbers of the character devices of NVIDIA's driver; empty without the driver."""
    try:
        with open(path, encoding="ascii", errors="replace") as table:
            rows = [line.split() for line in table.read().partition("Block devices:")[0].splitlines()]
    except OSError:
        return frozenset()
    return frozenset(
        int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit() and row[1].startswith(DEVICE_PREFIX)
    )


def device_rules(majors: Collection[int], spec: ContainerSpec) -> bytes:
    """A program that denies a container every GPU but its own; empty where there is nothing to deny."""
    if not majors or spec.security.privileged:
        return b""
    return device_cgroups.device_program(majors, device_numbers(spec.gpus.files))


def device_numbers(files: Sequence[str]) -> list[tuple[int, int]]:
    """Major and minor numbers of device files."""
    numbers = []
    for path in files:
        try:
            device = os.stat(path).st_rdev
        except OSError as error:
            raise Failure("CreateContainerError", f"cannot use the GPU: {path}: {strerror(error)}") from error
        numbers.append((os.major(device), os.minor(device)))
    return numbers


def bind_device_files(dev: str, files: Sequence[str]) -> None:
    """Makes the device files of a container's GPUs part of its /dev; one that is missing is an error."""
    for path in files:
        target = os.path.join(dev, os.path.relpath(path, "/dev"))
        try:
            os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
            syscalls.bind(path, target)
        except OSError as error:
            raise Failure("CreateContainerError", f"cannot use the GPU: {path}: {strerror(error)}") from error


def hidden_graphics_files(access: GpuAccess, drm: str = _DRM_CLASS, driver: str = DRIVER_FILES) -> set[str]:
    """Names in /dev/dri that belong to GPUs of NVIDIA's driver which the container may not use."""
    hidden = set(_entries(os.path.join(driver, "gpus"))) - set(access.bus_ids)
    found = set()
    for name in _entries(drm):
        owner = os.path.basename(os.path.realpath(os.path.join(drm, name, "device")))
        if owner in hidden:
            found.add(name)
    return found


def limit_driver_files(proc: str, access: GpuAccess, driver: str = DRIVER_FILES) -> None:
    """Shows only the container's GPUs below /proc/driver/nvidia; for one without, the directory is empty."""
    target = os.path.join(proc, "driver", "nvidia")
    if not os.path.isdir(target):
        return
    syscalls.mount("nvidia", target, "tmpfs", _UNTRUSTED, "mode=0555,size=256k")
    if not access.files:
        _make_read_only(target)
        return
    for name in _COPIED:
        _copy(os.path.join(driver, name), os.path.join(target, name))
    shown = [_SHARED_DIRECTORY, *(os.path.join("gpus", each) for each in access.bus_ids)]
    for name in shown:
        source = os.path.join(driver, name)
        if os.path.isdir(source):
            os.makedirs(os.path.join(target, name))
            syscalls.bind(source, os.path.join(target, name))
    _make_read_only(target)


def _copy(source: str, target: str) -> None:
    try:
        with open(source, encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError:
        return
    if os.path.basename(source) == _PARAMETERS:
        text = text.replace(_CREATES_FILES, _CREATES_NONE)
    with open(target, "w", encoding="ascii") as file:
        file.write(text)


def _make_read_only(target: str) -> None:
    syscalls.mount("", target, flags=syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | _UNTRUSTED)


def _entries(directory: str) -> Collection[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return ()
