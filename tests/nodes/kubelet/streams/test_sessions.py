"""exec and attach between a client's protocol and real processes, without a network in between."""

import asyncio
import base64
import json
from contextlib import suppress
from pathlib import Path

import pytest

from tests.nodes.kubelet.streams.callers import TEXT, V4, V5, Caller, asked, by_spdy, until
from tests.nodes.kubelet.streams.stage import Stage
from tests.nodes.kubelet.streams.wire import Pipe, SpdyPeer
from volcano.base.clock import SystemClock
from volcano.base.http.messages import Request, Response, Upgrade
from volcano.kube.api.errors import BadRequest, Forbidden, InternalError
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.streams.receive_buffer import ReceiveBuffer
from volcano.nodes.kubelet.streams.streams import PodStreams

# One shim for all tests: they share an event loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")


# exec


async def test_a_command_returns_its_output_and_exit_status(stage: Stage, shell: Manifest) -> None:
    request = asked(V5, "sh", "-c", "echo out; echo err >&2; exit 3", stdout="true", stderr="true")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    assert caller.headers["Sec-WebSocket-Protocol"] == V5
    received = await caller.everything()
    assert (received[1], received[2]) == (b"out\n", b"err\n")
    status = json.loads(received[3])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_input_ends_when_the_client_closes_the_channel(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, asked(V5, "cat", stdin="1", stdout="1")))
    received = await caller.everything(
        b"\x00hello ", b"\x00there", b"\xff\x00", b"\x00too late", b"", b"\x09?"
    )
    assert received[1] == b"hello there"
    assert json.loads(received[3]) == {"metadata": {}, "status": "Success"}


async def test_channels_as_text(stage: Stage, shell: Manifest) -> None:
    request = asked(f"other, {TEXT}", "head", "-c", "5", stdin="true", stdout="true")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    socket = caller.websocket()
    await socket.send("0" + base64.b64encode(b"12345").decode())
    await socket.send("0 no base64")
    received: dict[str, bytes] = {}
    async for message in socket:
        channel, data = message.data[:1].decode(), base64.b64decode(message.data[1:])
        assert message.text
        received[channel] = received.get(channel, b"") + data
    assert received["1"] == b"12345"
    assert json.loads(received["3"])["status"] == "Success"
    await caller.pipe.close()
    await asyncio.wait_for(caller.running, 10)


async def test_an_old_client_is_sent_only_failures(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, asked("", "true", stdout="1")))
    assert await caller.everything() == {1: b""}
    caller = Caller(await stage.streams.connect("exec", shell, asked("channel.k8s.io", "false", stdout="1")))
    assert b"exit code 1" in (await caller.everything())[3]


async def test_a_program_that_is_not_there_is_an_internal_error(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, asked(V4, "no-such-program", stdout="1")))
    status = json.loads((await caller.everything())[3])
    assert (status["reason"], status["code"]) == ("InternalError", 500)
    assert "no-such-program" in status["message"]


async def test_a_bug_is_not_reported_as_success(stage: Stage, shell: Manifest) -> None:
    streams = PodStreams(object(), SystemClock())  # type: ignore[arg-type]
    caller = Caller(await streams.connect("exec", shell, asked(V5, "true", stdout="1")))
    status = json.loads((await caller.everything())[3])
    assert (status["status"], status["message"]) == (
        "Failure",
        "Internal error occurred: AttributeError in the API server",
    )


async def test_a_child_left_behind_does_not_hold_the_client(stage: Stage, shell: Manifest) -> None:
    command = ("sh", "-c", "echo started; sleep 30 & exit 0")
    caller = Caller(await stage.streams.connect("exec", shell, asked(V5, *command, stdout="1")))
    received = await asyncio.wait_for(caller.everything(), 10)
    assert received[1] == b"started\n"


async def test_a_terminal_is_one_stream_that_can_be_resized(stage: Stage, shell: Manifest) -> None:
    request = asked(V5, "sh", stdin="1", stdout="1", stderr="1", tty="1")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    size = json.dumps({"Width": 111, "Height": 33}).encode()
    nonsense = b'\x04{"Width": -1, "Height": "tall"}'
    received = await caller.everything(
        nonsense, b"\x04" + size[:9], b"\x04" + size[9:], b"\x00stty size; exit 5\n"
    )
    assert b"33 111" in received[1]
    assert 2 not in received
    assert json.loads(received[3])["details"]["causes"][0]["message"] == "5"


async def test_the_end_of_input_reaches_a_terminal_too(stage: Stage, shell: Manifest) -> None:
    request = asked(V5, "cat", stdin="1", stdout="1", tty="1")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    received = await caller.everything(b"\x00line\n", b"\xff\x00")
    assert received[1].count(b"line") == 2  # the terminal's echo, and cat's


@pytest.mark.parametrize("signal", ["", "trap '' HUP; "])
async def test_a_client_that_hangs_up_ends_the_process(stage: Stage, shell: Manifest, signal: str) -> None:
    request = asked(V5, "sh", "-c", f"{signal}echo $$; exec sleep 612", stdout="1")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    pid = 0
    async for message in caller.websocket():
        if message.data[1:]:
            pid = int(message.data[1:])
            break
    assert Path(f"/proc/{pid}").exists()
    await caller.pipe.close()
    await asyncio.wait_for(caller.running, 10)
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_client_that_disconnected_silently_is_detected(stage: Stage, shell: Manifest) -> None:
    class Vanished(Pipe):
        async def read(self) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def write(self, data: bytes) -> None:
            if self.closed:
                raise ConnectionResetError("disconnected")

    class Hasty(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds / 1000)

    streams = PodStreams(stage.runtime, Hasty())
    answer = await streams.connect("exec", shell, asked(V5, "sleep", "613", stdin="1"))
    assert isinstance(answer, Upgrade)
    near = Vanished()
    running = asyncio.ensure_future(answer.run(near))
    await until(lambda: _runs("613"))
    near.closed = True
    await asyncio.wait_for(running, 10)
    await until(lambda: not _runs("613"))


async def test_a_client_that_does_not_read_slows_the_process_down(stage: Stage, shell: Manifest) -> None:
    class Slow(Pipe):
        written = 0
        reads_again = asyncio.Event()

        async def write(self, data: bytes) -> None:
            self.written += len(data)
            if self.written > 100_000:
                await self.reads_again.wait()

    answer = await stage.streams.connect("exec", shell, asked(V5, "sh", "-c", "yes", stdout="1"))
    assert isinstance(answer, Upgrade)
    near, far = Slow(), Pipe()
    near.other, far.other = far, near
    running = asyncio.ensure_future(answer.run(near))
    await until(lambda: near.written > 100_000)
    await asyncio.sleep(0.2)
    assert near.written < 200_000
    near.reads_again.set()
    await until(lambda: near.written > 1_000_000)
    await far.close()
    await asyncio.wait_for(running, 10)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (asked(V5, stdout="1"), "you must specify at least one command for the container"),
        (asked(V5, "ls"), "you must specify at least 1 of stdin, stdout, stderr"),
        (Request("GET", "/", {"command": ["ls"], "stdout": ["1"]}), "Upgrade request required"),
    ],
)
async def test_invalid_stream_requests_are_rejected(
    stage: Stage, shell: Manifest, request_: Request, message: str
) -> None:
    with pytest.raises(BadRequest) as error:
        await stage.streams.connect("exec", shell, request_)
    assert error.value.message == message


async def test_a_container_that_does_not_run_is_not_found(stage: Stage) -> None:
    pod = await stage.run("over", "true")
    await stage.ended(pod)
    for subresource in ("exec", "attach"):
        with pytest.raises(
            InternalError, match=r'unable to upgrade connection: container not found \("main"\)'
        ):
            await stage.streams.connect(subresource, pod, asked(V5, "ls", stdout="1"))


async def test_running_containers_may_be_determined_by_a_function(stage: Stage) -> None:
    pod = await stage.run("ahead", "sleep", "600")
    streams = PodStreams(stage.runtime, SystemClock(), lambda pod: ["main"])
    answer = await streams.connect("exec", {**pod, "status": {}}, asked(V5, "echo", "hello", stdout="1"))
    assert (await Caller(answer).everything())[1] == b"hello\n"


async def test_unknown_protocols_are_rejected(stage: Stage, shell: Manifest) -> None:
    answer = await stage.streams.connect("exec", shell, asked("v9.channel.k8s.io", "ls", stdout="1"))
    assert isinstance(answer, Response)
    assert answer.status == 400
    with pytest.raises(Forbidden, match=r"client supports \[v9\], server accepts"):
        await stage.streams.connect("exec", shell, by_spdy("v9", command="ls", stdout="1"))


# exec over SPDY


async def test_exec_over_spdy(stage: Stage, shell: Manifest) -> None:
    request = by_spdy("v9", V4, command="sort", stdin="1", stdout="1", stderr="1")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    assert caller.headers["X-Stream-Protocol-Version"] == V4
    peer = SpdyPeer(caller.pipe)
    error, stdin, stdout, stderr = [
        await peer.open(streamtype=kind) for kind in ("error", "stdin", "stdout", "stderr")
    ]
    unknown = await peer.open(streamtype="resize")
    await peer.send_data(stdin, b"b\na\n", fin=True)
    await peer.until(lambda: {error, stdout, stderr} <= peer.finished)
    assert peer.received[stdout] == b"a\nb\n"
    assert json.loads(peer.received[error])["status"] == "Success"
    assert unknown in peer.reset
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_a_spdy_client_that_goes_before_it_has_opened_its_streams(
    stage: Stage, shell: Manifest
) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, by_spdy(V4, command="ls", stdout="1")))
    peer = SpdyPeer(caller.pipe)
    await peer.open(streamtype="error")
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


# attach


async def test_attaching_and_letting_go_leaves_the_container_running(stage: Stage) -> None:
    pod = await stage.run("asks", "sh", "-c", "while read x; do echo got $x; done", stdin=True)
    for word in ("one", "two"):
        caller = Caller(await stage.streams.connect("attach", pod, asked(V5, stdin="1", stdout="1")))
        socket = caller.websocket()
        await socket.send(b"\x00" + word.encode() + b"\n")
        async for message in socket:
            if message.data[1:]:
                assert message.data == f"\x01got {word}\n".encode()
                break
        await caller.pipe.close()
        await asyncio.wait_for(caller.running, 10)
    assert "running" in stage.status(pod)["state"]


async def test_the_last_output_on_a_terminal_is_received(stage: Stage) -> None:
    pod = await stage.run("terminal", "sh", stdin=True, tty=True)
    request = asked(V5, stdin="1", stdout="1", tty="1")
    caller = Caller(await stage.streams.connect("attach", pod, request))
    received = await caller.everything(b"\x00stty rows 7; stty size; echo ok-$((1+1)); exit 5\n")
    assert b"ok-2" in received[1]
    assert json.loads(received[3])["status"] == "Success"
    assert stage.status(pod)["state"]["terminated"]["exitCode"] == 5


# Receive buffers


async def test_a_full_buffer_blocks_the_sender() -> None:
    buffer = ReceiveBuffer(limit=10)
    await buffer.feed(b"x" * 10)
    feeding = asyncio.create_task(buffer.feed(b"y"))
    await asyncio.sleep(0)
    assert not feeding.done()
    assert await buffer.read() == b"x" * 10
    await asyncio.wait_for(feeding, 1)
    buffer.end()
    await buffer.feed(b"dropped")
    assert [await buffer.read(), await buffer.read()] == [b"y", b""]


def _runs(argument: str) -> bool:
    """Whether a sleep with this argument runs anywhere."""
    wanted = f"sleep\0{argument}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == wanted:
                return True
    return False
