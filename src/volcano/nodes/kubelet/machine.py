"""This host as a node: what it has, read from the kernel's files and NVIDIA's tools."""

import os
import platform
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

GPU_TIMEOUT = 10.0  # seconds for NVIDIA's tools
UNLIMITED_MEMORY = 1 << 60
MIN_FREE_MEMORY = 100 << 20
MIN_FREE_DISK = 1 << 30
MIN_FREE_PIDS = 256


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """What does not change while we run."""

    millicores: int
    memory: int  # bytes
    storage: int  # bytes of the file system that pods live on
    gpus: tuple[str, ...]  # their identifiers
    address: str
    architecture: str
    kernel: str
    system: str
    machine_id: str
    boot_id: str


def read_machine_info(directory: Path, fake_gpus: int = 0) -> MachineInfo:
    """Looks around once. What a control group grants this process is all it has."""
    memory = _meminfo("MemTotal")
    return MachineInfo(
        millicores=min(len(os.sched_getaffinity(0)) * 1000, _cpu_quota()),
        memory=min(memory, _memory_limit()) or memory,
        storage=shutil.disk_usage(directory).total,
        gpus=tuple(map(str, range(fake_gpus))) or _gpus(),
        address=_address(),
        architecture={"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        system=_system(),
        machine_id=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
    )


def node_pressures(directory: Path) -> frozenset[str]:
    """The conditions of a node that are not as they should be just now."""
    abnormal = set()
    if _meminfo("MemAvailable") < MIN_FREE_MEMORY:
        abnormal.add("MemoryPressure")
    disk = os.statvfs(directory)
    # A share of the disk alone, as a kubelet takes, would keep pods from many a well-filled laptop.
    if disk.f_bavail * disk.f_frsize < min(MIN_FREE_DISK, disk.f_blocks * disk.f_frsize // 10):
        abnormal.add("DiskPressure")
    if _free_pids() < MIN_FREE_PIDS:
        abnormal.add("PIDPressure")
    return frozenset(abnormal)


def _meminfo(name: str) -> int:
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _cpu_quota() -> int:
    """The millicores that control groups leave us, of either version."""
    match _text("/sys/fs/cgroup/cpu.max").split():
        case [quota, period] if quota.isdigit():
            return max(int(quota) * 1000 // int(period), 1)
    quota, period = (
        _text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        _text("/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    )
    if quota.isdigit() and period.isdigit():
        return max(int(quota) * 1000 // int(period), 1)
    return 1 << 30


def _memory_limit() -> int:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _text(path)
        if text.isdigit():
            return int(text)
    return UNLIMITED_MEMORY


def _free_pids() -> int:
    most, load = _text("/proc/sys/kernel/pid_max"), _text("/proc/loadavg").split()
    if not most.isdigit() or len(load) < 4:
        return 1 << 30
    return int(most) - int(load[3].partition("/")[2] or 0)


def _gpus() -> tuple[str, ...]:
    """The GPUs that NVIDIA's tool lists: `GPU 0: NVIDIA A100 (UUID: GPU-5d5b...)`."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=GPU_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_gpu_list(done.stdout) if done.returncode == 0 else ()


def parse_gpu_list(text: str) -> tuple[str, ...]:
    """The identifiers in a listing, the parts of a divided GPU left out."""
    return tuple(
        line.rpartition("(UUID: ")[2].rstrip(") ")
        for line in text.splitlines()
        if line.startswith("GPU ") and "(UUID: " in line
    )


def _address() -> str:
    """The address this host would use towards others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _system() -> str:
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
