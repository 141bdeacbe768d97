"""Limits are enforced, usage is reported, and the cgroups of a killed shim are found and removed."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, directory_for, in_child, in_shim
from volcano.nodes.shim.isolation import cgroups, removal
from volcano.nodes.shim.isolation.cgroups import CgroupLimits, Cgroups, Hierarchy
from volcano.nodes.shim.isolation.namespaces import NamespaceIsolation

MEBIBYTE = 1 << 20


@pytest.fixture
def with_groups(as_root: Setting) -> Setting:
    controllers = {name for each in cgroups.discover() for name in each.controllers}
    if not {"cpu", "memory", "pids"} <= controllers:
        pytest.skip(f"the control groups that can be written here have only {sorted(controllers)}")
    return as_root


def python(code: str) -> tuple[str, ...]:
    return ("/usr/bin/python3", "-c", code)


def test_a_container_beyond_its_memory_is_killed_and_that_is_known(with_groups: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[int, bool, int, bool]:
        pod = shim.pod()
        greedy = shim.run(pod, command=python("x = b'x' * (200 << 20)"), memory_limit=50 * MEBIBYTE)
        modest = shim.run(pod, "exit 0", memory_limit=50 * MEBIBYTE, attempt=1)
        return greedy.code, greedy.out_of_memory, modest.code, modest.out_of_memory

    assert in_shim(with_groups, body) == (137, True, 0, False)


def test_a_container_finds_its_own_limits_where_programs_look_for_them(with_groups: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        look = (
            "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes memory.max 2>/dev/null; exec 2>&1; touch x"
        )
        return shim.run(shim.pod(), look, memory_limit=50 * MEBIBYTE).lines

    limit, refused = in_shim(with_groups, body)
    assert limit == str(50 * MEBIBYTE)
    assert "Read-only file system" in refused


def test_a_pod_s_limit_holds_for_its_containers_together(with_groups: Setting) -> None:
    def body(shim: ForkedShim) -> bool:
        pod = shim.pod(memory_limit=50 * MEBIBYTE)
        return shim.run(pod, command=python("x = b'x' * (200 << 20)")).code == 137

    assert in_shim(with_groups, body)


def test_a_fork_bomb_stays_in_its_pod(with_groups: Setting) -> None:
    code = "import os, signal\nfor _ in range(100):\n if os.fork() == 0: signal.pause()"

    def body(shim: ForkedShim) -> str:
        return shim.run(shim.pod(pids_limit=20), command=python(code)).output

    assert "BlockingIOError" in in_shim(with_groups, body)


def test_cpu_limits_are_enforced_and_usage_is_reported(with_groups: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[float, float, int]:
        pod = shim.pod()
        running = shim.start(pod, command=python("print('up', flush=True)\nwhile True: pass"), cpu_limit=0.2)
        running.line()
        began = time.monotonic()
        before = shim.isolation.usage(pod, running.spec, running.pid)
        time.sleep(0.5)
        after = shim.isolation.usage(pod, running.spec, running.pid)
        elapsed = time.monotonic() - began
        running.signal(signal.SIGKILL)
        running.ended()
        assert before is not None
        assert after is not None
        return after.cpu_seconds - before.cpu_seconds, elapsed, after.memory_bytes

    seconds, elapsed, memory = in_shim(with_groups, body)
    assert 0 < seconds < 0.2 * elapsed + 0.15  # and a period or two of grace
    assert MEBIBYTE < memory < 100 * MEBIBYTE


def test_without_groups_usage_is_that_of_the_processes(as_nobody: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[float, int]:
        pod = shim.pod()
        code = "for _ in range(10**6): pass\nprint('up', flush=True)\nimport time; time.sleep(100)"
        running = shim.start(pod, command=python(code))
        running.line()
        used = shim.isolation.usage(pod, running.spec, running.pid)
        running.signal(signal.SIGKILL)
        running.ended()
        assert used is not None
        return used.cpu_seconds, used.memory_bytes

    seconds, memory = in_shim(as_nobody, body)
    assert seconds > 0.01
    assert memory > MEBIBYTE


def test_a_shim_that_was_killed_leaves_nothing_after_the_next_cleanup(with_groups: Setting) -> None:
    """Any shim that starts removes leftovers, so that one of another test may do it first."""
    with directory_for(0) as directory:
        survivor = in_child(lambda: killed_shim(directory))
        name = cgroups.cluster_id(str(directory))
        removed = in_child(lambda: remove_leftovers(str(directory)))
        assert str(directory / "pods" / "a" / "sandbox") in removed
        assert not any(Path(each.base, cgroups.TOP_DIRECTORY, name).exists() for each in cgroups.discover())
        assert not (directory / "pods" / "a" / "sandbox").exists()
        assert not Path(f"/proc/{survivor}").exists(), "the container had died with its shim"
        assert str(directory) not in Path("/proc/self/mounts").read_text()


def remove_leftovers(directory: str) -> list[str]:
    """What a shim does when it opens its isolation; returns what was removed."""
    removed = cgroups.remove_orphaned(cgroups.discover(), cgroups.cluster_id(directory))
    return [*removed, *removal.remove_leftovers(directory, f"{directory}/isolation")]


def killed_shim(directory: Path) -> int:
    """Kills a shim with a running container; returns the container's pid after its exit."""
    read, write = os.pipe()
    shim = os.fork()
    if shim == 0:
        isolation = NamespaceIsolation("netns", str(directory))  # type: ignore[arg-type]
        isolation.open()
        forked = ForkedShim(isolation, directory)
        running = forked.start(forked.pod(), "echo up; exec sleep 1000")
        running.line()
        os.write(write, str(running.pid).encode())
        signal.pause()
    os.close(write)
    pid = int(os.read(read, 32))
    os.kill(shim, signal.SIGKILL)
    os.waitpid(shim, 0)
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.01)
    return pid


def test_cleanup_kills_processes_in_cgroups_without_a_shim(with_groups: Setting) -> None:
    groups = Cgroups("0000000000000000", cgroups.discover())
    groups.open()
    joined = groups.create("pod/main", CgroupLimits(pids_limit=5), leaf=True)
    ready_read, ready_write = os.pipe()
    survivor = os.fork()
    if survivor == 0:
        try:
            for lock in groups._locks:
                os.close(lock)
            cgroups.join(joined)
            os.write(ready_write, b"1")
            signal.pause()
        finally:
            os._exit(0)
    os.read(ready_read, 1)
    kept = cgroups.remove_orphaned(cgroups.discover(), "0000000000000000")
    for descriptor in (*groups._locks, ready_read, ready_write):
        os.close(descriptor)
    removed = cgroups.remove_orphaned(cgroups.discover(), "0000000000000000")
    assert not any("0000000000000000" in path for path in kept), (
        "cgroups that another shim has locked are kept"
    )
    ours = {os.path.join(each.base, cgroups.TOP_DIRECTORY, groups.name) for each in groups.hierarchies}
    assert {path for path in removed if groups.name in path} <= ours, (
        "some may be removed by a shim that starts now"
    )
    assert os.waitpid(survivor, 0)[1] == signal.SIGKILL
    assert not any(os.path.exists(directory) for directory in joined)


def test_cleanup_keeps_the_cgroups_of_a_running_shim(with_groups: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[list[str], bool]:
        running = shim.start(shim.pod(), "echo up; exec sleep 1000")
        running.line()
        removed = [
            path
            for path in remove_leftovers("/nonexistent")
            if cgroups.cluster_id(str(shim.directory)) in path
        ]
        alive = Path(f"/proc/{running.pid}/stat").exists()
        running.signal(signal.SIGKILL)
        running.ended()
        return removed, alive

    assert in_shim(with_groups, body) == ([], True)


def test_limits_as_settings_of_version_1() -> None:
    assert cgroups.version_1(CgroupLimits(0.5, 1.5, 1024, 10, (0, 2))) == {
        "cpuset.cpus": "0,2",
        "cpu.shares": "512",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "memory.limit_in_bytes": "1024",
        "memory.memsw.limit_in_bytes": "1024",
        "pids.max": "10",
    }
    assert cgroups.version_1(CgroupLimits()) == {}


def test_limits_as_settings_of_version_2() -> None:
    assert cgroups.version_2(CgroupLimits(1.0, 0.001, 1024, 10, (0, 2))) == {
        "cpuset.cpus": "0,2",
        "cpu.weight": "39",
        "cpu.max": "1000 100000",
        "memory.max": "1024",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "10",
    }
    assert cgroups.version_2(CgroupLimits()) == {}


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    """A tree of plain files in the shape of version 2: a session's group below one that was delegated."""
    for group in ("", "user.slice", "user.slice/user@1000.service", "user.slice/user@1000.service/app.slice"):
        directory = tmp_path / group
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (directory / "cgroup.subtree_control").write_text("")
        (directory / "cgroup.procs").write_text("")
        if group:
            (directory / "cgroup.type").write_text("domain\n")
    (tmp_path / "user.slice/user@1000.service/app.slice/cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "mounts").write_text(f"cgroup2 {tmp_path} cgroup2 rw,nosuid 0 0\ntmpfs /tmp tmpfs rw 0 0\n")
    (tmp_path / "own").write_text("0::/user.slice/user@1000.service/app.slice\n")
    return tmp_path


def test_root_uses_the_root_of_version_2(version_2: Path) -> None:
    found = cgroups.discover(str(version_2 / "mounts"), str(version_2 / "own"))
    assert found == (Hierarchy(str(version_2), frozenset({"cpu", "cpuset", "memory", "pids"}), 2),)


def test_a_user_uses_the_highest_group_that_is_delegated_and_empty(version_2: Path) -> None:
    (version_2 / "cgroup.type").write_text("domain\n")
    (version_2 / "cgroup.procs").write_text("1\n")
    (version_2 / "user.slice/cgroup.procs").write_text("2\n")
    (found,) = cgroups.discover(str(version_2 / "mounts"), str(version_2 / "own"))
    assert found.base == str(version_2 / "user.slice/user@1000.service")


def test_without_a_group_of_our_own_there_are_no_limits(version_2: Path) -> None:
    for procs in version_2.rglob("cgroup.procs"):
        procs.write_text("1\n")
    (version_2 / "cgroup.type").write_text("domain\n")
    assert cgroups.discover(str(version_2 / "mounts"), str(version_2 / "own")) == ()


def test_groups_of_version_2_pass_their_controllers_down_to_a_container(version_2: Path) -> None:
    hierarchy = Hierarchy(str(version_2), frozenset({"cpu", "memory"}), 2)
    groups = Cgroups("cluster", (hierarchy,))
    groups.open()
    groups.create("pod", CgroupLimits(), leaf=False)
    (directory,) = groups.create("pod/main", CgroupLimits(cpu_limit=2.0, memory_limit=4096), leaf=True)
    assert directory == str(version_2 / "volcano/cluster/pod/main")
    assert Path(directory, "cpu.max").read_text() == "200000 100000"
    assert Path(directory, "memory.max").read_text() == "4096"
    assert not Path(directory, "pids.max").exists(), "a controller that is not there is not set"
    for above in ("volcano/cluster/pod", "volcano/cluster", "volcano", "."):
        assert (version_2 / above / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert not Path(directory, "cgroup.subtree_control").exists()
    (Path(directory) / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (Path(directory) / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (Path(directory) / "memory.current").write_text("1000\n")
    (Path(directory) / "memory.stat").write_text("anon 600\ninactive_file 300\n")
    assert groups.oom_killed("pod/main")
    assert groups.usage("pod/main") == (2.5, 700)


def test_a_container_of_version_2_is_limited_to_its_cpus(version_2: Path) -> None:
    groups = Cgroups("cluster", (Hierarchy(str(version_2), frozenset({"cpu", "cpuset"}), 2),))
    groups.open()
    groups.create("pod", CgroupLimits(), leaf=False)
    (directory,) = groups.create("pod/main", CgroupLimits(cpus=(1, 3)), leaf=True)
    assert Path(directory, "cpuset.cpus").read_text() == "1,3"
    (other,) = groups.create("pod/other", CgroupLimits(), leaf=True)
    assert not Path(other, "cpuset.cpus").exists()


def test_a_container_of_version_1_is_limited_to_its_cpus(tmp_path: Path) -> None:
    (tmp_path / "cpuset.cpus").write_text("0-3\n")
    (tmp_path / "cpuset.mems").write_text("0\n")
    groups = Cgroups("cluster", (Hierarchy(str(tmp_path), frozenset({"cpuset"}), 1),))
    groups.open()
    assert groups.create("pod", CgroupLimits(), leaf=False) == []
    assert groups.create("pod/shared", CgroupLimits(), leaf=True) == []
    (directory,) = groups.create("pod/main", CgroupLimits(cpus=(2,)), leaf=True)
    assert Path(directory, "cpuset.cpus").read_text() == "2"
    for above in (".", "..", "../.."):
        inherited = Path(directory).parent / above
        assert (inherited / "cpuset.cpus").read_text() == "0-3"
        assert (inherited / "cpuset.mems").read_text() == "0"
    assert groups.create("pod/main", CgroupLimits(), leaf=True) == [directory]  # for what is executed in it
    assert Path(directory, "cpuset.cpus").read_text() == "2"


def test_a_container_sees_and_keeps_its_cpus(with_groups: Setting) -> None:
    (cpu, *others) = sorted(os.sched_getaffinity(0))
    if not others or "cpuset" not in {name for each in cgroups.discover() for name in each.controllers}:
        pytest.skip("one CPU only, or no cpuset that can be written")
    # The cgroup holds even a program that asks for other CPUs.
    escape = f"import os; os.sched_setaffinity(0, {{{cpu}, {others[0]}}}); print(os.sched_getaffinity(0))"

    def body(shim: ForkedShim) -> list[str]:
        return shim.run(shim.pod(), command=python(escape), cpus=(cpu,)).lines

    assert in_shim(with_groups, body) == [f"{{{cpu}}}"]


def test_groups_of_version_2_on_a_real_kernel(as_root: Setting) -> None:
    """Cgroups are created, joined, locked and removed with any set of controllers."""
    mounts = (line.split(" ") for line in Path("/proc/self/mounts").read_text().splitlines())
    base = next(
        (point for _, point, kind, *_ in mounts if kind == "cgroup2" and os.access(point, os.W_OK)), None
    )
    if base is None:
        pytest.skip("no cgroup2 is mounted, or none that can be written")
    groups = Cgroups("1111111111111111", (Hierarchy(base, frozenset(), 2),))
    groups.open()
    assert len(groups.hierarchies) == 1
    groups.create("pod", CgroupLimits(), leaf=False)
    joined = groups.create("pod/main", CgroupLimits(), leaf=True)

    def own_group() -> str:
        cgroups.join(joined)
        return Path("/proc/self/cgroup").read_text()

    assert "0::/volcano/1111111111111111/pod/main\n" in in_child(own_group)
    assert cgroups.remove_orphaned(groups.hierarchies, groups.name) == []
    groups.remove("pod")
    assert not os.path.exists(os.path.dirname(joined[0]))
    groups.close()
    assert not os.path.exists(os.path.join(base, cgroups.TOP_DIRECTORY, groups.name))
