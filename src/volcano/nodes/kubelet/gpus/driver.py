"""NVIDIA's driver on this host: cards without NVML, device files of devices, and the place of its libraries."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from volcano.base.log import Log
from volcano.nodes.kubelet.gpus.inventory import Gpu, card_of, is_real
from volcano.nodes.shim.specs import GpuAccess

log = Log("gpus")

TIMEOUT = 10.0  # seconds
DRIVER_FILES = Path("/proc/driver/nvidia")
CAPABILITIES = Path("/proc/driver/nvidia-caps/mig-minors")
DEVICES = Path("/dev")
# Files that every container with a GPU needs, where they exist.
SHARED_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
UVM = "nvidia-uvm"
LIBRARY = "libcuda.so.1"
LIBRARY_DIRECTORIES = (
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/run/opengl-driver/lib",
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
)  # fmt: skip


def cards_in_proc(directory: Path = DRIVER_FILES) -> tuple[Gpu, ...]:
    """The cards that the driver lists in /proc, without their memory; for hosts without nvidia-ml-py."""
    cards = []
    for path in sorted(directory.glob("gpus/*/information")):
        fields = dict(_field(line) for line in _text(path).splitlines())
        uuid, minor = fields.get("GPU UUID", ""), fields.get("Device Minor", "")
        if uuid and "?" not in uuid and minor.isdigit():
            cards.append(Gpu(uuid, int(minor), fields.get("Model", "NVIDIA"), 0, path.parent.name))
    return tuple(cards)


def with_memory(cards: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The cards with the memory that nvidia-smi reports, where it is installed."""
    program = shutil.which("nvidia-smi")
    if not cards or program is None:
        return cards
    query = [program, "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("memory of GPUs is not known", reason=str(error))
        return cards
    rows = (line.split(",") for line in done.stdout.splitlines())
    memory = {row[0].strip(): int(row[1]) for row in rows if len(row) == 2 and row[1].strip().isdigit()}
    return tuple(replace(card, memory=memory.get(card.uuid, 0)) for card in cards)


def is_present(directory: Path = DRIVER_FILES) -> bool:
    """Whether the driver is loaded, so that there may be GPUs to hide."""
    return directory.is_dir()


def has_gpus() -> bool:
    """Whether this host seems to have a GPU of NVIDIA; quick, for checks of options."""
    return bool(cards_in_proc()) or shutil.which("nvidia-smi") is not None


def gpu_access(
    cards: Iterable[Gpu], uuids: Iterable[str], devices: Path = DEVICES, capabilities: Path = CAPABILITIES
) -> GpuAccess:
    """The device files of cards and MIG instances; empty for none, and for fake ones."""
    known = tuple(cards)
    files: list[str] = []
    buses: list[str] = []
    names: list[str] = []
    for uuid in uuids:
        found = card_of(known, uuid)
        if found is None or not is_real(found[0]):
            continue
        card, instance = found
        names.append(uuid)
        buses.append(card.bus_id)
        files.append(f"{devices}/nvidia{card.minor}")
        if instance is not None:
            part = f"gpu{card.minor}/gi{instance.gpu_instance}"
            minors = _capability_minors(capabilities)
            wanted = (f"{part}/access", f"{part}/ci{instance.compute_instance}/access")
            files += [f"{devices}/nvidia-caps/nvidia-cap{minors[each]}" for each in wanted if each in minors]
    if names:
        files += [f"{devices}/{name}" for name in SHARED_FILES if (devices / name).exists()]
    return GpuAccess(*(tuple(dict.fromkeys(each)) for each in (files, buses, names)))


def create_device_files(devices: Path = DEVICES) -> None:
    """Loads the driver's module for unified memory, as CUDA itself would do on this host but cannot do in a pod."""
    program = shutil.which("nvidia-modprobe")
    if (devices / UVM).exists() or program is None:
        return
    try:
        subprocess.run([program, "-u", "-c", "0"], capture_output=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("device files of GPUs were not created", reason=str(error))


def library_directory(environment: Mapping[str, str] = os.environ) -> str:
    """Where the driver's libraries are, if the dynamic linker does not find them by itself; else empty."""
    try:
        known = subprocess.run(
            ["ldconfig", "-p"], capture_output=True, text=True, timeout=TIMEOUT, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        known = ""
    if f"{LIBRARY} " in known:
        return ""
    candidates = [*environment.get("LD_LIBRARY_PATH", "").split(":"), *LIBRARY_DIRECTORIES]
    return next((path for path in candidates if path and os.path.exists(os.path.join(path, LIBRARY))), "")


def _capability_minors(path: Path) -> dict[str, int]:
    """Minor numbers by capability, from lines such as `gpu0/gi1/ci0/access 12`."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
