"""Volumes: files and directories of the host at places of the container's own, and nowhere else."""

import os
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, in_shim
from volcano.nodes.shim.isolation import syscalls
from volcano.nodes.shim.specs import Failure, Mount


def made(shim: ForkedShim, name: str, **files: str) -> Path:
    directory = shim.directory / name
    directory.mkdir(parents=True)
    for file, text in files.items():
        (directory / file).write_text(text)
    return directory


def test_a_directory_and_a_file_are_seen_and_written_through(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str, str]:
        volume = made(shim, "v", hello="hi\n")
        message = made(shim, "m", message="")
        mounts = (
            Mount(str(volume), "/data/in/deep"),
            Mount(str(message / "message"), "/dev/termination-log"),
        )
        ran = shim.run(
            shim.pod(),
            "cat /data/in/deep/hello; echo back >/data/in/deep/out; echo bye >/dev/termination-log",
            mounts=mounts,
        )
        return ran.output, (volume / "out").read_text(), (message / "message").read_text()

    assert in_shim(setting, body) == ("hi\n", "back\n", "bye\n")


def test_a_read_only_volume_cannot_be_written(any_setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[list[str], list[str]]:
        volume = made(shim, "v", hello="hi\n")
        mounts = (
            Mount(str(volume), "/data", read_only=True),
            Mount(str(volume / "hello"), "/file", read_only=True),
        )
        ran = shim.run(
            shim.pod(), "exec 2>&1; touch /data/x; echo x >/file; cat /data/hello /file", mounts=mounts
        )
        return ran.lines, os.listdir(volume)

    lines, files = in_shim(any_setting, body)
    assert all("Read-only file system" in line for line in lines[:2])
    assert lines[2:] == ["hi", "hi"]
    assert files == ["hello"]


def test_on_an_older_kernel_mounts_are_restricted_one_by_one(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, machine in syscalls.SYSCALL_NUMBERS.items():
        unknown = machine._replace(mount_setattr=9999, close_range=9999)
        monkeypatch.setitem(syscalls.SYSCALL_NUMBERS, name, unknown)

    def body(shim: ForkedShim) -> list[str]:
        volume = made(shim, "v", hello="hi\n")
        (volume / "below").mkdir()
        below = Mount(str(volume / "below"), "", memory=True)
        mounts = (Mount(str(volume), "/data", read_only=True),)
        look = "exec 2>&1; ls /proc/$$/fd; touch /data/x /data/below/x /usr/x /proc/sys/x"
        pod = shim.pod()
        shim.isolation._mount_tmpfs(pod, below.source, 0)
        return shim.run(pod, look, mounts=mounts).lines

    *descriptors, _, _, _, _ = lines = in_shim(setting, body)
    refused = lines[-4:]
    assert descriptors == ["0", "1", "2"]
    assert sum("Read-only file system" in line for line in refused) >= 2
    assert not any("cannot touch" not in line for line in refused)


def test_volumes_may_lie_within_each_other_in_any_order(setting: Setting) -> None:
    def body(shim: ForkedShim) -> str:
        outer, inner = made(shim, "outer", a="outer\n"), made(shim, "inner", b="inner\n")
        mounts = (Mount(str(inner), "/data/inner"), Mount(str(outer), "/data"))
        return shim.run(shim.pod(), "cat /data/a /data/inner/b", mounts=mounts).output

    assert in_shim(setting, body) == "outer\ninner\n"


def test_a_volume_in_memory_is_shared_by_the_pod_and_bounded(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, int, list[str], list[str]]:
        volume = shim.directory / "memory"
        mounts = (Mount(str(volume), "/cache", memory=True, size=1 << 20),)
        pod = shim.pod()
        first = shim.start(pod, "echo hi >/cache/x; echo ready; read wait", mounts=mounts)
        first.line()
        second = shim.run(pod, "cat /cache/x; grep ' /cache ' /proc/mounts", mounts=mounts, name="second")
        full = shim.run(pod, "head -c 2000000 /dev/zero >/cache/y", mounts=mounts, name="second", attempt=1)
        first.signal(9)
        first.ended()
        shim.isolation.remove(pod)
        mounted = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(volume) in line]
        return second.output, full.code, os.listdir(volume), mounted

    output, code, left, mounted = in_shim(setting, body)
    assert output.startswith("hi\n")
    assert " tmpfs " in output
    assert code != 0
    assert (left, mounted) == ([], []), "what was in memory is gone with the pod"


def test_shared_memory_is_the_pod_s(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str]:
        pod, other = shim.pod("a"), shim.pod("b")
        shim.run(pod, "echo hi >/dev/shm/x")
        return shim.run(pod, "cat /dev/shm/x", name="shm").output, shim.run(other, "ls /dev/shm").output

    assert in_shim(setting, body) == ("hi\n", "")


def test_a_link_in_a_volume_leads_to_no_place_of_the_host(setting: Setting) -> None:
    links = ["/", "../../../../../..", "/proc/1/root", "loop"]

    def body(shim: ForkedShim) -> tuple[bool, list[str]]:
        evil, secret = made(shim, "evil"), made(shim, "secret", x="")
        outside, pod = str(shim.directory / "made-outside"), shim.pod()
        (evil / "loop").symlink_to("loop")
        seen = []
        for number, link in enumerate(links):
            (evil / f"way{number}").symlink_to(link)
            mounts = (Mount(str(evil), "/evil"), Mount(str(secret), f"/evil/way{number}{outside}"))
            try:
                seen.append(shim.run(pod, f"ls {outside}", mounts=mounts, attempt=number).output)
            except Failure as failure:
                seen.append(failure.reason)
        return os.path.exists(outside), seen

    exists_outside, seen = in_shim(setting, body)
    assert not exists_outside
    assert seen[:3] == ["x\n"] * 3, "mounted inside the root, where the link leads to in it"
    assert seen[3] == "CreateContainerError"


def test_a_volume_may_go_where_the_host_has_programs(any_setting: Setting) -> None:
    """As it could in an image: the directory is shown as it was, and has one more."""

    def body(shim: ForkedShim) -> list[str]:
        volume = made(shim, "v", hello="hi\n")
        mounts = (Mount(str(volume), "/usr/new/place"), Mount(str(volume / "hello"), "/lib/new-file"))
        try:
            shim.run(shim.pod("b"), "true", mounts=(Mount(str(volume), "/usr/bin/new"),))
            refused = ""
        except Failure as failure:
            refused = failure.message
        seen = shim.run(
            shim.pod(), "cat /usr/new/place/hello /usr/lib/new-file; ls /usr; env true", mounts=mounts
        )
        return [str(seen.code), *seen.lines, refused]

    code, first, second, *usr, refused = in_shim(any_setting, body)
    assert (code, first, second) == ("0", "hi", "hi")
    assert sorted([*os.listdir("/usr"), "new"]) == sorted(usr)
    assert not os.path.exists("/usr/new")
    assert "too much in it" in refused


def test_a_volume_that_is_not_there_is_named(setting: Setting) -> None:
    def body(shim: ForkedShim) -> None:
        shim.run(shim.pod(), "true", mounts=(Mount("/not/there", "/data"),))

    with pytest.raises(Failure, match="/not/there") as raised:
        in_shim(setting, body)
    assert raised.value.reason == "CreateContainerError"
    assert "no such file or directory" in raised.value.message
