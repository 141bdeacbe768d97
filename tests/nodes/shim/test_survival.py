"""Clients, shims and containers that are killed, and what the next one finds."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.nodes.shim.rig import Rig, marked, until
from volcano.nodes.runtimes.process import ProcessRuntime, cleanup
from volcano.nodes.runtimes.shim_launch import shim_pid
from volcano.nodes.shim import processes, state_store, wire
from volcano.nodes.shim.specs import Mode

CLIENT = """
import asyncio, sys
from pathlib import Path
from tests.nodes.shim.rig import Rig

async def main():
    rig = Rig(Path(sys.argv[1]), lifeline=sys.argv[2] == "lifeline")
    rig.pod = "pod"
    await rig.open()
    await rig.start("sh", "-c", "sleep 0.3; echo over; exit 42", name="short")
    await rig.start("sh", "-c", "(setsid sleep 61 &); exec sleep 60", name="long")
    print(rig.runtime.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def client(directory: Path, kind: str) -> tuple["subprocess.Popen[bytes]", int]:
    """Another process with a shim and two containers, and its shim's pid."""
    process = subprocess.Popen([sys.executable, "-c", CLIENT, str(directory), kind], stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


async def test_containers_outlive_the_client_and_no_exit_code_is_lost(own_directory: Path) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "durable")
    kill(process)
    short = own_directory / "shim" / "state" / "pod" / "short.0.json"
    await until(lambda: json.loads(short.read_text())["finished"], "its end was never written down")
    runtime = ProcessRuntime(own_directory, Mode.PLAIN)
    found = await runtime.open()
    states = {state.name: state for state in found.containers}
    assert [sandbox.uid for sandbox in found.sandboxes] == ["pod"]
    assert (states["short"].exit_code, states["short"].reason) == (42, "Error")
    assert states["long"].running
    assert os.path.exists(f"/proc/{states['long'].pid}")
    assert runtime.pid == shim
    await runtime.close(keep=False)
    assert marked(own_directory) == []


async def test_with_a_lifeline_everything_ends_with_the_agent(own_directory: Path) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "lifeline")
    assert len(marked(own_directory)) >= 3
    kill(process)
    await until(lambda: not processes.start_time(shim), "the shim outlived its client")
    assert marked(own_directory) == []
    assert os.listdir(own_directory / "shim") == ["shim.log"]


async def test_a_shim_on_a_lifeline_is_found_again_by_its_holder_alone(own_directory: Path) -> None:
    rig = Rig(own_directory, lifeline=True)
    await rig.open()
    await rig.start("sleep", "60")
    shim = rig.runtime.pid
    await rig.runtime.close(keep=True)
    next_one = ProcessRuntime(own_directory, Mode.PLAIN, lifeline=True)
    assert [state.running for state in (await next_one.open()).containers] == [True]
    assert next_one.pid == shim
    await next_one.close(keep=True)
    process, another = await asyncio.to_thread(client, own_directory, "lifeline")
    assert another != shim
    kill(process)
    await until(lambda: not processes.start_time(another))


async def test_a_shim_that_is_killed_is_replaced_and_its_containers_reported(own_directory: Path) -> None:
    rig = Rig(own_directory)
    await rig.open()
    restarted = asyncio.Event()
    rig.runtime.on_restart(restarted.set)
    await rig.shell("exit 3", name="over")
    await rig.start("sh", "-c", "(setsid sleep 61 &); exec sleep 60")
    address = (await rig.sandbox()).address
    first = rig.runtime.pid
    os.kill(first, signal.SIGKILL)
    state = await rig.ended()
    assert (state.exit_code, state.reason) == (137, "ContainerStatusUnknown")
    await asyncio.wait_for(restarted.wait(), 10)
    assert [state.name for state in rig.ends] == ["over", "main"]
    await until(lambda: marked(own_directory) == [], "its containers outlived the shim")
    again = await rig.runtime.start(rig.spec("sleep", "60", attempt=1))
    assert again.running
    assert (await rig.sandbox()).address == address
    assert rig.runtime.pid not in (0, first)
    await rig.close(keep=False)


async def test_the_next_shim_remembers_what_the_last_one_ran(own_directory: Path) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "durable")
    kill(process)
    os.kill(shim, signal.SIGKILL)
    await until(lambda: shim_pid(own_directory) == 0)
    runtime = ProcessRuntime(own_directory, Mode.PLAIN)
    found = await runtime.open()
    assert found.sandboxes == ()
    assert {state.name for state in found.containers} == {"short", "long"}
    assert {state.running for state in found.containers} == {False}
    await runtime.remove_sandbox("pod")
    await runtime.close(keep=True)
    assert (await runtime.open()).containers == ()
    await runtime.close(keep=False)


async def test_cleanup_ends_a_running_shim_with_its_containers(own_directory: Path) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "durable")
    kill(process)
    removed = await cleanup(own_directory)
    assert removed[0] == f"shim {shim}"
    assert marked(own_directory) == []
    assert not (own_directory / "shim").exists()
    assert await cleanup(own_directory) == []


async def test_cleanup_finds_processes_that_outlived_shim_and_supervisors(own_directory: Path) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "durable")
    kill(process)
    processes.send([shim, *processes.children(shim)], signal.SIGSTOP)
    everything = [shim, *processes.children(shim)]
    processes.send(everything, signal.SIGKILL)
    await until(lambda: not any(map(processes.start_time, everything)))
    assert marked(own_directory), "a daemon should have been left, or this shows nothing"
    removed = await cleanup(own_directory)
    assert any(what.startswith("process ") for what in removed)
    assert "the sandbox of pod default/p" in removed
    await until(lambda: marked(own_directory) == [])


async def test_a_process_that_only_has_the_shims_pid_is_left_alone(own_directory: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    own = Path(state_store.shim_directory(str(own_directory)))
    own.mkdir()
    (own / state_store.PID_FILE).write_text(
        json.dumps({"pid": bystander.pid, "started": 1, "mode": "plain", "version": 1})
    )
    await cleanup(own_directory)
    assert bystander.poll() is None
    kill_now(bystander)


async def test_a_shim_of_another_version_is_ended_and_its_containers_remembered(
    own_directory: Path,
) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "durable")
    kill(process)

    class Newer(ProcessRuntime):
        version = wire.VERSION + 1

    runtime = Newer(own_directory, Mode.PLAIN)
    found = await runtime.open()
    assert runtime.pid != shim
    states = {state.name: state for state in found.containers}
    assert (states["long"].exit_code, states["long"].reason) == (137, "Error")
    assert found.sandboxes == ()
    await runtime.close(keep=False)


async def test_two_shims_never_share_a_directory(own_directory: Path) -> None:
    first, second = ProcessRuntime(own_directory, Mode.PLAIN), ProcessRuntime(own_directory, Mode.PLAIN)
    opened = await asyncio.gather(first.open(), second.open(), return_exceptions=True)
    refused = [error for error in opened if isinstance(error, Exception)]
    assert len(refused) <= 1
    assert all("another shim is running" in str(error) for error in refused)
    await first.close(keep=True)
    await second.close(keep=True)
    assert (await cleanup(own_directory))[0].startswith("shim ")


async def test_a_runtime_that_is_closed_while_its_shim_starts_again_leaves_none(
    own_directory: Path,
) -> None:
    rig = Rig(own_directory)
    await rig.open()
    os.kill(rig.runtime.pid, signal.SIGKILL)
    await until(lambda: shim_pid(own_directory) == 0)
    await asyncio.sleep(0)
    await rig.runtime.close(keep=False)
    assert shim_pid(own_directory) == 0


async def test_the_data_directory_may_have_a_long_name(own_directory: Path) -> None:
    rig = Rig(own_directory / ("long" * 40))
    await rig.open()
    assert (await rig.shell("exit 6")).exit_code == 6
    await rig.close(keep=False)


async def test_a_shim_ends_its_containers_on_sigterm(own_directory: Path) -> None:
    process, shim = await asyncio.to_thread(client, own_directory, "durable")
    kill(process)
    os.kill(shim, signal.SIGTERM)
    await until(lambda: not processes.start_time(shim))
    assert marked(own_directory) == []


async def test_the_socket_is_for_its_owner_alone(own_directory: Path) -> None:
    rig = Rig(own_directory)
    await rig.open()
    own = own_directory / "shim"
    assert own.stat().st_mode & 0o777 == 0o700
    await rig.runtime.close(keep=False)


def kill_now(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
