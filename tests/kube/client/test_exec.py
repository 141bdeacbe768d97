"""Commands in containers: to the end, and with a terminal."""

from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest

from tests.kube.client.conftest import Script, refusal
from volcano.base.http.messages import Answer, Request
from volcano.base.http.websocket import WebSocket, accept
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.manifest import Key
from volcano.kube.client.exec import ExecFailed, execute, terminal
from volcano.kube.client.http import HttpClient

POD = Key("default", "web-0")
SUCCESS = b"\x03" + orjson.dumps({"status": "Success"})


async def shell(socket: WebSocket) -> None:
    """Answers each line, tells the size of the terminal, and ends with `exit`."""
    async for message in socket:
        channel, data = message.data[0], message.data[1:]
        if channel == 4:
            await socket.send(b"\x01" + data)
        elif data == b"exit\n":
            await socket.send(SUCCESS)
            return
        elif data == b"fail\n":
            await socket.send(b"\x03" + orjson.dumps({"status": "Failure", "message": "exit code 2"}))
            return
        else:
            await socket.send(b"\x01you wrote " + data)


def serving(run: Callable[..., object]) -> Callable[[Request], Answer]:
    return lambda request: accept(request, run, protocols=["v5.channel.k8s.io"])  # type: ignore[arg-type]


async def test_a_terminal_sends_input_and_its_size_and_receives_output(
    script: Script, client: HttpClient
) -> None:
    script.answers = [serving(shell)]
    async with terminal(client, POD, "main", ["sh", "-c", "a b"]) as opened:
        received = aiter(opened)
        await opened.resize(80, 24)
        assert orjson.loads(await anext(received)) == {"Width": 80, "Height": 24}
        await opened.send(b"hello")
        assert await anext(received) == b"you wrote hello"
        await opened.send(b"exit\n")
        assert [data async for data in received] == []
        assert opened.end == ""
    target = urlsplit(script.requests[0].target)
    assert target.path == "/api/v1/namespaces/default/pods/web-0/exec"
    assert parse_qsl(target.query) == [
        ("container", "main"), ("stdin", "true"), ("stdout", "true"), ("tty", "true"),
        ("command", "sh"), ("command", "-c"), ("command", "a b"),
    ]  # fmt: skip


async def test_the_end_of_a_terminal_says_why(script: Script, client: HttpClient) -> None:
    script.answers = [serving(shell)]
    async with terminal(client, POD, "main", ["sh"]) as opened:
        await opened.send(b"fail\n")
        assert [data async for data in opened] == []
        assert opened.end == "exit code 2"


async def test_a_connection_that_ends_early_is_no_success(script: Script, client: HttpClient) -> None:
    async def close(socket: WebSocket) -> None:
        await socket.send(b"\x01bye")

    script.answers = [serving(close)]
    async with terminal(client, POD, "main", ["sh"]) as opened:
        assert [data async for data in opened] == [b"bye"]
        assert opened.end == "the connection was closed"
    with pytest.raises(ExecFailed, match="closed before its end"):
        await execute(client, POD, "main", ["true"], lambda _data: None)


async def test_a_rejected_command_is_the_error_of_the_server(script: Script, client: HttpClient) -> None:
    script.answers = [refusal(403, "Forbidden", "pods/exec is forbidden")]
    with pytest.raises(Forbidden, match=r"^pods/exec is forbidden$"):
        async with terminal(client, POD, "main", ["sh"]):
            pass
    with pytest.raises(Forbidden, match=r"^pods/exec is forbidden$"):
        await execute(client, POD, "main", ["true"], lambda _data: None)
