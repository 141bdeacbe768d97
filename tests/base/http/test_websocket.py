"""Websockets carry messages both ways and end properly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import websocket  # the websocket-client package: an independent implementation of the RFC
from hypothesis import given
from hypothesis import strategies as st

from tests.base.http.conftest import Serve
from volcano.base.http.client_connection import RequestFailed
from volcano.base.http.messages import Answer, Request
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.websocket import WebSocket, accept, connect


async def echo(socket: WebSocket) -> None:
    async for message in socket:
        await socket.send(message.data.decode() if message.text else message.data)


async def handler(request: Request) -> Answer:
    return accept(request, echo, protocols=["v5.channel.k8s.io", "v4.channel.k8s.io"], max_size=1 << 20)


@asynccontextmanager
async def session(serve: Serve, **options: object) -> AsyncIterator[WebSocket]:
    pool = ConnectionPool((await serve(handler)).server.url)
    async with connect(pool, "/exec", {}, **options) as socket:  # type: ignore[arg-type]
        yield socket
    await pool.close()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1 << 20])
async def test_messages_of_every_size_come_back(serve: Serve, size: int) -> None:
    async with session(serve) as socket:
        await socket.send(b"x" * size)
        message = await socket.receive()
        assert message is not None
        assert (len(message.data), message.text) == (size, False)
        await socket.send("é" * size)
        if size < 1 << 19:
            message = await socket.receive()
            assert message is not None
            assert message.text
            assert message.data.decode() == "é" * size


async def test_a_bug_is_no_proper_good_bye(serve: Serve) -> None:
    async def broken(socket: WebSocket) -> None:
        raise LookupError("a bug")

    async def answer(request: Request) -> Answer:
        return accept(request, broken)

    pool = ConnectionPool((await serve(answer)).server.url)
    async with connect(pool, "/exec", {}) as socket:
        assert await socket.receive() is None
        assert socket.close_code == 1011
    await pool.close()


async def test_the_first_common_subprotocol_is_chosen(serve: Serve) -> None:
    async with session(serve, protocols=["v9", "v4.channel.k8s.io", "v5.channel.k8s.io"]) as socket:
        assert socket.subprotocol == "v4.channel.k8s.io"


async def test_no_common_subprotocol_is_a_refusal_that_says_so(serve: Serve) -> None:
    with pytest.raises(RequestFailed, match=r"400 .*none of the subprotocols v9 is one of v5\.channel"):
        async with session(serve, protocols=["v9"]):
            pass


async def test_a_message_too_large_closes_with_1009(serve: Serve) -> None:
    async with session(serve) as socket:
        await socket.send(b"x" * ((1 << 20) + 1))
        assert await socket.receive() is None
        assert socket.close_code == 1009


async def test_text_that_is_not_utf8_closes_with_1007(serve: Serve) -> None:
    async with session(serve) as socket:
        await socket._connection.write(b"\x81\x81" + bytes(4) + b"\xff")  # a masked text frame of one byte
        assert await socket.receive() is None
        assert socket.close_code == 1007


async def test_a_plain_request_is_answered_with_what_is_missing(serve: Serve) -> None:
    pool = ConnectionPool((await serve(handler)).server.url)
    reply = await pool.request("GET", "/exec")
    assert reply.status == 400
    assert b"Sec-WebSocket-Key" in reply.body
    await pool.close()


async def test_another_implementation_understands_us(serve: Serve) -> None:
    url = (await serve(handler)).server.url.replace("http", "ws")

    def talk() -> list[object]:
        client = websocket.create_connection(url, subprotocols=["v5.channel.k8s.io"], timeout=5)
        client.send("héllo")
        received: list[object] = [client.subprotocol, client.recv()]
        client.send_frame(websocket.ABNF.create_frame("frag", websocket.ABNF.OPCODE_BINARY, 0))
        client.ping("are you there")
        client.send_frame(websocket.ABNF.create_frame("mented", websocket.ABNF.OPCODE_CONT, 1))
        received.append(client.recv_data(control_frame=True))
        received.append(client.recv_data())
        client.send_close(1000, b"bye")
        received.append(client.recv_data(control_frame=True))
        client.shutdown()  # type: ignore[no-untyped-call]
        return received

    assert await asyncio.to_thread(talk) == [
        "v5.channel.k8s.io",
        "héllo",
        (10, b"are you there"),
        (2, b"fragmented"),
        (8, b"\x03\xe8"),
    ]


class Pieces:
    """A connection whose peer sends the given pieces and then ends it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.written = b""

    async def read(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    async def write(self, data: bytes) -> None:
        self.written += data

    async def end(self) -> None:
        self.pieces.clear()


async def received(pieces: list[bytes], max_size: int = 1000) -> tuple[list[bytes], int]:
    socket = WebSocket(Pieces(pieces), max_size=max_size)  # type: ignore[arg-type]
    return [message.data async for message in socket], socket.close_code


def frame(payload: bytes, *, opcode: int = 2, final: bool = True, mask: bytes = b"abcd") -> bytes:
    """A client's frame, by the letter of RFC 6455."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    return (
        bytes([0x80 * final | opcode]) + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    )


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_messages_survive_any_cutting_of_the_stream(sent: list[bytes], step: int) -> None:
    wire = b"".join(map(frame, sent))
    pieces = [wire[start : start + step] for start in range(0, len(wire), step)]
    assert asyncio.run(received(pieces)) == (sent, 1006)  # the end came without a close frame


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_arbitrary_bytes_are_messages_or_a_close_code_never_a_crash(pieces: list[bytes]) -> None:
    _, code = asyncio.run(received([piece for piece in pieces if piece]))
    assert 1000 <= code < 5000


def test_a_message_of_many_small_fragments_is_limited_too() -> None:
    pieces = [frame(b"x", final=False), *[frame(b"x" * 100, opcode=0, final=False)] * 20]
    assert asyncio.run(received(pieces)) == ([], 1009)


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        pytest.param(b"\x82\x01x", 1002, id="a client that does not mask"),
        pytest.param(frame(b"x", opcode=3), 1002, id="an unknown opcode"),
        pytest.param(frame(b"x", opcode=0), 1002, id="a continuation of nothing"),
        pytest.param(frame(b"x" * 126, opcode=9), 1002, id="a long control frame"),
        pytest.param(frame(b"\x03", opcode=8), 1002, id="a close frame with half a code"),
        pytest.param(frame(b"\x03\xe9going", opcode=8), 1001, id="a close frame"),
        pytest.param(frame(b"", opcode=8), 1005, id="a close frame without a code"),
    ],
)
def test_the_end_has_a_code(wire: bytes, code: int) -> None:
    assert asyncio.run(received([wire])) == ([], code)
