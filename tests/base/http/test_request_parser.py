"""Parsing depends neither on earlier requests nor on how the bytes are split."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from volcano.base.http.http1 import MalformedRequest
from volcano.base.http.messages import Peer
from volcano.base.http.request_parser import Limits, ParsedRequest, RequestParser, cached_head, read_head

LINES = [
    b"Host: h", b"host: other", b"Accept: a", b"accept: b", b"Cookie: c=1", b"COOKIE: d=2", b"X: ",
    b"Expect: 100-continue",
    b"Content-Length: 3", b"content-length: 3", b"Content-Length: 99999999", b"X-Long: " + b"y" * 2000,
]  # fmt: skip


def parsed(data: bytes, cuts: list[int]) -> tuple[list[object], str, int]:
    """The requests in some bytes, the error in them, and how often 100 Continue was requested."""
    seen: list[ParsedRequest] = []
    wanted: list[None] = []
    limits = Limits(body=1000, head=4000, headers=4)
    parser = RequestParser(limits, Peer(), seen.append, lambda: wanted.append(None))
    trouble = ""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        for start, end in pairwise(places):
            if start < end:
                parser.feed(data[start:end])
    except MalformedRequest as error:
        trouble = f"{error.status} {error}"
    found = [
        (i.request.method, i.request.path, dict(i.request.headers), i.request.body, i.keep_alive)
        for i in seen
    ]
    return [*found], trouble, len(wanted)


@given(st.lists(st.sampled_from(LINES), max_size=7), st.lists(st.integers(0, 500), max_size=3))
def test_a_head_that_was_read_before_is_read_as_if_it_were_new(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\r\n".join([b"POST /a HTTP/1.1", *lines, b"", b"abc"])
    cached_head.cache_clear()
    afresh = parsed(data, cuts)
    assert parsed(data, cuts) == afresh


def test_repeated_headers_are_joined_but_for_those_that_must_be_one() -> None:
    head = read_head((b"Accept", b"a", b"accept", b"b", b"Cookie", b"c=1", b"cookie", b"d=2", b"Host", b"h"))
    assert head.headers == {"accept": "a, b", "cookie": "c=1; d=2", "host": "h"}
    for name in (b"Host: h", b"Content-Length: 0"):
        data = b"\r\n".join([b"GET / HTTP/1.1", b"Host: h", b"Content-Length: 0", name, b"", b""])
        assert parsed(data, [])[1].startswith("400 ")


def test_a_length_is_the_requests_own_though_its_other_lines_are_known() -> None:
    for length in (3, 5):
        data = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length
        (found,), trouble, _ = parsed(data, [])
        assert not trouble
        assert found == ("POST", "/a", {"host": "h", "content-length": str(length)}, b"x" * length, True)
