"""No bytes that a client sends make the server fail: no 5xx, no traceback, no stall."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.cluster import fuzzed_cluster
from tests.fuzz.http_cases import HttpCases
from tests.fuzz.http_client import exchange
from tests.fuzz.monitor import MAX_STALL, Monitor

CONNECTIONS = 16


async def fuzz(directory: Path, seed: int, count: int) -> Monitor:
    monitor = Monitor()
    async with fuzzed_cluster(directory, monitor) as cluster:
        cases = HttpCases(Random(seed), cluster.token)
        requests = iter([cases.next() for _ in range(count)])

        async def client() -> None:
            for request in requests:
                await exchange(cluster, request)

        await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return monitor


async def test_unusual_requests_are_answered(tmp_path: Path) -> None:
    monitor = await fuzz(tmp_path, seed=1, count=300)
    assert not monitor.failures, monitor.report()
    assert {200, 400, 401, 404, 405, 415} <= set(monitor.codes), "the requests must reach all the way down"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 6))
async def test_ten_thousand_unusual_requests_do_not_stop_or_stall_the_cluster(
    tmp_path: Path, seed: int
) -> None:
    monitor = await fuzz(tmp_path, seed, count=2_500)
    assert not monitor.failures, monitor.report()
    assert monitor.longest_stall < MAX_STALL
