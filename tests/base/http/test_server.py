"""The server answers in order, rejects malformed requests and survives its clients."""

import asyncio
import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.base.http.conftest import GET, Serve, echo, within
from volcano.base.http.http1 import MalformedRequest
from volcano.base.http.messages import Request, Response
from volcano.base.http.request_parser import Limits
from volcano.base.http.server import Server

PIECES = [
    b"GET / HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: upgrade\r\nUpgrade: x\r\n",
    b"\r\n",
    b"abc",
    b"0\r\n\r\n",
]


async def test_a_request_arrives_decoded(serve: Serve) -> None:
    seen: list[Request] = []

    async def handler(request: Request) -> Response:
        seen.append(request)
        return Response()

    wire = await (await serve(handler)).connect()
    await wire.send(GET.replace(b"\r\n\r\n", b"\r\nX-Twice: 1\r\nx-twice: 2\r\n\r\n"))
    status, headers, body = await wire.answer()
    assert (status, body) == (200, b"")
    assert headers["content-length"] == "0"
    assert headers["date"].endswith("GMT")
    request = seen[0]
    assert (request.method, request.path, request.target) == ("GET", "/a b", "/a%20b?x=1&x=2&empty=")
    assert request.query == {"x": ["1", "2"], "empty": [""]}
    assert request.headers["x-twice"] == "1, 2"
    assert request.peer.address == "127.0.0.1"


async def test_the_connection_is_kept_and_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.02 if request.path == "/0" else 0)  # the first takes longest
        return Response(200, {}, request.path.encode())

    wire = await (await serve(handler)).connect()
    await wire.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(100)))
    assert [(await wire.answer())[2] for _ in range(100)] == [b"/%d" % n for n in range(100)]


@pytest.mark.parametrize("step", [1, 3, 7])
async def test_a_request_may_arrive_in_pieces(serve: Serve, step: int) -> None:
    wire = await (await serve(echo)).connect()
    message = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" * 2
    for start in range(0, len(message), step):
        await wire.send(message[start : start + step])
        await asyncio.sleep(0)
    assert (await wire.answer())[2] == b"hello"
    assert (await wire.answer())[2] == b"hello"


async def test_a_chunked_body_arrives_whole_with_its_trailers_ignored(serve: Serve) -> None:
    wire = await (await serve(echo)).connect()
    await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    await wire.send(b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n")
    assert (await wire.answer())[2] == b"abcde"


async def test_a_client_that_asks_gets_a_go_ahead_before_its_body(serve: Serve) -> None:
    wire = await (await serve(echo)).connect()
    await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert (await wire.head())[0] == 100
    await wire.send(b"ok")
    assert (await wire.answer())[2] == b"ok"


async def test_head_is_answered_without_a_body_and_says_its_length(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {}, b"four")

    wire = await (await serve(handler)).connect()
    await wire.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await wire.head())[1]["content-length"] == "4"
    assert (await wire.answer())[2] == b"four"


async def test_no_content_has_neither_body_nor_length(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        return Response(204, {}, b"ignored")

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    status, headers = await wire.head()
    assert status == 204
    assert "content-length" not in headers


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, id="TLS to a plain port"),
        pytest.param(b"hello\r\n\r\n", 400, id="no HTTP at all"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, id="two hosts"),
        pytest.param(b"GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n", 400, id="a path that is not UTF-8"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n", 400, id="a broken header name"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, id="a version we do not speak"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            id="two framings at once",
        ),
        pytest.param(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            400,
            id="broken chunk size",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413, id="length too large"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101,
            413,
            id="chunks too large",
        ),
        pytest.param(b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, id="target too long"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 3000 + b"\r\n\r\n", 431, id="head too long"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 60 + b"\r\n", 200, id="repeated headers fold"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nab",
            400,
            id="an upgrade with a body",
        ),
    ],
)
async def test_what_cannot_be_served_is_refused_and_the_connection_closed(
    serve: Serve, data: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await serve(echo, limits=Limits(body=100, head=2000, headers=50))
    wire = await bench.connect()
    await wire.send(data)
    answered, headers, _ = await wire.answer()
    assert answered == status
    if status != 200:
        assert headers["connection"] == "close"
        assert await wire.rest() == b""
    assert "Traceback" not in caplog.text
    again = await bench.connect()  # other clients are not affected
    await again.send(GET)
    assert (await again.answer())[0] == 200


async def test_an_endless_header_line_is_cut_off(serve: Serve) -> None:
    wire = await (await serve(echo, limits=Limits(head=2000))).connect()
    await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\nX: ")
    async with within(5):
        while not wire.reader._buffer:  # type: ignore[attr-defined]
            await wire.send(b"a" * 1000)
            await asyncio.sleep(0.001)
    assert (await wire.answer())[0] == 431


async def test_requests_before_a_broken_one_are_still_answered(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.01)
        return Response(200, {}, b"first")

    wire = await (await serve(handler)).connect()
    await wire.send(GET + b"\x00\x01garbage\r\n\r\n")
    assert (await wire.answer())[2] == b"first"
    assert (await wire.answer())[0] == 400


async def test_a_refused_body_does_not_cost_the_client_its_answer(serve: Serve) -> None:
    wire = await (await serve(echo, max_body=1000)).connect()
    await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000)
    status, _, body = await wire.answer()
    assert status == 413
    assert b"1000" in body


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", False, id="1.1 close"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", False, id="1.0"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True, id="1.0 keep-alive"),
    ],
)
async def test_the_client_decides_whether_the_connection_stays(serve: Serve, head: bytes, kept: bool) -> None:
    wire = await (await serve(echo)).connect()
    await wire.send(head)
    assert (await wire.answer())[0] == 200
    await wire.send(GET)
    rest = wire.reader.read(12) if kept else wire.rest()
    assert (await rest)[:12] == (b"HTTP/1.1 200" if kept else b"")


async def test_a_handlers_bug_is_one_answer_and_one_log_line(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/bug":
            raise RuntimeError("broken part")
        return Response(200, {}, b"fine")

    def say(request: Request, error: BaseException) -> Response:
        return Response(500, {"Content-Type": "application/json"}, b'{"kind":"Status"}')

    wire = await (await serve(handler, on_error=say)).connect()
    await wire.send(b"GET /bug HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
    assert (await wire.answer())[::2] == (500, b'{"kind":"Status"}')
    assert (await wire.answer())[2] == b"fine"
    assert [record.message for record in caplog.records] == ["handler failed method=GET path=/bug"]


async def test_an_answer_cannot_smuggle_in_header_lines(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {"X": "a\r\nSet-Cookie: b"})

    wire = await (await serve(handler)).connect()
    await wire.send(GET)
    assert b"Set-Cookie" not in await wire.rest()
    assert "line break" in caplog.text


async def test_the_server_says_where_it_is() -> None:
    async with Server(echo) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert int(server.url.rsplit(":", 1)[1]) > 0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.one_of(
            st.sampled_from(PIECES),
            st.binary(max_size=20),
        ),
        max_size=12,
    )
)
async def test_no_bytes_whatever_harm_the_server(pieces: list[bytes]) -> None:
    async with Server(echo) as server:
        port = int(server.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # Some versions of asyncio never send the end of a stream after an empty piece.
        writer.writelines([piece for piece in pieces if piece])
        writer.write_eof()
        async with within(5):
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                answer = await reader.read()
        assert b" 500 " not in answer
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_the_rejection_of_a_malformed_request_can_be_worded_by_the_caller(serve: Serve) -> None:
    def reject(error: MalformedRequest) -> Response:
        return Response(error.status, {"Content-Type": "application/json"}, b'{"limit": true}')

    wire = await (await serve(echo, max_body=10, on_malformed=reject)).connect()
    await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n")
    status, headers, body = await wire.answer()
    assert (status, headers["content-type"], body) == (413, "application/json", b'{"limit": true}')


async def test_the_bodies_of_all_connections_together_are_limited(serve: Serve) -> None:
    released = asyncio.Event()

    async def handler(request: Request) -> Response:
        await released.wait()
        return Response()

    bench = await serve(handler, limits=Limits(body=100, buffered=250))
    post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
    holding = [await bench.connect() for _ in range(2)]
    for wire in holding:
        await wire.send(post)
    partial = await bench.connect()
    await partial.send(post[:-60])
    while bench.server.body_buffer.used != 240:
        await asyncio.sleep(0.01)
    rejected = await bench.connect()
    await rejected.send(post)
    assert (await rejected.answer())[0] == 429
    partial.writer.close()
    released.set()
    for wire in holding:
        assert (await wire.answer())[0] == 200
    while bench.server.body_buffer.used:
        await asyncio.sleep(0.01)
