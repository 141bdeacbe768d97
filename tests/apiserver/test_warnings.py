"""Warnings find their way to the client."""

import asyncio

from volcano.apiserver.warnings import MOST, collecting, header, warn


def test_what_is_said_inside_is_collected_once() -> None:
    warn("outside of a request")
    with collecting() as found:
        warn("a")
        warn("b")
        warn("a")
    warn("too late")
    assert found == ["a", "b"]


async def test_requests_do_not_hear_each_other() -> None:
    async def request(text: str) -> list[str]:
        with collecting() as found:
            await asyncio.sleep(0)
            warn(text)
            await asyncio.gather(*[asyncio.create_task(_later(f"{text}!"))])
            return found

    async def _later(text: str) -> None:
        warn(text)

    first, second = await asyncio.gather(request("a"), request("b"))
    assert (first, second) == (["a", "a!"], ["b", "b!"])


def test_the_header_is_one_safe_line() -> None:
    assert header(['say "hi"', "two\r\nlines é"]) == '299 - "say \\"hi\\"", 299 - "two  lines  "'


def test_too_many_warnings_are_cut() -> None:
    assert len(header(["x" * 1000] * 10)) <= MOST
