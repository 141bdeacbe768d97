"""The same shim with namespaces: what the plain tests show holds there too, and nothing is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.nodes.shim.rig import Rig, read_all, read_until, until
from volcano.nodes.runtimes.probe import probe
from volcano.nodes.runtimes.process import ProcessRuntime, cleanup
from volcano.nodes.runtimes.shim_launch import shim_pid
from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation import cgroups
from volcano.nodes.shim.specs import Failure, Mode

pytestmark = pytest.mark.slow


@pytest.fixture(params=[Mode.NETNS, Mode.USERNS])
def mode(request: pytest.FixtureRequest) -> Mode:
    found = probe(request.param)
    if not found.available:
        pytest.skip(found.reason)
    return Mode(request.param)


@pytest.fixture
async def rig(mode: Mode, tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, mode=mode)
    await rig.open()
    yield rig
    await rig.runtime.close(keep=False)
    await nothing_is_left(tmp_path)


async def nothing_is_left(directory: Path) -> None:
    assert shim_pid(directory) == 0
    await until(lambda: not mentioned(directory), f"processes or mounts of {directory} are left")
    assert not cgroups_of(directory)


def mentioned(directory: Path) -> list[str]:
    """Processes with a mount or an argument below a directory: those of our own are not meant."""
    found = []
    for pid in processes.every_pid():
        if pid != os.getpid() and str(directory) in " ".join(processes.command_line(pid)):
            found.append(f"process {pid}")
    with open("/proc/self/mounts") as mounts:
        return found + [line for line in mounts if str(directory) in line]


def cgroups_of(directory: Path) -> list[str]:
    name = cgroups.cluster_id(os.path.realpath(directory))
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if name in path]


async def test_a_container_runs_writes_output_and_ends(rig: Rig) -> None:
    state = await rig.shell("hostname; echo $$; echo bad >&2; exit 3")
    assert (state.exit_code, state.reason) == (3, "Error")
    assert [line.text for line in rig.log() if line.stream == "stdout"] == ["p", "1"]
    with pytest.raises(Failure, match="executable file not found") as caught:
        await rig.start("no-such-program", name="missing")
    assert caught.value.reason == "StartError"


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


async def test_exec_attach_and_terminals_work(rig: Rig) -> None:
    await rig.start("sh", "-c", "read line; echo got $line; test -t 0; exit $?", stdin=True, tty=True)
    process = await rig.runtime.execute(rig.pod, "main", ["sh", "-i"], stdin=True, tty=True)
    assert process.stdin is not None
    process.resize(33, 77)
    os.write(process.stdin, b"stty size; tty; exit 4\n")
    assert b"33 77\r\n/dev/pts/" in await read_until(process.stdout, b"/dev/pts/")
    assert await process.wait() == 4
    process.close()
    attached = await rig.runtime.attach(rig.pod, "main")
    assert attached.stdin is not None
    os.write(attached.stdin, b"fish\n")
    assert b"got fish" in await read_all(attached.stdout)
    assert await attached.wait() == 0
    attached.close()


async def test_a_killed_exec_and_a_killed_container_leave_no_process(rig: Rig) -> None:
    state = await rig.start("sh", "-c", "sleep 1000 & sleep 1001 & wait")
    process = await rig.runtime.execute(rig.pod, "main", ["sleep", "1002"])
    process.close()
    assert await process.wait() == 137
    tree = [state.pid, *processes.descendants(state.pid)]
    await rig.runtime.signal(rig.pod, "main", signal.SIGKILL)
    assert (await rig.ended()).exit_code == 137
    await until(lambda: not any(map(processes.start_time, tree)))


def has_output(rig: Rig, name: str) -> bool:
    return rig.log_path(name).exists() and bool(rig.log(name))


async def test_the_first_process_ends_at_a_signal_that_it_does_not_handle(rig: Rig) -> None:
    await rig.start("sh", "-c", "echo up; sleep 1000; echo more")
    await until(lambda: rig.log_path().exists() and rig.log())
    await rig.runtime.signal(rig.pod, "main", signal.SIGTERM)
    assert (await rig.ended()).exit_code == 128 + signal.SIGTERM


async def test_the_first_process_may_handle_ignore_and_wait_for_signals(rig: Rig) -> None:
    waits = "import signal; signal.pthread_sigmask(0, [15]); print('up', flush=True); signal.sigwait([15]); exit(9)"
    await rig.start("python3", "-c", waits, name="waits")
    ignores = "trap '' TERM; trap 'exit 8' USR1; echo up; while :; do sleep 0.01; done"
    await rig.start("sh", "-c", ignores, name="ignores")
    for name in ("waits", "ignores"):
        await until(partial(has_output, rig, name))
        await rig.runtime.signal(rig.pod, name, signal.SIGTERM)
    assert (await rig.ended("waits")).exit_code == 9
    await rig.runtime.signal(rig.pod, "ignores", signal.SIGUSR1)
    assert (await rig.ended("ignores")).exit_code == 8


async def test_pods_are_reached_and_reach_us_on_their_own_network(rig: Rig) -> None:
    serve = "import socket; s = socket.create_server(('0.0.0.0', 80)); c, _ = s.accept(); c.sendall(b'pod')"
    await rig.start("python3", "-c", serve)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        while True:
            try:
                connection = await rig.runtime.connect(rig.pod, 80)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
    assert await loop.sock_recv(connection, 10) == b"pod"
    connection.close()
    listening = await rig.runtime.listen("10.96.0.1", 443)
    assert listening is not None
    listening.close()
    await rig.runtime.close(keep=True)
    await rig.open()
    again = await rig.runtime.listen("10.96.0.1", 443)
    assert again is not None
    call = "import socket; s = socket.create_connection(('10.96.0.1', 443)); print(s.recv(10).decode())"
    await rig.start("python3", "-c", call, name="caller")
    caller, _ = await asyncio.wait_for(loop.sock_accept(again), 10)
    await loop.sock_sendall(caller, b"api")
    caller.close()
    again.close()
    assert (await rig.ended("caller")).exit_code == 0
    assert rig.output("caller") == ["api"]


async def test_a_shim_that_is_killed_is_replaced(rig: Rig) -> None:
    await rig.start("sleep", "1000")
    address = (await rig.sandbox()).address
    os.kill(rig.runtime.pid, signal.SIGKILL)
    assert (await rig.ended()).reason == "ContainerStatusUnknown"
    async with asyncio.timeout(20):
        while not rig.runtime.pid:
            await asyncio.sleep(0.05)
    state = await rig.runtime.start(rig.spec("sleep", "1000", attempt=1))
    assert state.running
    assert (await rig.sandbox()).address == address


CLIENT = """
import asyncio, sys
from pathlib import Path
from tests.nodes.shim.rig import Rig

async def main():
    rig = Rig(Path(sys.argv[1]), mode=sys.argv[2])
    rig.pod = "pod"
    await rig.open()
    await rig.start("sh", "-c", "sleep 0.2; exit 42", name="short")
    await rig.start("sleep", "1000", name="long")
    print(rig.runtime.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_containers_that_outlive_the_client_are_found_and_leftovers_are_removed(
    mode: Mode, tmp_path: Path
) -> None:
    process = subprocess.Popen([sys.executable, "-c", CLIENT, str(tmp_path), mode], stdout=subprocess.PIPE)
    assert process.stdout is not None
    shim = int(await asyncio.to_thread(process.stdout.readline))
    process.kill()
    process.communicate()
    await asyncio.sleep(0.5)
    runtime = ProcessRuntime(tmp_path, mode)
    states = {state.name: state for state in (await runtime.open()).containers}
    assert runtime.pid == shim
    assert states["short"].exit_code == 42
    assert states["long"].running
    if mode is Mode.NETNS:
        assert cgroups_of(tmp_path), "limits have no groups, so that none left shows nothing"
    await runtime.close(keep=True)
    os.kill(shim, signal.SIGKILL)
    await until(lambda: not processes.start_time(shim))
    assert await cleanup(tmp_path)
    await nothing_is_left(tmp_path)
    assert not (tmp_path / "shim").exists()
    assert not (tmp_path / "pods" / "pod" / "sandbox").exists()
