"""Analyses in threads of their own."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from volcano.dashboard.analyses import PARALLEL, Analyses


@pytest.fixture
def analyses() -> Iterator[Analyses]:
    running = Analyses()
    yield running
    running.close()


async def test_analyses_of_closed_pages_keep_their_threads_until_they_end(analyses: Analyses) -> None:
    """Were their threads free at once, closed pages could occupy all threads of the process, one after the other."""
    begun, release = threading.Semaphore(0), threading.Event()

    async def long() -> None:
        begun.release()
        release.wait()

    async def short() -> str:
        return "done"

    tasks = [asyncio.create_task(analyses.run_alone(long)) for _ in range(PARALLEL)]
    for _ in tasks:
        await asyncio.to_thread(begun.acquire)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    try:
        waiting = asyncio.create_task(analyses.run_alone(short))
        assert await asyncio.to_thread(lambda: "read") == "read"
        assert not waiting.done()
    finally:
        release.set()
    assert await waiting == "done"


async def test_an_analysis_that_waits_for_a_thread_can_be_cancelled(analyses: Analyses) -> None:
    begun, release, ran = threading.Semaphore(0), threading.Event(), threading.Event()

    async def long() -> None:
        begun.release()
        release.wait()

    async def never() -> None:
        ran.set()

    tasks = [asyncio.create_task(analyses.run_alone(long)) for _ in range(PARALLEL)]
    for _ in tasks:
        await asyncio.to_thread(begun.acquire)
    waiting = asyncio.create_task(analyses.run_alone(never))
    await asyncio.sleep(0)
    waiting.cancel()
    release.set()
    await asyncio.gather(*tasks)
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    await analyses.run_alone(long)
    assert not ran.is_set()


async def test_an_error_of_an_analysis_is_raised_where_it_is_awaited(analyses: Analyses) -> None:
    async def broken() -> None:
        raise ValueError("no such node")

    with pytest.raises(ValueError, match="no such node"):
        await analyses.run_alone(broken)
