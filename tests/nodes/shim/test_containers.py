"""Plain containers in a real shim: start, output and exit."""

import asyncio
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.shim.rig import Rig, read_all, until
from volcano.nodes.shim import processes
from volcano.nodes.shim.specs import Failure, Identity, Mount, Security


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        pytest.param("exit 0", 0, "Completed", id="success"),
        pytest.param("exit 3", 3, "Error", id="failure"),
        pytest.param("kill -TERM $$", 143, "Error", id="a signal"),
        pytest.param("kill -KILL $$", 137, "Error", id="kill"),
    ],
)
async def test_a_container_ends_with_the_exit_code_of_its_program(
    rig: Rig, script: str, code: int, reason: str
) -> None:
    state = await rig.shell(script)
    assert (state.exit_code, state.reason, state.pid) == (code, reason, 0)
    assert 0 < state.started <= state.finished


async def test_the_seccomp_profile_applies_to_plain_processes_and_their_children(rig: Rig) -> None:
    number = {"x86_64": 250, "aarch64": 219}[platform.machine()]  # keyctl
    script = (
        f"import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall({number}, 0, -3, 0) >= 0)"
    )
    command = ("sh", "-c", f"{sys.executable} -c '{script}'")
    await rig.run(*command, security=Security(default_seccomp=True))
    assert rig.output() == ["False"]
    await rig.run(*command, name="free")
    assert rig.output("free") == ["True"]


async def test_output_is_logged_with_its_stream_before_the_exit_is_reported(rig: Rig) -> None:
    await rig.shell("echo out; echo err >&2; printf 'no newline'")
    assert sorted(rig.log()) == [
        ("stderr", "F", "err"),
        ("stdout", "F", "out"),
        ("stdout", "P", "no newline"),
    ]


async def test_a_container_sees_its_environment_and_own_directories(rig: Rig) -> None:
    await rig.shell('echo "$GREETING"; echo "$HOME"; echo "$TMPDIR"; pwd', environment={"GREETING": "hello"})
    greeting, home, temporary, directory = rig.output()
    own = str(rig.directory / "pods" / rig.pod / "sandbox")
    assert greeting == "hello"
    assert [home, temporary, directory] == [f"{own}/_home", f"{own}/_tmp", f"{own}/main/root"]


async def test_nothing_of_the_shim_reaches_a_program(rig: Rig) -> None:
    await rig.shell(
        "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f4-6 /proc/$$/stat; echo $$"
    )
    *descriptors, blocked, ignored, ids, pid = rig.output()
    assert descriptors == ["0", "1", "2", "3"]  # the fourth is what `ls` has open itself
    assert int(blocked.split()[1], 16) == 0
    # Signals 32 and 33 are reserved by the C library; processes started by make ignore them.
    assert int(ignored.split()[1], 16) & ~(0b11 << 31) == 0
    assert ids.split()[1:] == [pid, pid]  # process group and session


async def test_signals_that_the_shell_of_the_user_ignores_reach_a_program(own_directory: Path) -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGQUIT, signal.SIGUSR1)}
    rig = Rig(own_directory)
    try:
        await rig.open()
        await rig.shell("grep SigIgn /proc/self/status")
        (ignored,) = rig.output()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        await rig.close(keep=False)
    assert int(ignored.split()[1], 16) & (1 << signal.SIGQUIT - 1 | 1 << signal.SIGUSR1 - 1) == 0


async def test_mounts_are_found_below_the_root_and_by_name(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text("hello\n")
    mount = Mount(str(tmp_path), "/etc/volcano-data")
    script = 'cat "$VOLCANO_ROOT/etc/volcano-data/greeting" "$VOLCANO_MOUNT_ETC_VOLCANO_DATA/greeting"'
    await rig.shell(script, mounts=(mount,))
    assert rig.output() == ["hello", "hello"]


async def test_a_mount_within_another_is_found_by_name_and_writes_nothing_there(
    rig: Rig, tmp_path: Path
) -> None:
    for name in ("outer", "inner"):
        (tmp_path / name).mkdir()
    mounts = (Mount(str(tmp_path / "inner"), "/data/inner"), Mount(str(tmp_path / "outer"), "/data"))
    await rig.shell('echo "$VOLCANO_MOUNT_DATA_INNER"; touch "$VOLCANO_ROOT/data/file"', mounts=mounts)
    assert rig.output() == [str(tmp_path / "inner")]
    assert os.listdir(tmp_path / "outer") == ["file"]


@pytest.mark.parametrize("target", ["/", "/../escape", "//double//slash"])
async def test_an_odd_mount_path_leads_nowhere_else(rig: Rig, tmp_path: Path, target: str) -> None:
    (tmp_path / "volume").mkdir()
    assert (await rig.shell("true", mounts=(Mount(str(tmp_path / "volume"), target),))).exit_code == 0
    assert os.listdir(tmp_path) == ["volume"]
    assert sorted(os.listdir(rig.directory / "pods" / rig.pod / "sandbox")) == ["_home", "_tmp", "main"]


async def test_each_attempt_begins_with_an_empty_root(rig: Rig) -> None:
    await rig.shell("touch left-over")
    await rig.shell("ls", attempt=1)
    assert rig.log_path(attempt=1).exists() is False


async def test_a_working_directory_in_a_volume_is_the_volume(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    await rig.shell("pwd", working_directory="/data/below", mounts=(Mount(str(tmp_path), "/data"),))
    assert rig.output() == [str(tmp_path / "below")]


@pytest.mark.parametrize(
    ("command", "rest", "message", "code"),
    [
        pytest.param(
            ["no-such-program"],
            {},
            'exec: "no-such-program": executable file not found in $PATH',
            127,
            id="not on PATH",
        ),
        pytest.param(
            ["/no/such"],
            {},
            'exec: "/no/such": stat /no/such: no such file or directory',
            127,
            id="no such file",
        ),
        pytest.param(["/etc/passwd"], {}, 'exec: "/etc/passwd": permission denied', 126, id="not executable"),
        pytest.param(["/etc"], {}, 'exec: "/etc": permission denied', 126, id="a directory"),
        pytest.param(
            ["true"],
            {"working_directory": "/no/such"},
            'chdir: "/no/such": no such file or directory',
            126,
            id="no such working directory",
        ),
    ],
)
async def test_a_program_that_cannot_start_is_a_start_error(
    rig: Rig, command: list[str], rest: dict[str, Any], message: str, code: int
) -> None:
    with pytest.raises(Failure, match=r".*") as caught:
        await rig.start(*command, **rest)
    assert (caught.value.reason, caught.value.message, caught.value.exit_code) == (
        "StartError",
        message,
        code,
    )


async def test_a_file_that_is_not_executable_is_a_start_error(rig: Rig, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo no first line\n")
    script.chmod(0o755)
    with pytest.raises(Failure, match="exec format error"):
        await rig.start(str(script))


async def test_a_container_without_a_command_fails_because_images_are_not_used(rig: Rig) -> None:
    with pytest.raises(Failure, match="cannot know the entrypoint of 'image'") as caught:
        await rig.start()
    assert caught.value.reason == "CreateContainerError"


async def test_a_container_without_a_sandbox_fails(rig: Rig) -> None:
    with pytest.raises(Failure, match="has no sandbox"):
        await rig.runtime.start(rig.spec("true"))


async def test_starting_one_attempt_twice_starts_it_once(rig: Rig) -> None:
    first = await rig.start("sleep", "60")
    assert await rig.start("sleep", "60") == first
    with pytest.raises(Failure, match="still running"):
        await rig.start("sleep", "60", attempt=1)


async def test_each_attempt_has_its_own_end_and_log(rig: Rig) -> None:
    await rig.shell("echo first; exit 1")
    state = await rig.shell("echo second", attempt=1)
    assert (state.attempt, state.exit_code) == (1, 0)
    assert rig.log_path(attempt=0).read_text().endswith("first\n")
    assert rig.log_path(attempt=1).read_text().endswith("second\n")


async def test_a_signal_reaches_the_program(rig: Rig) -> None:
    await rig.start("sh", "-c", "trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.01; done")
    await until(lambda: rig.log_path().exists() and rig.output())
    await rig.runtime.signal(rig.pod, "main", signal.SIGUSR1)
    assert (await rig.ended()).exit_code == 5
    assert rig.output() == ["ready", "got it"]


async def test_a_signal_to_an_exited_container_is_no_error(rig: Rig) -> None:
    await rig.shell("true")
    await rig.runtime.signal(rig.pod, "main", signal.SIGTERM)
    await rig.runtime.signal("unknown", "main", signal.SIGTERM)


DAEMON = "(setsid sh -c 'trap \"\" TERM HUP; sleep 61 & sleep 62' >/dev/null 2>&1 &) ; sleep 0.1"


async def test_daemons_end_with_their_container(rig: Rig) -> None:
    state = await rig.shell(f"{DAEMON}; exit 7")
    assert state.exit_code == 7
    assert rig.processes() == []


async def test_kill_ends_the_whole_tree(rig: Rig) -> None:
    await rig.start("sh", "-c", f"{DAEMON}; sleep 63")
    await until(lambda: len(rig.processes()) >= 4, "the tree never grew")
    await rig.runtime.signal(rig.pod, "main", signal.SIGKILL)
    assert (await rig.ended()).exit_code == 137
    assert rig.processes() == []


async def test_a_supervisor_that_is_killed_takes_its_tree_with_it(rig: Rig) -> None:
    state = await rig.start("sh", "-c", f"{DAEMON}; sleep 63")
    await until(lambda: len(rig.processes()) >= 4, "the tree never grew")
    os.kill(state.pid, signal.SIGKILL)
    assert (await rig.ended()).exit_code == 137
    await until(lambda: rig.processes() == [], "its tree outlived it")


async def test_removing_a_sandbox_ends_what_runs_in_it(rig: Rig) -> None:
    await rig.start("sh", "-c", f"{DAEMON}; sleep 63")
    await rig.runtime.remove_sandbox(rig.pod)
    assert rig.processes() == []
    assert not (rig.directory / "shim" / "state" / rig.pod).exists()
    assert not (rig.directory / "pods" / rig.pod / "sandbox").exists()
    assert (await rig.ended()).exit_code == 137


async def test_removing_a_sandbox_that_is_not_there_is_no_error(rig: Rig) -> None:
    await rig.runtime.remove_sandbox("unknown")


async def test_each_pod_has_an_address_and_keeps_it(rig: Rig) -> None:
    first = await rig.sandbox()
    assert await rig.sandbox() == first
    second = await rig.sandbox("another")
    assert second.address != first.address
    assert first.address.startswith("127.88.")
    await rig.runtime.remove_sandbox("another")


async def test_a_container_over_its_memory_limit_is_killed_for_it(rig: Rig) -> None:
    state = await rig.run(
        "python3", "-c", "import time; x = bytearray(100 << 20); time.sleep(60)", memory_limit=32 << 20
    )
    assert (state.exit_code, state.reason) == (137, "OOMKilled")


async def test_usage_counts_the_whole_tree(rig: Rig) -> None:
    script = "python3 -c 'import time\nx = bytearray(40 << 20)\nfor _ in range(3000000): pass\ntime.sleep(60)' & wait"
    await rig.start("sh", "-c", script)

    async def used() -> bool:
        return any(
            usage.memory_bytes > 40 << 20 and usage.cpu_seconds > 0.02
            for usage in await rig.runtime.usage()
            if (usage.pod, usage.name) == (rig.pod, "main")
        )

    async with asyncio.timeout(10):
        while not await used():
            await asyncio.sleep(0.05)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as others")
async def test_root_runs_containers_as_the_requested_user(rig: Rig) -> None:
    await rig.shell("id -u; id -g; id -G; pwd", identity=Identity(user=1234, group=2345, groups=(3456,)))
    assert rig.output()[:3] == ["1234", "2345", "2345 3456"]


async def test_two_hundred_short_containers_leave_nothing_behind(rig: Rig) -> None:
    await rig.sandbox()
    pid = rig.runtime.pid
    before = len(os.listdir(f"/proc/{pid}/fd"))
    specs = [rig.spec("true", name=f"c{number}") for number in range(200)]
    await asyncio.gather(*(rig.runtime.start(spec) for spec in specs))
    codes = [(await rig.ended(spec.name)).exit_code for spec in specs]
    assert codes == [0] * 200
    assert len(os.listdir(f"/proc/{pid}/fd")) == before
    assert processes.children(pid) == []


async def test_a_container_and_what_is_executed_in_it_run_on_its_cpus(rig: Rig) -> None:
    cpu = max(os.sched_getaffinity(0))
    show = "import os; print(*sorted(os.sched_getaffinity(0)), flush=True); input()"
    await rig.start("python3", "-c", show, cpus=(cpu,), stdin=True)
    process = await rig.runtime.execute(rig.pod, "main", ["nproc"])
    assert await read_all(process.stdout) == b"1\n"
    await process.wait()
    process.close()
    await until(lambda: rig.log_path().exists() and rig.log()[:1] and rig.log()[0].text == str(cpu))
    await rig.runtime.signal(rig.pod, "main", signal.SIGKILL)
    await rig.ended()


async def test_cpus_that_do_not_exist_are_named(rig: Rig) -> None:
    with pytest.raises(Failure, match=r"cannot run on CPUs 8000: .*; are they online") as caught:
        await rig.start("true", cpus=(8000,))
    assert caught.value.reason == "RunContainerError"
