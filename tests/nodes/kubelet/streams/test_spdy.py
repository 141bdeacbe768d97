"""SPDY/3.1: frames, streams opened by a client, and peers that violate the protocol."""

import asyncio
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.kubelet.streams.wire import SpdyPeer, pipes, websockets
from volcano.nodes.kubelet.streams.spdy import SpdyConnection, SpdyStream, StreamRejected, Tunnel
from volcano.nodes.kubelet.streams.spdy_dictionary import DICTIONARY
from volcano.nodes.kubelet.streams.spdy_frames import (
    INVALID_STREAM,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Data,
    Frame,
    Framer,
    GoAway,
    Other,
    Ping,
    Reset,
    SpdyError,
    SynReply,
    SynStream,
)


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


names = st.text("abcdefgh-", min_size=1, max_size=12)
headers = st.dictionaries(names, st.text(max_size=30).map(lambda text: text.encode().hex()), max_size=5)
numbers = st.integers(1, (1 << 31) - 1)
frames = st.one_of(
    st.builds(SynStream, numbers, headers, st.booleans()),
    st.builds(SynReply, numbers, headers, st.booleans()),
    st.builds(Reset, numbers, st.integers(1, 11)),
    st.builds(Ping, numbers),
    st.builds(GoAway, numbers, st.integers(0, 2)),
    st.builds(Data, numbers, st.binary(max_size=100), st.booleans()),
)


@given(st.lists(frames, max_size=10), st.integers(1, 50))
def test_frames_survive_the_wire_however_it_cuts_them(sent: list[Frame], size: int) -> None:
    one, two = Framer(), Framer()
    wire = b"".join(one.encode(frame) for frame in sent)
    pieces = [wire[start : start + size] for start in range(0, len(wire), size)]
    assert [frame for piece in pieces for frame in two.feed(piece)] == sent


@given(st.binary(max_size=300))
def test_bytes_that_are_no_spdy_do_no_harm(data: bytes) -> None:
    framer = Framer()
    with suppress(SpdyError):
        assert len(list(framer.feed(data))) <= len(data) / 8


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param("80020001 00000000", id="another version"),
        pytest.param("80030005 00000000", id="an unknown kind"),
        pytest.param("80030001 00000004 00000001", id="a stream without headers"),
        pytest.param("80030001 0000000e 00000001000000000000 ffffffff", id="headers that are not compressed"),
        pytest.param("00000001 00ffffff", id="a frame too large"),
    ],
)
def test_broken_frames_are_rejected(wire: str) -> None:
    with pytest.raises(SpdyError):
        list(Framer().feed(bytes.fromhex(wire.replace(" ", ""))))


def test_headers_that_decompress_to_very_much_are_rejected() -> None:
    framer = Framer()
    wire = framer.encode(SynStream(1, {"a": "x" * 1_000_000}))
    assert len(wire) < 10_000
    with pytest.raises(SpdyError, match="more than"):
        list(Framer().feed(wire))


def test_frames_that_nothing_depends_on_are_read_over() -> None:
    window = bytes.fromhex("80030009 00000008 00000001 00010000".replace(" ", ""))
    settings = bytes.fromhex("80030004 0000000c 00000001 00000007 00010000".replace(" ", ""))
    assert list(Framer().feed(window + settings)) == [Other(9), Other(4)]


class Echo:
    """A server that echoes data and rejects streams on request."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.streams: list[SpdyStream] = []

    def opened(self, stream: SpdyStream) -> None:
        if stream.headers.get("kind") == "bad":
            raise StreamRejected("bad")
        self.streams.append(stream)
        if stream.headers.get("kind") != "deaf":
            self.tasks.append(asyncio.create_task(self._echo(stream)))

    async def _echo(self, stream: SpdyStream) -> None:
        while data := await stream.buffer.read():
            await stream.write(data)
        await stream.close()


@pytest.mark.parametrize("tunnelled", [False, True])
async def test_streams_are_opened_used_and_finished(tunnelled: bool) -> None:
    if tunnelled:
        near, far = (Tunnel(end) for end in websockets(""))
    else:
        near, far = pipes()  # type: ignore[assignment]
    echo = Echo()
    running = asyncio.create_task(SpdyConnection(near, echo.opened).run())
    peer = SpdyPeer(far)
    one, two, bad = await peer.open(kind="a"), await peer.open(kind="b"), await peer.open(kind="bad")
    await peer.send_data(one, b"hello ")
    await peer.send_data(two, b"other", fin=True)
    await peer.send_data(one, b"world", fin=True)
    await peer.send(Ping(1))
    await peer.until(lambda: peer.finished == {one, two} and peer.pongs)
    assert peer.received == {one: b"hello world", two: b"other"}
    assert (peer.replied, peer.reset, peer.pongs) == ({one, two}, {bad: REFUSED_STREAM}, [1])
    await peer.send(GoAway(0))
    await asyncio.wait_for(running, 10)
    await peer.close()


async def test_a_peer_that_violates_the_protocol_gets_an_error() -> None:
    near, far = pipes()
    running = asyncio.create_task(SpdyConnection(near, Echo().opened).run())
    peer = SpdyPeer(far)
    await peer.send(SynStream(4, {}))
    await peer.send_data(99, b"to no stream")
    await peer.until(lambda: len(peer.reset) == 2)
    assert peer.reset == {4: PROTOCOL_ERROR, 99: INVALID_STREAM}
    await far.write(b"\xff" * 64)
    await peer.until(lambda: peer.gone)
    await asyncio.wait_for(running, 10)
    await peer.close()


async def test_an_unread_stream_blocks_the_sender_until_it_is_dropped() -> None:
    near, far = pipes()
    echo = Echo()
    running = asyncio.create_task(SpdyConnection(near, echo.opened).run())
    peer = SpdyPeer(far)
    undelivered_signals, other = await peer.open(kind="deaf"), await peer.open(kind="a")
    await peer.until(lambda: len(peer.replied) == 2)
    for _ in range(20):
        await peer.send_data(undelivered_signals, bytes(100_000))
    await peer.send_data(other, b"waits", fin=True)
    await asyncio.sleep(0.05)
    assert other not in peer.received
    echo.streams[0].buffer.discard()
    await peer.until(lambda: other in peer.finished)
    await peer.close()
    await asyncio.wait_for(running, 10)
    assert all(stream.dropped.is_set() for stream in echo.streams[:1])


async def test_a_stream_that_is_reset_is_dropped_at_both_ends() -> None:
    near, far = pipes()
    echo = Echo()
    running = asyncio.create_task(SpdyConnection(near, echo.opened).run())
    peer = SpdyPeer(far)
    one = await peer.open(kind="deaf")
    await peer.send(Reset(one, 5))
    await peer.until(lambda: echo.streams)
    await asyncio.wait_for(echo.streams[0].dropped.wait(), 10)
    with pytest.raises(BrokenPipeError):
        await echo.streams[0].write(b"too late")
    two = await peer.open(kind="deaf")
    await peer.until(lambda: two in peer.replied)
    await echo.streams[1].reset()
    await peer.until(lambda: two in peer.reset)
    await peer.close()
    await asyncio.wait_for(running, 10)
