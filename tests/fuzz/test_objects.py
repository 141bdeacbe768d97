"""No object that a client writes makes the cluster fail: no 5xx, no error in a component, no stall."""

from pathlib import Path

import pytest

from tests.fuzz.cluster import fuzzed_cluster
from tests.fuzz.monitor import MAX_STALL, Monitor
from tests.fuzz.objects import ObjectFuzzer


async def fuzz(directory: Path, seed: int, mutations: int) -> Monitor:
    monitor = Monitor()
    async with fuzzed_cluster(directory, monitor) as cluster:
        await ObjectFuzzer(cluster, seed).run(mutations)
    return monitor


async def test_mutated_objects_are_accepted_or_rejected_and_nothing_else(tmp_path: Path) -> None:
    monitor = await fuzz(tmp_path, seed=1, mutations=600)
    assert not monitor.failures, monitor.report()
    assert {200, 201, 400, 404, 409, 422} <= set(monitor.codes), "the mutations must reach all the way down"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 12))
async def test_a_hundred_thousand_mutations_do_not_stop_or_stall_the_cluster(
    tmp_path: Path, seed: int
) -> None:
    monitor = await fuzz(tmp_path, seed, mutations=10_000)
    assert not monitor.failures, monitor.report()
    assert monitor.longest_stall < MAX_STALL
