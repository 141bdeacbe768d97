"""exec, attach and port-forward between a client's protocol and real processes, without a network in between."""

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.nodes.streams.stage import PYTHON, Stage
from tests.nodes.streams.wire import Pipe, SpdyPeer, pipes
from volcano.clock import SystemClock
from volcano.kube.errors import BadRequest, Forbidden, InternalError
from volcano.kube.manifest import Manifest
from volcano.net.messages import Answer, Request, Response, Upgrade
from volcano.net.websocket import WebSocket
from volcano.nodes.agent.portforward import ports_of
from volcano.nodes.agent.spdy_frames import Reset
from volcano.nodes.agent.streams import PodStreams
from volcano.nodes.agent.streams_inbox import Inbox

WEBSOCKET = {"upgrade": "websocket", "sec-websocket-key": "k", "sec-websocket-version": "13"}
V5, V4, TEXT = "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"
ECHO = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.sendall(b"bye")
    connection.close()
"""


# One keeper for all of them: they share a loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("cluster"))
    await stage.open()
    yield stage
    await stage.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(stage: Stage) -> Manifest:
    return await stage.run("shell", "sleep", "600")


def asked(protocol: str, *command: str, **query: str) -> Request:
    given = {name: [value] for name, value in query.items()}
    return Request(
        "GET", "/", {**given, "command": list(command)}, {**WEBSOCKET, "sec-websocket-protocol": protocol}
    )


def by_spdy(*protocols: str, **query: str) -> Request:
    given = {name: [value] for name, value in query.items() if name != "command"}
    command = query.get("command", "").split()
    headers = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": ", ".join(protocols)}
    return Request("POST", "/", {**given, "command": command}, headers)


class Caller:
    """A client at the other end of an upgraded connection."""

    def __init__(self, answer: Answer) -> None:
        assert isinstance(answer, Upgrade), answer
        self.headers = answer.headers
        near, self.pipe = pipes()
        self.running = asyncio.ensure_future(_served(answer, near))

    def websocket(self) -> WebSocket:
        return WebSocket(self.pipe, client=True)

    async def everything(self, *said: bytes) -> dict[int, bytes]:
        """What comes on each channel until the server says good-bye, after having said some messages."""
        socket = self.websocket()
        for each in said:
            await socket.send(each)
        heard: dict[int, bytes] = {}
        async with asyncio.timeout(20):
            async for message in socket:
                channel = message.data[0]
                heard[channel] = heard.get(channel, b"") + message.data[1:]
            await socket.close()
            await self.running
        return heard


async def _served(answer: Upgrade, near: Pipe) -> None:
    try:
        await answer.run(near)
    finally:
        await near.close()


# exec


async def test_a_command_says_its_output_and_how_it_ended(stage: Stage, shell: Manifest) -> None:
    request = asked(V5, "sh", "-c", "echo out; echo err >&2; exit 3", stdout="true", stderr="true")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    assert caller.headers["Sec-WebSocket-Protocol"] == V5
    heard = await caller.everything()
    assert (heard[1], heard[2]) == (b"out\n", b"err\n")
    status = json.loads(heard[3])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_input_ends_when_the_client_closes_the_channel(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, asked(V5, "cat", stdin="1", stdout="1")))
    heard = await caller.everything(b"\x00hello ", b"\x00there", b"\xff\x00", b"\x00too late", b"", b"\x09?")
    assert heard[1] == b"hello there"
    assert json.loads(heard[3]) == {"metadata": {}, "status": "Success"}


async def test_channels_as_text(stage: Stage, shell: Manifest) -> None:
    request = asked(f"other, {TEXT}", "head", "-c", "5", stdin="true", stdout="true")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    socket = caller.websocket()
    await socket.send("0" + base64.b64encode(b"12345").decode())
    await socket.send("0 no base64")
    heard: dict[str, bytes] = {}
    async for message in socket:
        channel, data = message.data[:1].decode(), base64.b64decode(message.data[1:])
        assert message.text
        heard[channel] = heard.get(channel, b"") + data
    assert heard["1"] == b"12345"
    assert json.loads(heard["3"])["status"] == "Success"
    await caller.pipe.close()
    await asyncio.wait_for(caller.running, 10)


async def test_an_old_client_hears_only_of_failures(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, asked("", "true", stdout="1")))
    assert await caller.everything() == {1: b""}
    caller = Caller(await stage.streams.connect("exec", shell, asked("channel.k8s.io", "false", stdout="1")))
    assert b"exit code 1" in (await caller.everything())[3]


async def test_a_program_that_is_not_there_is_an_internal_error(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("exec", shell, asked(V4, "no-such-program", stdout="1")))
    status = json.loads((await caller.everything())[3])
    assert (status["reason"], status["code"]) == ("InternalError", 500)
    assert "no-such-program" in status["message"]


async def test_a_bug_does_not_look_like_success(stage: Stage, shell: Manifest) -> None:
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
    heard = await asyncio.wait_for(caller.everything(), 10)
    assert heard[1] == b"started\n"


async def test_a_terminal_is_one_stream_that_can_be_resized(stage: Stage, shell: Manifest) -> None:
    request = asked(V5, "sh", stdin="1", stdout="1", stderr="1", tty="1")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    size = json.dumps({"Width": 111, "Height": 33}).encode()
    nonsense = b'\x04{"Width": -1, "Height": "tall"}'
    heard = await caller.everything(
        nonsense, b"\x04" + size[:9], b"\x04" + size[9:], b"\x00stty size; exit 5\n"
    )
    assert b"33 111" in heard[1]
    assert 2 not in heard
    assert json.loads(heard[3])["details"]["causes"][0]["message"] == "5"


async def test_the_end_of_input_reaches_a_terminal_too(stage: Stage, shell: Manifest) -> None:
    request = asked(V5, "cat", stdin="1", stdout="1", tty="1")
    caller = Caller(await stage.streams.connect("exec", shell, request))
    heard = await caller.everything(b"\x00line\n", b"\xff\x00")
    assert heard[1].count(b"line") == 2  # the terminal's echo, and cat's


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


async def test_a_client_that_vanished_without_a_word_is_found_out(stage: Stage, shell: Manifest) -> None:
    class Vanished(Pipe):
        async def read(self) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def write(self, data: bytes) -> None:
            if self.closed:
                raise ConnectionResetError("nobody there")

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
async def test_impossible_wishes_are_refused(
    stage: Stage, shell: Manifest, request_: Request, message: str
) -> None:
    with pytest.raises(BadRequest) as refusal:
        await stage.streams.connect("exec", shell, request_)
    assert refusal.value.message == message


async def test_a_container_that_does_not_run_is_not_found(stage: Stage) -> None:
    pod = await stage.run("over", "true")
    await stage.ended(pod)
    for subresource in ("exec", "attach"):
        with pytest.raises(
            InternalError, match=r'unable to upgrade connection: container not found \("main"\)'
        ):
            await stage.streams.connect(subresource, pod, asked(V5, "ls", stdout="1"))


async def test_somebody_may_know_better_than_the_status_what_runs(stage: Stage) -> None:
    pod = await stage.run("ahead", "sleep", "600")
    streams = PodStreams(stage.runtime, SystemClock(), lambda pod: ["main"])
    answer = await streams.connect("exec", {**pod, "status": {}}, asked(V5, "echo", "hello", stdout="1"))
    assert (await Caller(answer).everything())[1] == b"hello\n"


async def test_protocols_that_nobody_knows_are_refused(stage: Stage, shell: Manifest) -> None:
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
    await peer.say(stdin, b"b\na\n", fin=True)
    await peer.until(lambda: {error, stdout, stderr} <= peer.finished)
    assert peer.heard[stdout] == b"a\nb\n"
    assert json.loads(peer.heard[error])["status"] == "Success"
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


async def test_last_words_on_a_terminal_are_heard(stage: Stage) -> None:
    pod = await stage.run("terminal", "sh", stdin=True, tty=True)
    request = asked(V5, stdin="1", stdout="1", tty="1")
    caller = Caller(await stage.streams.connect("attach", pod, request))
    heard = await caller.everything(b"\x00stty rows 7; stty size; echo ok-$((1+1)); exit 5\n")
    assert b"ok-2" in heard[1]
    assert json.loads(heard[3])["status"] == "Success"
    assert stage.status(pod)["state"]["terminated"]["exitCode"] == 5


# port-forward


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echo(stage: Stage) -> tuple[Manifest, int]:
    pod = await stage.run("echo", PYTHON, "-c", ECHO)
    path = stage.directory / "pods" / pod["metadata"]["uid"] / "containers" / "main" / "0.log"
    async with asyncio.timeout(20):
        while not path.exists() or not path.read_bytes():
            await asyncio.sleep(0.02)
    return pod, int(path.read_text().split()[-1])


async def pair(peer: SpdyPeer, port: int, request: str = "") -> tuple[int, int]:
    more = {"requestid": request} if request else {}
    error = await peer.open(streamtype="error", port=str(port), **more)
    return error, await peer.open(streamtype="data", port=str(port), **more)


async def test_ports_are_forwarded_over_spdy(stage: Stage, echo: tuple[Manifest, int]) -> None:
    pod, port = echo
    caller = Caller(await stage.streams.connect("portforward", pod, by_spdy("portforward.k8s.io")))
    peer = SpdyPeer(caller.pipe)
    for request in ("7", ""):  # older clients number nothing
        error, data = await pair(peer, port, request)
        await peer.say(error, b"", fin=True)
        bulk = os.urandom(300_000)
        await peer.say(data, bulk[:150_000])
        await peer.say(data, bulk[150_000:], fin=True)
        await peer.until(partial(_both_finished, peer, error, data))
        assert peer.heard[data] == bulk + b"bye"
        assert peer.heard[error] == b""
    bad = await peer.open(streamtype="data", port="99999")
    await peer.until(lambda: bad in peer.reset)
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_a_connection_that_the_client_resets_is_closed(
    stage: Stage, echo: tuple[Manifest, int]
) -> None:
    pod, port = echo
    caller = Caller(await stage.streams.connect("portforward", pod, by_spdy("portforward.k8s.io")))
    peer = SpdyPeer(caller.pipe)
    error, data = await pair(peer, port, "1")
    await peer.say(data, b"hello")
    await peer.until(lambda: peer.heard.get(data) == b"hello")
    await peer.send(Reset(data, 5))
    await peer.until(lambda: error in peer.finished)
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_a_port_where_nobody_listens(stage: Stage, shell: Manifest) -> None:
    caller = Caller(await stage.streams.connect("portforward", shell, by_spdy("portforward.k8s.io")))
    peer = SpdyPeer(caller.pipe)
    error, data = await pair(peer, unused_port(), "1")
    await peer.until(lambda: {error, data} <= peer.finished)
    uid = shell["metadata"]["uid"]
    assert peer.heard[error].startswith(b"error forwarding port ")
    assert f"to pod shell_default, uid {uid}: ".encode() in peer.heard[error]
    assert peer.heard[error].endswith(b"connection refused")
    await peer.close()
    await asyncio.wait_for(caller.running, 10)


async def test_ports_are_forwarded_over_channels(stage: Stage, echo: tuple[Manifest, int]) -> None:
    pod, port = echo
    nobody = unused_port()
    request = asked(V4, ports=f"{port},{nobody}")
    caller = Caller(await stage.streams.connect("portforward", pod, request))
    socket = caller.websocket()
    heard: dict[int, bytes] = {}
    await socket.send(b"\x00hello")
    async for message in socket:
        channel = message.data[0]
        heard[channel] = heard.get(channel, b"") + message.data[1:]
        if len(heard.get(0, b"")) == 7 and len(heard.get(3, b"")) > 2:
            break
    assert heard[0] == port.to_bytes(2, "little") + b"hello"
    assert heard[1] == port.to_bytes(2, "little")
    assert heard[2] == nobody.to_bytes(2, "little")
    assert heard[3].endswith(b"connection refused")
    await caller.pipe.close()
    await asyncio.wait_for(caller.running, 10)


async def test_only_a_running_pod_has_ports(stage: Stage) -> None:
    pod = await stage.run("short", "true")
    await stage.ended(pod)
    pod["status"]["phase"] = "Succeeded"
    with pytest.raises(InternalError, match=r"pod is not running\. Current status=Succeeded"):
        await stage.streams.connect("portforward", pod, by_spdy("portforward.k8s.io"))


@pytest.mark.parametrize("values", [[], ["0"], ["80,x"], ["65536"], ["80"] * 101])
async def test_ports_must_be_ports(values: list[str]) -> None:
    with pytest.raises(BadRequest, match='query parameter "ports"'):
        ports_of(values)


async def test_ports_are_repeated_or_separated() -> None:
    assert ports_of(["80,443", "8080"]) == [80, 443, 8080]


# Inboxes


async def test_an_inbox_stops_whoever_feeds_it_too_much() -> None:
    inbox = Inbox(hold=10)
    await inbox.feed(b"x" * 10)
    feeding = asyncio.create_task(inbox.feed(b"y"))
    await asyncio.sleep(0)
    assert not feeding.done()
    assert await inbox.read() == b"x" * 10
    await asyncio.wait_for(feeding, 1)
    inbox.end()
    await inbox.feed(b"dropped")
    assert [await inbox.read(), await inbox.read()] == [b"y", b""]


async def until(question: Callable[[], bool]) -> None:
    """Waits for something that nobody tells of."""
    async with asyncio.timeout(20):
        while not question():
            await asyncio.sleep(0.01)


def _runs(argument: str) -> bool:
    """Whether a sleep with this argument runs anywhere."""
    wanted = f"sleep\0{argument}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == wanted:
                return True
    return False


def _both_finished(peer: SpdyPeer, *streams: int) -> bool:
    return set(streams) <= peer.finished


def unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port
