"""Pods in a real podman, where there is one and a static busybox to make an image of."""

import asyncio
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.nodes.runtimes.rig import POD, Rig
from volcano.nodes.runtimes.engine.exec_process import processes_of_exec
from volcano.nodes.shim.specs import Failure, Identity, Mount

pytestmark = pytest.mark.slow

IMAGE = f"localhost/volcano-test-image:{os.getpid()}"  # one for each process that tests side by side
APPLETS = "cat echo env false grep hostname head id ls nc ps pwd readlink seq sh sleep stty tail true tty"
ROOT = Path(__file__).parents[3]


def static_busybox() -> bytes:
    program = shutil.which("busybox")
    content = Path(program).read_bytes() if program else b""
    if not content or b"/ld-linux" in content[:4096] or b"/ld-musl" in content[:4096]:
        pytest.skip("there is no static busybox (Debian: busybox-static)")
    return content


def image_archive() -> bytes:
    made, busybox = io.BytesIO(), static_busybox()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("bin", "tmp", "etc"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(directory)
        program = tarfile.TarInfo("bin/busybox")
        program.size, program.mode = len(busybox), 0o755
        tar.addfile(program, io.BytesIO(busybox))
        for applet in APPLETS.split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return made.getvalue()


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if shutil.which("podman") is None:
        pytest.skip("there is no podman")
    changes = ['--change=ENTRYPOINT ["echo", "entry"]', '--change=CMD ["default"]', "--change=ENV OWN=image"]
    made = subprocess.run(
        ["podman", "import", *changes, "-", IMAGE], input=image_archive(), capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"podman cannot make an image here: {made.stderr.decode()}")
    yield IMAGE
    subprocess.run(["podman", "image", "rm", "--force", IMAGE], capture_output=True, check=False)


@pytest.fixture
async def rig(image: str, tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig("podman", tmp_path)
    try:
        await made.begin()
    except Failure as failure:
        pytest.skip(str(failure))
    yield made
    await made.runtime.close(keep=False)
    listing = ["podman", "ps", "-aq", *made.runtime._cluster.filters()]
    assert subprocess.run(listing, capture_output=True, check=True).stdout == b""


def network(rig: Rig) -> None:
    if not rig.runtime._sandboxes.capabilities.network:
        pytest.skip("podman has no network here")


async def shell(rig: Rig, script: str, **more: object) -> None:
    await rig.start(rig.container("sh", "-c", script, image=IMAGE, **more))  # type: ignore[arg-type]


async def until(true: object, seconds: float = 20.0) -> None:
    assert callable(true)
    for _ in range(int(seconds / 0.05)):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come to that")


async def test_a_container_is_as_it_was_asked_for(rig: Rig, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("")
    words.chmod(0o666)
    script = "hostname; id -u; id -g; pwd; echo $SECRET; echo $OWN; echo no >&2; echo bye > /words; exit 7"
    await shell(
        rig,
        script,
        environment={"SECRET": "a b"},
        working_directory="/tmp",
        identity=Identity(1000, 1001),
        mounts=(Mount(str(words), "/words"),),
    )
    end = await rig.end_of()
    said = [text for stream, text in rig.log() if stream == "stdout"]
    assert said == ["job-worker-0", "1000", "1001", "/tmp", "a b", "image"]
    assert ("stderr", "no") in rig.log()
    assert (end.exit_code, end.reason, words.read_text()) == (7, "Error", "bye\n")


@pytest.mark.parametrize(("command", "said"), [((), "entry default"), (("given",), "entry given")])
async def test_the_images_own_entrypoint_is_used(rig: Rig, command: tuple[str, ...], said: str) -> None:
    await rig.start(rig.container(*command, image=IMAGE, own_entrypoint=False))
    await rig.end_of()
    assert rig.log() == [("stdout", said)]


async def test_pods_reach_each_other_by_name(rig: Rig) -> None:
    network(rig)
    await rig.runtime.create_sandbox(rig.sandbox("other", "job-worker-1"))
    await shell(rig, "echo heard | nc -l -p 2222; sleep 1")
    script = "for i in 1 2 3 4 5 6 7 8 9; do nc job-worker-0.job 2222 && exit 0; sleep 1; done; exit 1"
    await shell(rig, script, pod="other")
    assert (await rig.end_of(pod="other")).exit_code == 0
    assert ("stdout", "heard") in rig.log(pod="other")


async def test_a_container_beyond_its_memory_is_oom_killed(rig: Rig) -> None:
    if not rig.runtime.features.enforces_limits:
        pytest.skip("podman enforces no limits here")
    await shell(rig, "sleep 3; head -c 200000000 /dev/zero | tail", memory_limit=32 << 20)
    end = await rig.end_of()
    assert end.exit_code == 137
    assert end.reason == "OOMKilled"


async def test_a_missing_program_is_a_start_error(rig: Rig) -> None:
    with pytest.raises(Failure, match="executable file not found") as missing:
        await rig.start(rig.container("nosuchprogram", image=IMAGE))
    assert (missing.value.reason, missing.value.exit_code) == ("StartError", 127)


async def test_signals_reach_the_first_process(rig: Rig) -> None:
    await shell(rig, "trap 'echo asked; exit 9' TERM; echo up; while true; do sleep 0.1; done")
    await until(lambda: ("stdout", "up") in rig.log())
    await rig.runtime.signal(POD, "main", signal.SIGTERM)
    assert (await rig.end_of()).exit_code == 9
    assert ("stdout", "asked") in rig.log()


async def test_commands_terminals_and_their_ends(rig: Rig) -> None:
    await shell(rig, "sleep 60", environment={"WORD": "seen"})
    process = await rig.runtime.execute(POD, "main", ["sh", "-c", "cat; echo $WORD; exit 4"], stdin=True)
    assert process.stdin is not None
    assert process.stdout is not None
    os.write(process.stdin, b"words\n")
    os.close(process.stdin)
    process.stdin = None
    assert await process.wait() == 4
    assert os.read(process.stdout, 100) == b"words\nseen\n"
    process.close()
    terminal = await rig.runtime.execute(
        POD, "main", ["sh", "-c", "tty; read line; stty size"], stdin=True, tty=True
    )
    assert terminal.stdout is not None
    assert b"/dev/" in await asyncio.to_thread(os.read, terminal.stdout, 100)
    terminal.resize(33, 77)
    await asyncio.sleep(1.0)
    os.write(terminal.stdout, b"\r")
    assert await terminal.wait() == 0
    assert b"33 77" in os.read(terminal.stdout, 200)
    terminal.close()


async def test_a_command_that_is_let_go_of_does_not_stay_in_the_container(rig: Rig) -> None:
    await shell(rig, "sleep 60")
    process = await rig.runtime.execute(POD, "main", ["sleep", "50"])
    exec_id = process._exec_id  # type: ignore[attr-defined]
    await until(lambda: processes_of_exec(exec_id))
    process.close()
    await until(lambda: not processes_of_exec(exec_id))


async def test_attach_connects_to_the_container(rig: Rig) -> None:
    await shell(rig, "while read line; do echo got $line; done; echo over", stdin=True)
    process = await rig.runtime.attach(POD, "main")
    assert process.stdin is not None
    assert process.stdout is not None
    await asyncio.sleep(0.5)
    os.write(process.stdin, b"this\n")
    assert await asyncio.to_thread(os.read, process.stdout, 100) == b"got this\n"
    process.close()
    assert ("stdout", "got this") in rig.log()


async def connected(rig: Rig, port: int) -> socket.socket:
    for _ in range(200):
        try:
            return await rig.runtime.connect(POD, port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
    raise AssertionError(f"no process listens on {port}")


async def test_ports_of_a_pod_are_reached_on_its_own_loopback(rig: Rig) -> None:
    await shell(rig, "nc -ll -p 8080 -e cat")
    loop = asyncio.get_running_loop()
    made = await connected(rig, 8080)
    await loop.sock_sendall(made, b"ping")
    assert await loop.sock_recv(made, 10) == b"ping"
    made.close()
    with pytest.raises(ConnectionRefusedError):
        await rig.runtime.connect(POD, 8081)


async def test_memory_volumes_are_shared_and_gone_with_the_pod(rig: Rig, tmp_path: Path) -> None:
    source = tmp_path / "volume"
    source.mkdir()
    mount = Mount(str(source), "/shared", memory=True)
    await shell(rig, "echo x > /shared/file", name="first", mounts=(mount,))
    await rig.end_of("first")
    await shell(rig, "cat /shared/file", name="second", mounts=(mount,))
    await rig.end_of("second")
    assert rig.log("second") == [("stdout", "x")]
    assert list(source.iterdir()) == []
    await rig.runtime.remove_sandbox(POD)
    assert not list(Path("/dev/shm").glob(f"volcano-{rig.runtime._cluster.id}/{POD}"))


async def test_what_a_container_has_written_to_its_root_is_known(rig: Rig) -> None:
    await shell(rig, "dd if=/dev/zero of=/big bs=1024 count=2048; echo done; sleep 60")
    await until(lambda: ("stdout", "done") in rig.log())
    written = await rig.runtime.writable_layers(POD)
    assert 2 << 20 <= written["main"] < 3 << 20


async def test_containers_that_share_processes_have_a_first_one_that_reaps(rig: Rig) -> None:
    await rig.runtime.create_sandbox(rig.sandbox("shared", share_pid=True))
    await shell(rig, "(sleep 0.1 &); sleep 1; ps -o pid,stat,comm", pod="shared")
    await rig.end_of(pod="shared")
    rows = [text.split() for _, text in rig.log(pod="shared")]
    assert ["1", "S", "pause"] in rows
    assert not [row for row in rows if row[1].startswith("Z")]


async def test_a_long_log_is_rotated_while_it_is_written_and_no_line_is_lost(rig: Rig) -> None:
    await shell(rig, "seq 1 5000; sleep 6; seq 5001 10000")
    log = rig.directory / "pods" / POD / "containers" / "main"
    await until(lambda: (log / "0.log").read_text().count(" F ") == 5000)
    rig.runtime._containers._log_size = 1000
    rig.runtime._containers._rotate(list(rig.runtime._containers))
    await rig.end_of()
    whole = [(log / name).read_text().count(" F ") for name in ("0.log.1", "0.log")]
    assert whole == [5000, 5000]


CLIENT = """
import asyncio, sys
from pathlib import Path
from tests.nodes.runtimes.rig import Rig

async def main():
    rig = Rig("podman", Path(sys.argv[1]), lifeline=sys.argv[2] == "lifeline")
    await rig.begin()
    short = rig.container("sh", "-c", "echo one; sleep 2; echo two; exit 42", name="short", image=sys.argv[3])
    await rig.runtime.start(short)
    long = await rig.runtime.start(rig.container("sleep", "60", name="long", image=sys.argv[3]))
    print(long.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def killed_client(directory: Path, kind: str) -> int:
    """Another process that started two containers and was killed; returns the pid of the running one."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(directory), kind, IMAGE], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    pid = int(await asyncio.to_thread(process.stdout.readline))
    process.kill()
    process.communicate()
    return pid


async def test_pods_outlive_the_process_and_no_exit_code_is_lost(image: str, tmp_path: Path) -> None:
    pid = await killed_client(tmp_path, "durable")
    await asyncio.sleep(3)
    rig = Rig("podman", tmp_path)
    found = await rig.runtime.open()
    states = {state.name: state for state in found.containers}
    assert [sandbox.uid for sandbox in found.sandboxes] == [POD]
    assert (states["short"].exit_code, rig.log("short")) == (42, [("stdout", "one"), ("stdout", "two")])
    assert (states["long"].running, states["long"].pid) == (True, pid)
    await rig.runtime.signal(POD, "long", signal.SIGKILL)
    assert (await rig.end_of("long")).exit_code == 137
    await rig.runtime.close(keep=False)


async def test_pods_of_a_throw_away_cluster_end_with_it(image: str, tmp_path: Path) -> None:
    pid = await killed_client(tmp_path, "lifeline")
    await until(lambda: not os.path.exists(f"/proc/{pid}"), 30)
    cluster = Rig("podman", tmp_path).runtime._cluster
    listing = ["podman", "ps", "-aq", *cluster.filters()]
    await until(lambda: not subprocess.run(listing, capture_output=True, check=True).stdout, 30)


JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: greet}
spec:
  minAvailable: 2
  plugins: {svc: [], env: []}
  tasks:
  - name: server
    replicas: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: IMAGE
          command: ["sh", "-c", "echo hello from $(hostname) | nc -l -p 2222"]
  - name: client
    replicas: 1
    policies: [{event: TaskCompleted, action: CompleteJob}]
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: IMAGE
          command: ["sh", "-c", "for i in $(seq 9); do nc server-0.greet 2222 && exit 0; sleep 1; done; exit 1"]
"""


async def test_a_gang_runs_from_one_file_and_finds_itself(rig: Rig, tmp_path: Path) -> None:
    network(rig)
    job = tmp_path / "job.yaml"
    job.write_text(JOB.replace("IMAGE", IMAGE))
    words = [
        sys.executable,
        "-m",
        "volcano.cmd.volcano",
        "run",
        str(job),
        "--runtime",
        "podman",
        "--timeout",
        "90s",
    ]
    ended = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "greet-client-0 | hello from greet-server-0" in ended.stdout
