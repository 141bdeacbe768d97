"""Many short jobs, one after another: nothing that is kept per job or pod stays when they are gone."""

import asyncio
import gc
from collections import Counter, OrderedDict, deque
from pathlib import Path

import pytest

from tests.embedded.test_cluster import cluster, gang
from volcano.apiserver.registry import event_expiry
from volcano.apiserver.storage import decoded_cache, journal
from volcano.embedded import logs
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.controllers import recorder, write_loops
from volcano.kube.informers import indexer
from volcano.kube.informers import shared_informers as informers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOBS = 400
SETTLING = 15  # attempts, two seconds apart
BOUND = 100  # entries of every cache that is bounded in number


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds caches far below the number of jobs, so that only what is not bounded can grow with it."""
    for function, argument in (
        (journal.DurableStore.__init__, "history"),
        (recorder.EventRecorder.__init__, "cache_size"),
    ):
        assert function.__kwdefaults__ is not None
        monkeypatch.setitem(function.__kwdefaults__, argument, BOUND)
    monkeypatch.setattr(informers.SharedDecodeCache.__init__, "__defaults__", (BOUND,))
    monkeypatch.setattr(event_expiry.EventExpiry.__init__, "__defaults__", (3.0,))
    monkeypatch.setattr(event_expiry, "INTERVAL", 0.5)
    monkeypatch.setattr(indexer, "TOMBSTONES", BOUND)
    monkeypatch.setattr(write_loops, "MAX_TRACKED", BOUND)
    monkeypatch.setattr(decoded_cache, "KEPT", BOUND)
    monkeypatch.setattr(logs, "KEPT_LINES", BOUND)
    monkeypatch.delenv("VOLCANO_CACHE_MUTATION_DETECTOR", raising=False)


async def run_jobs(running: LocalCluster, first: int, count: int) -> None:
    """Runs jobs to their end and waits until they, their pods and their events are gone."""
    for start in range(first, first + count, 50):
        await asyncio.gather(
            *(
                running.client.create(JOB, gang(f"churn-{number}", 1, cpu="10m", ttlSecondsAfterFinished=0))
                for number in range(start, min(start + 50, first + count))
            )
        )
    store = running.registry.store
    async with asyncio.timeout(120):
        while any(
            key.name.startswith("churn-")
            for kind in ("events", JOB.resource, POD_GROUP.resource, POD.resource)
            for key in store.collection(kind).records
        ):
            await asyncio.sleep(0.2)
    await asyncio.sleep(4)  # retries and debounced writes


def containers() -> dict[int, tuple[int, str]]:
    """Size and a sample of every container in the process."""
    gc.collect()
    return {
        id(each): (len(each), f"{type(each).__name__} with {next(iter(each))!r:.200}")
        for each in gc.get_objects()
        if isinstance(each, dict | list | set | deque | OrderedDict) and len(each) > BOUND
    }


def instances() -> Counter[str]:
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


async def settled_growth(before: Counter[str], sizes: dict[int, tuple[int, str]]) -> dict[str, int]:
    """Containers and types that have grown with the jobs, once what is written in the background has been written."""
    growth: dict[str, int] = {}
    for _ in range(SETTLING):
        after = instances()
        del after["logging.LogRecord"]  # kept by pytest
        growth = {
            sample: size
            for identity, (size, sample) in containers().items()
            if size - sizes.get(identity, (0, ""))[0] >= JOBS // 2
        }
        growth |= {
            name: count - before[name] for name, count in after.items() if count - before[name] >= JOBS
        }
        if not growth:
            break
        await asyncio.sleep(2)
    return growth


async def test_nothing_grows_with_the_number_of_finished_jobs(tmp_path: Path, small_caches: None) -> None:
    async with cluster(
        tmp_path, nodes="cpu=32,count=10", durable=True, sim_duration=0.1, local=LocalNodeOptions(nodes=0)
    ) as running:
        await run_jobs(running, 0, 100)
        before, sizes, tasks = instances(), containers(), len(asyncio.all_tasks())
        series = set(running.control_plane.api_server.metrics._requests) if running.control_plane else set()
        await run_jobs(running, 100, JOBS)
        growth = await settled_growth(before, sizes)
        assert growth == {}
        assert len(asyncio.all_tasks()) <= tasks + 20
        assert running.control_plane is not None
        assert len(set(running.control_plane.api_server.metrics._requests) - series) < 20
