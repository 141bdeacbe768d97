"""Pods on a fake container engine: calls, adoption, errors and cleanup."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nodes.runtimes.rig import IMAGE, POD, Fake, Rig
from volcano.nodes.runtimes.engine.engine import cleanup
from volcano.nodes.runtimes.engine.exec_process import processes_of_exec
from volcano.nodes.shim.specs import Failure, Identity

pytestmark = pytest.mark.slow  # each call is a program of its own


async def test_a_pod_has_an_address_and_containers_join_it(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.runtime.open()
    state = await rig.runtime.create_sandbox(rig.sandbox())
    assert state.address.startswith("10.9.0.")
    assert await rig.runtime.create_sandbox(rig.sandbox()) == state
    await rig.start(rig.container("true"))
    created = [call for call in fake.calls if call[0] == "create" and "some/image:1" in call][-1]
    assert any(word.startswith("--network=container:volcano-") and word.endswith(POD) for word in created)
    hosts = (fake.directory / "pods" / POD / "sandbox" / "hosts").read_text()
    assert f"{state.address}\tjob-worker-0.job.ns.svc.local" in hosts
    await rig.runtime.close(keep=False)


async def test_pods_learn_of_each_other_and_forget_those_that_went(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    other = await rig.runtime.create_sandbox(rig.sandbox("7a", "job-worker-1"))
    hosts = fake.directory / "pods" / POD / "sandbox" / "hosts"
    inode = hosts.stat().st_ino
    assert f"{other.address}\tjob-worker-1.job.ns.svc.local" in hosts.read_text()
    await rig.runtime.remove_sandbox("7a")
    assert "job-worker-1" not in hosts.read_text()
    assert hosts.stat().st_ino == inode, "a new file would not be the one that is mounted"
    await rig.runtime.close(keep=False)


@pytest.mark.parametrize(
    ("command", "own", "said"),
    [
        ((), True, "entry default"),
        (("given",), False, "entry given"),
        (("echo", "mine"), True, "mine"),
    ],
)
async def test_an_image_says_what_the_pod_does_not(
    fake: Fake, command: tuple[str, ...], own: bool, said: str
) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container(*command, own_entrypoint=own))
    await rig.end_of()
    assert rig.log() == [("stdout", said)]
    await rig.runtime.close(keep=False)


async def test_a_later_process_finds_what_ran_on_and_what_ended_meanwhile(fake: Fake) -> None:
    first = Rig(fake.name, fake.directory)
    await first.begin()
    await first.start(first.container("sh", "-c", "echo one; sleep 1; echo two; exit 3", name="short"))
    await first.start(first.container("sleep", "60", name="long"))
    while not first.log("short"):
        await asyncio.sleep(0.02)
    await first.runtime.close(keep=True)
    await asyncio.sleep(1)

    second = Rig(fake.name, fake.directory)
    found = await second.runtime.open()
    states = {state.name: state for state in found.containers}
    assert [(sandbox.uid, sandbox.name) for sandbox in found.sandboxes] == [(POD, "job-worker-0")]
    assert (states["short"].exit_code, states["short"].reason) == (3, "Error")
    assert second.log("short") == [("stdout", "one"), ("stdout", "two")], "each line once"
    assert states["long"].running
    await second.runtime.signal(POD, "long", signal.SIGTERM)
    assert (await second.end_of("long")).exit_code == 143
    await second.runtime.close(keep=False)


async def test_what_a_killed_process_left_is_swept(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sleep", "60"))
    await rig.runtime.close(keep=True)
    removed = await cleanup(fake.directory)
    assert [f"{fake.name}'s container", f"{fake.name}'s sandbox", f"{fake.name}'s network"] == [
        each.rpartition(" ")[0] for each in removed
    ]
    assert not fake.containers
    assert await cleanup(fake.directory) == []


CLIENT = """
import asyncio, sys
from pathlib import Path
from tests.nodes.runtimes.rig import Rig

async def main():
    rig = Rig(sys.argv[1], Path(sys.argv[2]), lifeline=True)
    await rig.begin()
    state = await rig.start(rig.container("sleep", "60"))
    print(state.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_pods_of_a_throw_away_cluster_end_with_the_process_however_it_ends(fake: Fake) -> None:
    words = [sys.executable, "-c", CLIENT, fake.name, str(fake.directory)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(await asyncio.to_thread(process.stdout.readline))
    assert os.path.exists(f"/proc/{pid}")
    process.kill()
    process.communicate()
    for _ in range(500):
        if not fake.containers and not fake.networks:
            break
        await asyncio.sleep(0.02)
    assert not fake.containers
    assert not os.path.exists(f"/proc/{pid}")


async def test_what_a_throw_away_cluster_left_is_removed_by_the_next(fake: Fake) -> None:
    first = Rig(fake.name, fake.directory)
    await first.begin()
    await first.runtime.close(keep=True)
    second = Rig(fake.name, fake.directory, lifeline=True)
    found = await second.runtime.open()
    assert (found.sandboxes, found.containers) == ((), ())
    assert not fake.containers
    await second.runtime.close(keep=False)


async def test_images_are_pulled_as_their_policy_says(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()

    def pulls() -> list[str]:
        return [call[-1] for call in fake.calls if call[0] == "pull"]

    await rig.start(rig.container("true", name="a"))
    assert pulls() == []
    await rig.start(rig.container("true", name="b", pull_policy="Always"))
    await rig.start(rig.container("true", name="c", image="other:2"))
    assert pulls() == [IMAGE, "other:2"]
    with pytest.raises(Failure, match="is not present with pull policy of Never") as never:
        await rig.start(rig.container("true", name="d", image="third:1", pull_policy="Never"))
    assert never.value.reason == "ErrImageNeverPull"
    await rig.runtime.close(keep=False)


async def test_a_failed_pull_is_retried_with_back_off(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    fake.refuse("pull => manifest unknown")
    spec = rig.container("true", image="absent:1")
    reasons = []
    for _ in range(3):
        with pytest.raises(Failure, match="manifest unknown") as refused:
            await rig.start(spec)
        reasons.append(refused.value.reason)
    assert reasons == ["ErrImagePull", "ImagePullBackOff", "ImagePullBackOff"]
    assert len([call for call in fake.calls if call[0] == "pull"]) == 1
    await rig.runtime.close(keep=False)


async def test_an_image_that_runs_as_root_is_rejected_with_run_as_non_root(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    with pytest.raises(Failure, match="runAsNonRoot and image will run as root") as refused:
        await rig.start(rig.container("true", identity=Identity(not_root=True)))
    assert refused.value.reason == "CreateContainerConfigError"
    await rig.runtime.close(keep=False)


async def test_a_program_that_is_not_there_is_a_start_error_and_leaves_nothing(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    before = len(fake.containers)
    with pytest.raises(Failure, match="nosuchprogram") as refused:
        await rig.start(rig.container("nosuchprogram"))
    assert (refused.value.reason, refused.value.exit_code) == ("StartError", 127)
    assert len(fake.containers) == before
    await rig.runtime.close(keep=False)


async def test_a_start_that_was_broken_off_does_not_stand_in_the_way(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    fake.refuse("start => the engine is unwell")
    with pytest.raises(Failure, match="unwell"):
        await rig.start(rig.container("true", name="a"))
    fake.refuse()
    # as if the process had been killed before the start
    await rig.runtime._create(rig.container("sh", "-c", "exit 5"))
    await rig.start(rig.container("sh", "-c", "exit 5"))
    assert (await rig.end_of()).exit_code == 5
    await rig.runtime.close(keep=False)


async def test_a_removed_sandbox_is_recreated(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.runtime._sandboxes.remove_containers(POD)
    await rig.start(rig.container("sh", "-c", "exit 5"))
    assert (await rig.end_of()).exit_code == 5
    await rig.runtime.close(keep=False)


async def test_a_removed_container_has_an_unknown_exit(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sleep", "60"))
    await rig.runtime._engine.call("rm", "--force", rig.runtime._name(POD, "main", 0))
    end = await rig.end_of()
    assert (end.exit_code, end.reason) == (137, "ContainerStatusUnknown")
    await rig.runtime.close(keep=False)


async def test_old_starts_of_a_container_are_removed(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    for attempt in range(4):
        await rig.start(rig.container("true", attempt=attempt))
        await rig.end_of(attempt=attempt)
    kept: list[str] = []
    for _ in range(200):
        kept = [json.loads(path.read_text())["Name"].rpartition("-")[2] for path in fake.containers]
        if len(kept) == 3:
            break
        await asyncio.sleep(0.02)
    assert sorted(name for name in kept if name != POD) == ["2", "3"]
    await rig.runtime.close(keep=False)


async def test_commands_are_executed_with_their_own_streams_and_code(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sleep", "60"))
    process = await rig.runtime.execute(POD, "main", ["sh", "-c", "cat; echo no >&2; exit 4"], stdin=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    os.write(process.stdin, b"words")
    os.close(process.stdin)
    process.stdin = None
    assert await process.wait() == 4
    assert (os.read(process.stdout, 100), os.read(process.stderr, 100)) == (b"words", b"no\n")
    process.close()
    with pytest.raises(Failure, match="container other is not running"):
        await rig.runtime.execute(POD, "other", ["true"])
    await rig.runtime.close(keep=False)


async def test_a_command_that_is_let_go_of_is_killed_inside_the_container(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sleep", "60"))
    process = await rig.runtime.execute(POD, "main", ["sleep", "50"])
    exec_id = process._exec_id  # type: ignore[attr-defined]
    while not any(
        b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_of_exec(exec_id)
    ):
        await asyncio.sleep(0.02)
    process.close()
    for _ in range(200):
        if not processes_of_exec(exec_id):
            break
        await asyncio.sleep(0.02)
    assert not processes_of_exec(exec_id)
    await rig.runtime.close(keep=False)


async def test_a_terminal_is_one_and_can_be_resized(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sleep", "60"))
    process = await rig.runtime.execute(
        POD, "main", ["sh", "-c", "tty; read line; stty size"], stdin=True, tty=True
    )
    assert process.stdin == process.stdout
    assert process.stdout is not None
    assert b"/dev/pts/" in await asyncio.to_thread(os.read, process.stdout, 100)
    process.resize(33, 77)
    os.write(process.stdout, b"\n")
    assert await process.wait() == 0
    assert b"33 77" in os.read(process.stdout, 200)
    process.close()
    await rig.runtime.close(keep=False)


async def test_attach_streams_the_output_from_then_on(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sh", "-c", "echo early; sleep 1.5; echo late"))
    while not rig.log():
        await asyncio.sleep(0.02)
    process = await rig.runtime.attach(POD, "main")
    assert process.stdin is None
    assert process.stdout is not None
    assert await asyncio.to_thread(os.read, process.stdout, 100) == b"late\n"
    process.close()
    await rig.runtime.close(keep=False)


async def test_an_engine_without_a_cpuset_controller_reports_the_limitation(fake: Fake) -> None:
    fake.refuse("--cpuset-cpus= => crun: the requested cgroup controller `cpuset` is not available")
    rig = Rig(fake.name, fake.directory)
    await rig.runtime.open()
    assert "cannot be limited to CPUs of their own" in " ".join(rig.runtime.features.limitations)
    assert rig.runtime.features.enforces_limits
    await rig.runtime.create_sandbox(rig.sandbox())
    await rig.start(rig.container("true", cpu_limit=1.0, cpus=(0,)))
    created = [call for call in fake.calls if call[0] == "create" and IMAGE in call][-1]
    assert "--cpus=1" in created
    assert not [word for word in created if word.startswith("--cpuset")]


async def test_an_engine_without_network_or_limits_is_used_and_reports_the_limitation(fake: Fake) -> None:
    fake.refuse(
        "--network=volcano- => netavark: iptables missing", "--memory= => cgroup memory controller missing"
    )
    rig = Rig(fake.name, fake.directory)
    await rig.runtime.open()
    words = " ".join(rig.runtime.features.limitations)
    assert "pods have no network and no address" in words
    assert "Limits on cpu and memory are not enforced." in words
    assert not rig.runtime.features.enforces_limits
    await rig.runtime.create_sandbox(rig.sandbox())
    await rig.start(rig.container("true", memory_limit=1 << 30, cpu_limit=1.0))
    created = [call for call in fake.calls if call[0] == "create" and IMAGE in call][-1]
    assert not [word for word in created if word.startswith(("--memory", "--cpus"))]
    await rig.runtime.close(keep=False)


async def test_an_engine_that_may_not_raise_limits_gets_those_of_this_host(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    fake.refuse("--memory=64m => error setting rlimit type 7: operation not permitted")
    with pytest.raises(Failure, match="cannot start a container: error setting rlimit"):
        await rig.runtime.open()
    trials = [call for call in fake.calls if "--memory=64m" in call]
    limits = [[word for word in call if word.startswith("--ulimit=nofile=")] for call in trials]
    assert limits[0] == []
    assert limits[-1] == ["--ulimit=nofile=1024:1024"]
    fake.refuse()
    await rig.runtime.close(keep=False)


async def test_an_engine_that_does_not_answer_is_unavailable(fake: Fake) -> None:
    fake.refuse("info => Cannot connect to the daemon")
    with pytest.raises(Failure, match=f"{fake.name} does not answer: Cannot connect to the daemon"):
        await Rig(fake.name, fake.directory).runtime.open()


async def test_a_call_that_is_cancelled_ends_its_program(fake: Fake) -> None:
    rig = Rig(fake.name, fake.directory)
    await rig.begin()
    await rig.start(rig.container("sleep", "60"))
    name = rig.runtime._name(POD, "main", 0)
    waiting = asyncio.create_task(rig.runtime._engine.call("wait", name))
    await asyncio.sleep(0.3)

    def callers() -> list[str]:
        found = subprocess.run(
            ["pgrep", "-f", f"fake_engine.py {fake.name} wait {name}"], capture_output=True
        )
        return found.stdout.split()  # type: ignore[return-value]

    assert callers()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not callers()
    slow = await rig.runtime._engine.call("wait", name, timeout=0.3)
    assert (slow.code, slow.error) == (124, f"{fake.name} wait did not end within 0 s")
    await rig.runtime.close(keep=False)
