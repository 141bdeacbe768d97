"""Nothing is left behind by removed pods and by a shim that is killed."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.stage import (
    ForkedShim,
    Setting,
    become,
    directory_for,
    in_child,
    in_shim,
    open_descriptors,
)
from volcano.nodes.shim.isolation import cgroups
from volcano.nodes.shim.isolation.namespaces import NamespaceIsolation
from volcano.nodes.shim.specs import Failure

PODS = 10


def test_pods_that_come_and_go_leave_nothing(setting: Setting) -> None:
    def body(shim: ForkedShim) -> dict[str, object]:
        before = len(open_descriptors()), Path("/proc/self/mounts").read_text()
        for number in range(PODS):
            pod = shim.pod(f"pod-{number}", share_pid=number % 4 == 0)
            shim.run(pod, "echo x >/tmp/x")
            shim.isolation.remove(pod)
        after = len(open_descriptors()), Path("/proc/self/mounts").read_text()
        return {
            "descriptors": after[0] - before[0],
            "mounts": after[1] == before[1],
            "interfaces": soon_none(shim),
            "directories": [str(path) for path in shim.directory.glob("pods/*/*")],
            "groups": groups_of(shim.directory),
            "children": children(),
        }

    left = in_shim(setting, body)
    outposts = 1 if setting.user else 0
    assert left == {
        "descriptors": 0,
        "mounts": True,
        "interfaces": [],
        "directories": [],
        "groups": [],
        "children": outposts,
    }


def test_a_failed_start_leaves_nothing(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[int, int, list[str]]:
        pod = shim.pod()
        before = len(open_descriptors())
        for attempt in range(3):
            with pytest.raises(Failure, match="nonesuch"):
                shim.run(pod, command=("nonesuch",), attempt=attempt)
        return len(open_descriptors()) - before, children(), sorted(os.listdir(pod.directory))

    descriptors, running, files = in_shim(setting, body)
    assert (descriptors, files) == (0, [".shm"])
    assert running == (1 if setting.user else 0)


def test_a_large_root_is_deleted_in_the_background(as_root: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[bool, bool]:
        pod = shim.pod()
        shim.run(pod, "mkdir /many; cd /many; seq 1 3000 | xargs touch")
        at_once = os.path.exists(os.path.join(pod.directory, "main"))
        trash = shim.directory / "isolation" / "trash"
        for _ in range(500):
            if not os.listdir(trash):
                break
            time.sleep(0.01)
        return at_once, os.listdir(trash) == []

    assert in_shim(as_root, body) == (False, True)


def test_everything_ends_with_a_shim_that_is_killed(setting: Setting) -> None:
    with directory_for(setting.user) as directory:
        left = in_child(lambda: killed(setting, directory))
        assert left == [], "containers, executed processes, and the holders of their namespaces"
        assert str(directory) not in Path("/proc/self/mounts").read_text()
        removed = reopened(setting, directory)
        assert removed == ["isolation", "pods"]
        assert groups_of(directory) == []


def killed(setting: Setting, directory: Path) -> list[int]:
    """Processes that remain after a shim with three containers was killed."""
    read, write = os.pipe()
    shim = os.fork()
    if shim == 0:
        try:
            become(setting.user)
            isolation = NamespaceIsolation(setting.mode, str(directory))
            isolation.open()
            forked = ForkedShim(isolation, directory)
            own = forked.start(forked.pod("a"), "setsid -f sleep 1000; echo up; exec sleep 1000")
            own.line()
            shared = forked.start(forked.pod("b", share_pid=True), "echo up; exec sleep 1000")
            shared.line()
            outside = forked.start(forked.pod("c", host_network=True), "echo up; exec sleep 1000")
            outside.line()
            further = own.started(("sleep", "1000"))
            os.write(write, " ".join(map(str, [own.pid, shared.pid, outside.pid, further.pid])).encode())
            signal.pause()
        finally:
            os._exit(1)
    os.close(write)
    told = os.read(read, 256)
    os.close(read)
    assert told, "the shim got that far"
    pids = [*map(int, told.split()), *children_of(shim)]
    os.kill(shim, signal.SIGKILL)
    os.waitpid(shim, 0)
    for _ in range(500):
        if not any(map(alive, pids)):
            break
        time.sleep(0.01)
    return [pid for pid in pids if alive(pid)]


def reopened(setting: Setting, directory: Path) -> list[str]:
    """Opens a shim in the same directory; returns what is in it meanwhile."""

    def again() -> list[str]:
        become(setting.user)
        isolation = NamespaceIsolation(setting.mode, str(directory))
        isolation.open()
        found = sorted(os.listdir(directory))
        assert list(directory.glob("pods/*/*")) == []
        isolation.close()
        return found

    return in_child(again)


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def children() -> int:
    return len(children_of(os.getpid()))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def soon_none(shim: ForkedShim) -> list[str]:
    """The pods' interfaces in the pod network, once the kernel has removed the namespaces."""
    for _ in range(500):
        if not shim.isolation._pod_network.interfaces():
            break
        time.sleep(0.01)
    return shim.isolation._pod_network.interfaces()


def groups_of(directory: Path) -> list[str]:
    name = cgroups.cluster_id(str(directory))
    return [
        str(group)
        for hierarchy in cgroups.discover()
        for group in Path(hierarchy.base, cgroups.TOP_DIRECTORY, name).glob("*/")
    ]
