"""Host and capacity discovery, from the kernel's files and NVIDIA's tools."""

import os
import platform
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from volcano.nodes.kubelet.gpus import driver
from volcano.nodes.kubelet.gpus.inventory import NO_FILE, Gpu
from volcano.nodes.kubelet.gpus.nvml import GpuReader

FAKE_MEMORY = 16384  # MiB
GPU_TIMEOUT = 10.0  # seconds
UNLIMITED_MEMORY = 1 << 60
MIN_FREE_MEMORY = 100 << 20
MIN_FREE_DISK = 1 << 30
MOST_POD_PIDS = 16_384
MIN_FREE_PIDS = 256


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """Properties of the host that do not change while the kubelet runs."""

    millicores: int
    memory: int  # bytes
    storage: int  # bytes of the file system with the pods' directories
    gpus: tuple[str, ...]  # their identifiers
    address: str
    architecture: str
    kernel: str
    system: str
    machine_id: str
    boot_id: str
    cards: tuple[Gpu, ...] = ()


def read_machine_info(directory: Path, fake_gpus: int = 0, gpus: GpuReader | None = None) -> MachineInfo:
    """Reads the properties once. Control group limits of this process reduce the capacity.

    Without a reader, GPUs are found by the files and the tools of NVIDIA's driver.
    """
    memory = _meminfo("MemTotal")
    cards = fake_cards(fake_gpus) if fake_gpus else _cards(gpus)
    whole = tuple(card.uuid for card in cards if not card.partitioned)
    return MachineInfo(
        millicores=min(len(os.sched_getaffinity(0)) * 1000, _cpu_quota()),
        memory=min(memory, _memory_limit()) or memory,
        storage=shutil.disk_usage(directory).total,
        gpus=whole if cards else _gpus(),
        address=_address(),
        architecture={"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        system=_system(),
        machine_id=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        cards=cards,
    )


def fake_cards(count: int) -> tuple[Gpu, ...]:
    """Cards that exist only for the scheduler."""
    return tuple(Gpu(str(number), NO_FILE, "Fake GPU", FAKE_MEMORY, "") for number in range(count))


def _cards(reader: GpuReader | None) -> tuple[Gpu, ...]:
    """The cards of this host, by NVML if it can be used, else as the driver lists them."""
    return reader.cards() if reader is not None else driver.with_memory(driver.cards_in_proc())


@dataclass(frozen=True, slots=True)
class HostUsage:
    """Usage of the host since it started, and memory in use now."""

    cpu_seconds: float
    memory: int  # bytes


def read_host_usage() -> HostUsage | None:
    """Reads the usage of the host, waiting for disks not included; None where the kernel does not tell."""
    fields = _text("/proc/stat").partition("\n")[0].split()
    if len(fields) < 9 or fields[0] != "cpu":
        return None
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, fields[1:9])
    busy = user + nice + system + irq + softirq + steal
    return HostUsage(busy / os.sysconf("SC_CLK_TCK"), _meminfo("MemTotal") - _meminfo("MemAvailable"))


def node_pressures(directory: Path) -> frozenset[str]:
    """The condition types of resources that are nearly exhausted."""
    abnormal = set()
    if _meminfo("MemAvailable") < MIN_FREE_MEMORY:
        abnormal.add("MemoryPressure")
    disk = os.statvfs(directory)
    # A share of the disk alone, as in the kubelet, would reject pods on many laptops with a well-filled disk.
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
    """Millicores granted by the control group, version 1 or 2."""
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


def default_pids_limit() -> int:
    """The limit of processes of a pod: one pod leaves at least half of those of this host to the others."""
    return min(_max_pids() // 2, MOST_POD_PIDS)


def _max_pids() -> int:
    most = _text("/proc/sys/kernel/pid_max")
    return int(most) if most.isdigit() else 1 << 30


def _free_pids() -> int:
    load = _text("/proc/loadavg").split()
    if len(load) < 4:
        return 1 << 30
    return _max_pids() - int(load[3].partition("/")[2] or 0)


def _gpus() -> tuple[str, ...]:
    """The GPUs in the output of nvidia-smi: `GPU 0: NVIDIA A100 (UUID: GPU-5d5b...)`."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=GPU_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_gpu_list(done.stdout) if done.returncode == 0 else ()


def parse_gpu_list(text: str) -> tuple[str, ...]:
    """The UUIDs in a listing, without MIG devices."""
    return tuple(
        line.rpartition("(UUID: ")[2].rstrip(") ")
        for line in text.splitlines()
        if line.startswith("GPU ") and "(UUID: " in line
    )


def _address() -> str:
    """The address of this host's default route; nothing is sent."""
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
