"""Containers can open the device files of their own GPUs and of no others.

Devices of this host that every machine has stand for GPUs: /dev/zero and /dev/full, of the kernel's memory driver.
"""

import os
import uuid
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, directory_for, in_child, in_shim
from volcano.nodes.shim.isolation import device_cgroups, gpus, syscalls, unshare
from volcano.nodes.shim.isolation.base import Stdio
from volcano.nodes.shim.isolation.cgroups import own_unified
from volcano.nodes.shim.isolation.plain import PlainIsolation
from volcano.nodes.shim.specs import ContainerSpec, Failure, GpuAccess, Mode, SandboxSpec, Security

MEMORY_MAJOR = 1
FIRST, SECOND, CONTROL = "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"
STAND_INS = {
    FIRST: "/dev/zero",
    SECOND: "/dev/full",
    CONTROL: "/dev/null",
    "/dev/nvidia-caps/nvidia-cap1": "/dev/zero",
}
LOOK = "for f in /dev/nvidia*; do test -c $f && head -c 1 $f >/dev/null && echo $f; done; true"


def with_gpus_in_dev(directory: Path) -> None:
    """Covers /dev of the forked shim with one that has device files of GPUs; the host does not see it."""
    stage = str(directory / "dev")
    os.mkdir(stage)
    syscalls.mount("dev", stage, "tmpfs")
    sources = {f"/dev/{name}": f"/dev/{name}" for name in ("null", "zero", "full", "urandom")} | STAND_INS
    for target, source in sources.items():
        place = stage + target.removeprefix("/dev")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "w").close()
        syscalls.bind(source, place)
    syscalls.bind(stage, "/dev")


def seen_by(setting: Setting, **wanted: object) -> list[str]:
    def body(shim: ForkedShim) -> list[str]:
        with_gpus_in_dev(shim.directory)
        try:
            return shim.run(shim.pod(), LOOK, **wanted).lines
        finally:
            syscalls.unmount("/dev")
            syscalls.unmount(str(shim.directory / "dev"))

    return in_shim(setting, body)


def test_a_container_without_a_gpu_has_no_device_file_of_one(any_setting: Setting) -> None:
    assert seen_by(any_setting) == []


def test_a_container_can_open_exactly_the_files_of_its_gpu(any_setting: Setting) -> None:
    assert seen_by(any_setting, gpus=GpuAccess((SECOND, CONTROL))) == [SECOND, CONTROL]


def test_files_in_directories_of_dev_are_there_too(any_setting: Setting) -> None:
    access = GpuAccess(("/dev/nvidia-caps/nvidia-cap1",))

    def body(shim: ForkedShim) -> list[str]:
        with_gpus_in_dev(shim.directory)
        try:
            return shim.run(shim.pod(), "head -c 1 /dev/nvidia-caps/nvidia-cap1 | wc -c", gpus=access).lines
        finally:
            syscalls.unmount("/dev")
            syscalls.unmount(str(shim.directory / "dev"))

    assert in_shim(any_setting, body) == ["1"]


def test_a_privileged_container_has_all_devices(as_root: Setting) -> None:
    assert seen_by(as_root, security=Security(privileged=True)) == [FIRST, SECOND, CONTROL]


def test_a_missing_device_file_is_an_error_that_names_it(any_setting: Setting) -> None:
    with pytest.raises(Failure, match=r"cannot use the GPU: /dev/nvidia7: no such file or directory"):
        seen_by(any_setting, gpus=GpuAccess(("/dev/nvidia7",)))


def proc_of_driver(directory: Path) -> Path:
    """A directory like /proc/driver/nvidia of a machine with two GPUs."""
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (directory / "gpus" / bus).mkdir(parents=True)
        (directory / "gpus" / bus / "information").write_text(f"Bus Location: {bus}\n")
    (directory / "capabilities" / "mig").mkdir(parents=True)
    (directory / "params").write_text("Other: 1\nModifyDeviceFiles: 1\n")
    (directory / "version").write_text("580\n")
    (directory / "registry").write_text("x\n")
    return directory


@pytest.mark.parametrize(
    ("access", "left"),
    [
        pytest.param(GpuAccess(), [], id="no GPU"),
        pytest.param(
            GpuAccess(("/dev/null",), ("0000:02:00.0",)),
            ["capabilities", "gpus", "gpus/0000:02:00.0", "params", "version"],
            id="one of two GPUs",
        ),
    ],
)
def test_the_driver_s_directory_in_proc_shows_the_container_s_gpus(
    access: GpuAccess, left: list[str]
) -> None:
    with directory_for(0) as directory:
        driver = proc_of_driver(directory / "host")
        (directory / "proc" / "driver" / "nvidia" / "gpus" / "0000:01:00.0").mkdir(parents=True)

        def body() -> tuple[list[str], str, bool]:
            unshare.unshare_host_namespaces(Mode.NETNS)
            gpus.limit_driver_files(str(directory / "proc"), access, str(driver))
            top = directory / "proc" / "driver" / "nvidia"
            found = [path for pattern in ("*", "gpus/*") for path in top.glob(pattern)]
            parameters = (top / "params").read_text() if (top / "params").exists() else ""
            try:
                (top / "new").touch()
                writable = True
            except OSError:
                writable = False
            return sorted(str(path.relative_to(top)) for path in found), parameters, writable

        found, parameters, writable = in_child(body)
    assert found == left
    assert not writable
    # Otherwise programs that run as root would create the device files of all GPUs.
    assert "ModifyDeviceFiles: 1" not in parameters


def test_files_of_graphics_drivers_of_other_gpus_are_hidden(tmp_path: Path) -> None:
    driver = proc_of_driver(tmp_path / "nvidia")
    for name, bus in (
        ("renderD128", "0000:01:00.0"),
        ("renderD129", "0000:02:00.0"),
        ("card9", "0000:09:00.0"),
    ):
        (tmp_path / "pci" / bus).mkdir(parents=True)
        (tmp_path / "drm" / name).mkdir(parents=True)
        (tmp_path / "drm" / name / "device").symlink_to(tmp_path / "pci" / bus)
    own = GpuAccess(("/dev/nvidia1",), ("0000:02:00.0",))
    assert gpus.hidden_graphics_files(own, str(tmp_path / "drm"), str(driver)) == {"renderD128"}


def test_the_major_numbers_of_the_driver_are_read(tmp_path: Path) -> None:
    table = tmp_path / "devices"
    table.write_text(
        "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n238 nvidia-uvm\n241 nvidia-caps\n\n"
        "Block devices:\n  8 nvidiablock\n"
    )
    assert gpus.driver_majors(str(table)) == {195, 238, 241}
    assert gpus.driver_majors(str(tmp_path / "none")) == frozenset()


@pytest.fixture
def device_rules() -> None:
    if reason := device_cgroups.unavailable_reason():
        pytest.skip(f"device rules of cgroups: {reason}")
    if not own_unified():
        pytest.skip("no cgroup of version 2 can be written to")


def run_plainly(script: str, access: GpuAccess, **wanted: object) -> tuple[list[str], str]:
    """Output of a plain container on a host whose memory devices are GPUs, and the limitations it is told."""

    def body() -> tuple[list[str], str]:
        isolation = PlainIsolation(str(directory), gpu_majors={MEMORY_MAJOR})
        isolation.open()
        uid = uuid.uuid4().hex  # other tests may run in the same cgroup
        sandbox = isolation.create(SandboxSpec(uid, "default", "a", "n", str(directory / "pod"), "a"))
        spec = ContainerSpec(uid, "main", 0, "none", ("sh", "-c", script), gpus=access, **wanted)  # type: ignore[arg-type]
        read, write = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        pid = isolation.start(sandbox, spec, Stdio(null, write, write))
        os.close(write)
        with os.fdopen(read) as pipe:
            lines = pipe.read().splitlines()
        os.waitpid(pid, 0)
        isolation.finish(sandbox, spec, pid)
        isolation.close()
        left = [path for base in own_unified() for path in Path(base.base).glob(f"volcano/*/{uid}")]
        assert not left, "the isolation left cgroups behind"
        return lines, " ".join(isolation.limitations)

    with directory_for(0) as directory:
        return in_child(body)


OPEN = "exec 2>&1; for f in /dev/zero /dev/full; do head -c 1 $f | tr '\\0' x; done"
DENIED = "Operation not permitted"


@pytest.mark.usefixtures("device_rules")
def test_a_plain_container_cannot_open_gpus_of_others() -> None:
    lines, limitations = run_plainly(OPEN, GpuAccess(("/dev/full",)))
    assert "/dev/zero" in lines[0]
    assert DENIED in lines[0]
    assert lines[1:] == ["x"]
    assert "every GPU" not in limitations
    assert [DENIED in line for line in run_plainly(OPEN, GpuAccess())[0]] == [True, True]


@pytest.mark.usefixtures("device_rules")
def test_a_privileged_plain_container_can_open_all_gpus() -> None:
    assert run_plainly(OPEN, GpuAccess(), security=Security(privileged=True))[0] == ["xx"]


def test_a_plain_container_is_told_where_gpus_cannot_be_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_cgroups, "unavailable_reason", lambda: "operation not permitted")
    lines, limitations = run_plainly(OPEN, GpuAccess())
    assert lines == ["xx"]
    assert "Pods can open every GPU of this host" in limitations
    assert "operation not permitted" in limitations
