"""A state is what the scheduler would see, and stays as it is whatever is done with its copies."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from tests.builders import START, job, node, queue
from tests.cluster import SmallCluster
from tests.scenario import cluster_of, config, event
from tests.strategies import World, worlds
from volcano.analysis.rerun.rerun import run, starts
from volcano.analysis.rerun.state import ClusterState, MissingRights
from volcano.controllers.job.controller import JobController
from volcano.kube.api.errors import Forbidden, NotFound
from volcano.kube.api.kinds import (
    CSI_NODE,
    HYPER_NODE,
    JOB,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
    Kind,
)
from volcano.kube.client.protocol import EVERYTHING, Decode, EventType, Listing, Query
from volcano.model.decisions import Bind, Decision, Evict, Nominate
from volcano.model.snapshot import Snapshot
from volcano.scheduler.cycle import schedule
from volcano.scheduler.snapshot_file import save

ACTIONS = ("enqueue", "allocate", "preempt", "reclaim", "backfill")


def content(snapshot: Snapshot) -> Any:
    """All of a snapshot that decisions depend on, to be compared."""
    return (
        snapshot.nodes,
        snapshot.used.tolist(),
        snapshot.releasing.tolist(),
        snapshot.nonzero_used.tolist(),
        [dict(tasks) for tasks in snapshot.tasks_on],
        {
            uid: (found.group, dict(found.tasks), found.allocated.tolist())
            for uid, found in snapshot.jobs.items()
        },
        sorted(snapshot.active),
        dict(snapshot.queues),
        {
            name: (total.allocated.tolist(), total.requested.tolist())
            for name, total in snapshot.totals.items()
        },
        snapshot.total.tolist(),
        snapshot.held.tolist(),
    )


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_rerun_leaves_the_state_as_it_was(world: World) -> None:
    state = ClusterState(cluster_of(**world.parts()), START, seed=5)
    untouched = content(ClusterState(cluster_of(**world.parts()), START, seed=5).snapshot())
    before = content(state.snapshot())
    rerun = run(state, config(actions=ACTIONS))
    assert content(state.snapshot()) == before
    assert content(state.cluster().snapshot(START, 5))[1:4] == untouched[1:4]
    assert content(rerun.before) == before


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_copy_of_a_cluster_decides_as_the_original_and_neither_changes_the_other(world: World) -> None:
    original, chosen = cluster_of(**world.parts()), config(actions=ACTIONS)
    first = original.snapshot(START, 3)
    copy = original.copy()
    decisions = schedule(first, chosen).decisions
    wanted = deciding(decisions)
    assert deciding(schedule(copy.snapshot(START, 3), chosen).decisions) == wanted
    copy.assume(decisions)
    copy.apply(event(node("one-more", cpu=64), copy))
    copy.apply(event(world.nodes[0], copy, EventType.DELETED))
    copy.snapshot(START, 4)
    assert content(original.snapshot(START, 3)) == content(first)
    assert deciding(schedule(original.snapshot(START, 3), chosen).decisions) == wanted


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_snapshot_file_gives_the_decisions_of_the_original(world: World) -> None:
    chosen = config(actions=ACTIONS)
    snapshot = cluster_of(**world.parts()).snapshot(START, 9)
    state = ClusterState.of_snapshot(save(snapshot, chosen.text))
    assert (state.now, state.seed, state.config_text) == (START, 9, chosen.text)
    wanted = [str(decision) for decision in deciding(schedule(snapshot, chosen).decisions)]
    assert [str(decision) for decision in deciding(run(state, chosen).first.decisions)] == wanted


def deciding(decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions without status: that is reported only for jobs that changed since the last snapshot."""
    return [decision for decision in decisions if isinstance(decision, Bind | Evict | Nominate)]


class Lists:
    """A client that lists given objects; kinds in `refused` are answered with an error."""

    def __init__(self, client: Any, refused: dict[Kind, Exception]) -> None:
        self._client, self._refused = client, refused

    async def list(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Listing:
        if kind in self._refused:
            raise self._refused[kind]
        listing: Listing = await self._client.list(kind, query, decode=decode)
        return listing


async def read(refused: dict[Kind, Exception], queue_name: str = "default") -> ClusterState:
    async with SmallCluster() as cluster:
        made = job("train", 2, cpu=1, queue=queue_name)
        manifests = [(NODE, node("n1", cpu=4)), (QUEUE, queue("default")), (POD_GROUP, made.group)]
        for kind, manifest in [*manifests, *((POD, pod) for pod in made.pods)]:
            manifest["metadata"].pop("resourceVersion", None)
            await cluster.client.create(kind, manifest)
        client: Any = Lists(cluster.client, refused)
        return await ClusterState.read(client, cluster.clock)


def test_a_state_is_read_from_lists() -> None:
    state = asyncio.run(read({}))
    snapshot = state.snapshot()
    assert [found.name for found in snapshot.nodes] == ["n1"]
    assert len(snapshot.jobs["default/train"].tasks) == 2
    assert set(snapshot.queues) == {"default"}
    assert state.not_listed == ()
    assert run(state, config()).placements == {"default/train-worker-0": "n1", "default/train-worker-1": "n1"}


def test_what_may_not_be_listed_is_named() -> None:
    with pytest.raises(MissingRights, match="you may not list nodes, queues in the whole cluster") as raised:
        asyncio.run(read({NODE: Forbidden("no"), QUEUE: Forbidden("no")}))
    assert raised.value.kinds == (NODE, QUEUE)


def test_kinds_that_matter_to_few_pods_are_done_without() -> None:
    state = asyncio.run(read({CSI_NODE: Forbidden("no"), HYPER_NODE: NotFound("no such kind")}))
    assert state.not_listed == (CSI_NODE,)
    assert asyncio.run(read({RESOURCE_CLAIM: NotFound("an old cluster")})).not_listed == ()


def test_jobs_may_be_missing_too() -> None:
    assert asyncio.run(read({JOB: Forbidden("no")})).not_listed == (JOB,)
    assert asyncio.run(read({JOB: NotFound("no such kind")})).not_listed == ()


def test_jobs_of_queues_that_do_not_exist_are_known_in_a_state_and_its_copies() -> None:
    state = asyncio.run(read({}, queue_name="none"))
    group = state.group("default/train")
    assert group is not None
    assert len(state.tasks("default/train")) == 2
    again = state.with_events(())
    assert again.group("default/train") == group
    assert "default/train" in again.snapshot().orphans


def test_pods_of_a_job_that_is_not_admitted_are_expected_and_placed_when_it_is() -> None:
    async def check() -> tuple[ClusterState, str]:
        async with SmallCluster(JobController()) as cluster:
            for kind, manifest in ((NODE, node("n1", cpu=4)), (QUEUE, queue("default"))):
                manifest["metadata"].pop("resourceVersion", None)
                await cluster.client.create(kind, manifest)
            container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
            template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
            task = {"name": "worker", "replicas": 3, "template": template}
            spec = {"queue": "default", "minAvailable": 3, "schedulerName": "volcano", "tasks": [task]}
            made = await cluster.create(JOB, "train", spec=spec)
            assert await cluster.names(POD) == []
            uid = f"default/train-{made['metadata']['uid']}"
            return await ClusterState.read(cluster.client, cluster.clock), uid

    state, uid = asyncio.run(check())
    assert len(state.tasks(uid)) == 3
    rerun = run(state, config())
    assert starts(rerun, uid)
    assert sorted(rerun.placements) == [f"default/train-worker-{i}" for i in range(3)]
    assert state.job_name(uid) == "default/train"
