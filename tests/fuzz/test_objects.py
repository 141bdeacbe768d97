"""No object that a client writes makes the cluster fail: no 5xx, no error in a component, no stall."""

from pathlib import Path

import pytest

from tests.fuzz.cluster import fuzzed_cluster, fuzzed_server
from tests.fuzz.monitor import MAX_STALL, Monitor
from tests.fuzz.objects import ObjectFuzzer


async def fuzz(directory: Path, seed: int, mutations: int) -> Monitor:
    """Mutations with all components running."""
    monitor = Monitor()
    async with fuzzed_cluster(directory, monitor) as cluster:
        await ObjectFuzzer(cluster, seed).run(mutations)
    return monitor


async def fuzz_server(seed: int, mutations: int) -> Monitor:
    """Mutations of objects that no component works on."""
    monitor = Monitor()
    async with fuzzed_server(monitor) as server:
        await ObjectFuzzer(server, seed).run(mutations)
    return monitor


async def test_mutated_objects_are_accepted_or_rejected_and_nothing_else(tmp_path: Path) -> None:
    for monitor in (await fuzz(tmp_path, seed=1, mutations=400), await fuzz_server(seed=1, mutations=600)):
        assert not monitor.failures, monitor.report()
        assert {200, 201, 400, 404, 422} <= set(monitor.codes), "the mutations must reach all the way down"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 9))
async def test_seventy_thousand_mutations_do_not_stop_or_stall_the_server(seed: int) -> None:
    monitor = await fuzz_server(seed, mutations=10_000)
    assert not monitor.failures, monitor.report()
    assert monitor.longest_stall < MAX_STALL


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(9, 15))
async def test_thirty_thousand_mutations_do_not_stop_or_stall_a_whole_cluster(
    tmp_path: Path, seed: int
) -> None:
    monitor = await fuzz(tmp_path, seed, mutations=5_000)
    assert not monitor.failures, monitor.report()
    assert monitor.longest_stall < MAX_STALL
