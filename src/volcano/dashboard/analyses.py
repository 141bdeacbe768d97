"""Runs analyses beside the event loop of the pages, a few at a time: one takes up to seconds of CPU time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from volcano.dashboard.viewer import Viewer
from volcano.services.connection import Connection

Result = TypeVar("Result")
PARALLEL = 2


class Analyses:
    """Threads of their own, each with an event loop while it computes.

    An analysis of a page that is closed meanwhile goes on until it ends. It holds one of these threads: it delays other
    analyses and nothing else, such as pages that read files in threads of the event loop.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(PARALLEL, thread_name_prefix="analysis")

    async def run(self, viewer: Viewer, analysis: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Result of an analysis with a connection that has the viewer's credentials."""

        async def with_session() -> Result:
            connection = viewer.new_connection()
            try:
                return await analysis(connection)
            finally:
                await connection.close()

        return await self.run_alone(with_session)

    async def run_alone(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Result of a coroutine with an event loop of its own. Work that waits for a thread can be cancelled."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: asyncio.run(work()))

    def close(self) -> None:
        """Drops what waits for a thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)
