"""Websockets carry messages both ways and end properly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import websocket  # the websocket-client package: an independent implementation of the RFC
from hypothesis import given
from hypothesis import strategies as st

from tests.net.conftest import Serve
from volcano.net.client_connection import RequestFailed
from volcano.net.frames import Frame, FrameError, FrameReader, Opcode, encode_frame, masked
from volcano.net.messages import Answer, Request
from volcano.net.pool import ConnectionPool
from volcano.net.websocket import WebSocket, accept, connect


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
        await socket._write(Frame(Opcode.TEXT, b"\xff"))
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


frames = st.builds(
    Frame,
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION]),
    st.binary(max_size=300),
    st.booleans(),
)


@given(st.lists(frames, max_size=5), st.sampled_from([b"", b"abcd"]), st.integers(1, 50))
def test_frames_survive_any_cutting_of_the_stream(sent: list[Frame], mask: bytes, step: int) -> None:
    wire = b"".join(encode_frame(frame, mask) for frame in sent)
    reader = FrameReader(expect_masks=bool(mask), max_size=1000)
    pieces = [wire[start : start + step] for start in range(0, len(wire), step)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


@given(st.binary(max_size=100), st.binary(min_size=4, max_size=4))
def test_masking_is_the_byte_wise_xor_and_its_own_inverse(payload: bytes, mask: bytes) -> None:
    assert masked(payload, mask) == bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    assert masked(masked(payload, mask), mask) == payload


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_frames_or_an_error_never_a_crash(data: bytes) -> None:
    reader = FrameReader(expect_masks=True, max_size=1000)
    codes = set()
    try:
        assert all(len(frame.payload) <= 1000 for frame in reader.feed(data))
    except FrameError as error:
        codes.add(error.code)
    assert codes <= {1002, 1009}
