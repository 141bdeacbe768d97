"""NVIDIA's driver: cards in /proc, device files of cards and MIG instances, and its libraries."""

from pathlib import Path

import pytest

from volcano.nodes.kubelet.gpus import driver
from volcano.nodes.kubelet.gpus.inventory import NO_FILE, Gpu, MigInstance
from volcano.nodes.shim.specs import GpuAccess

INFORMATION = """Model: \t\t NVIDIA H200
IRQ:   \t\t 41
GPU UUID: \t GPU-03d09241
Bus Location: \t 0000:00:06.0
Device Minor: \t 3
"""
PLAIN = Gpu("GPU-a", 0, "A100", 40960, "0000:01:00.0")
PARTITIONED = Gpu(
    "GPU-m",
    1,
    "A100",
    40960,
    "0000:02:00.0",
    partitioned=True,
    instances=(MigInstance("MIG-1", "1g.5gb", 4864, 7, 0),),
)


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    return tmp_path / "dev"


def test_cards_are_found_in_proc(tmp_path: Path) -> None:
    (tmp_path / "gpus" / "0000:00:06.0").mkdir(parents=True)
    (tmp_path / "gpus" / "0000:00:06.0" / "information").write_text(INFORMATION)
    (tmp_path / "gpus" / "0000:00:07.0").mkdir()
    (tmp_path / "gpus" / "0000:00:07.0" / "information").write_text("GPU UUID: GPU-???\nDevice Minor: 1\n")
    assert driver.cards_in_proc(tmp_path) == (Gpu("GPU-03d09241", 3, "NVIDIA H200", 0, "0000:00:06.0"),)
    assert driver.cards_in_proc(tmp_path / "none") == ()


def test_a_card_has_its_own_file_and_those_that_all_need(devices: Path) -> None:
    access = driver.gpu_access((PLAIN, PARTITIONED), ["GPU-a"], devices)
    files = tuple(f"{devices}/{name}" for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))
    assert access == GpuAccess(files, ("0000:01:00.0",), ("GPU-a",))


def test_a_mig_instance_has_the_files_of_its_capabilities(devices: Path, tmp_path: Path) -> None:
    minors = tmp_path / "mig-minors"
    minors.write_text("config 1\nmonitor 2\ngpu1/gi7/access 66\ngpu1/gi7/ci0/access 67\ngpu1/gi8/access 75\n")
    access = driver.gpu_access((PLAIN, PARTITIONED), ["MIG-1"], devices, minors)
    names = ("nvidia1", "nvidia-caps/nvidia-cap66", "nvidia-caps/nvidia-cap67", "nvidiactl", "nvidia-uvm")
    assert access.files == tuple(f"{devices}/{name}" for name in names)
    assert access.names == ("MIG-1",)


def test_fake_and_unknown_cards_have_no_files(devices: Path) -> None:
    fake = Gpu("0", NO_FILE, "Fake GPU", 16384, "")
    assert driver.gpu_access((fake, PLAIN), ["0", "GPU-gone"], devices) == GpuAccess()
    assert driver.gpu_access((fake, PLAIN), [], devices) == GpuAccess()


def test_libraries_outside_the_linker_s_directories_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").touch()
    (tmp_path / "bin").mkdir()
    linker = tmp_path / "bin" / "ldconfig"
    linker.write_text("#!/bin/sh\necho '\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6'\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert driver.library_directory({"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}) == str(tmp_path)
    linker.write_text("#!/bin/sh\necho '\tlibcuda.so.1 (libc6,x86-64) => /lib/libcuda.so.1'\n")
    assert driver.library_directory({"LD_LIBRARY_PATH": str(tmp_path)}) == ""


def test_the_memory_of_cards_comes_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-a, 143771'\necho 'GPU-b, [N/A]'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cards = (Gpu("GPU-a", 0, "H200", 0, ""), Gpu("GPU-b", 1, "H200", 0, ""))
    assert [card.memory for card in driver.with_memory(cards)] == [143771, 0]
