"""Deletions that happened while nothing was recorded are read from the history of the API server."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from tests.cluster import SmallCluster
from volcano.accounting.api import Progress
from volcano.accounting.recorder import gap
from volcano.accounting.recorder.gap import Deleted, missed_since, recorded_versions
from volcano.apiserver.direct import DirectClient
from volcano.kube.api.errors import TooManyRequests, Unavailable
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, RESOURCE_CLAIM, Kind
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.client.protocol import EVERYTHING, Client, Decode, Query, Watch
from volcano.kube.informers.shared_informers import SharedInformerFactory

PODS = Watch(POD)
SPEC: Manifest = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}


async def version_of(cluster: SmallCluster) -> int:
    return int((await cluster.client.list(POD)).resource_version)


async def read(
    cluster: SmallCluster, after: int, *watches: Watch, until: int = 0, client: Client | None = None
) -> list[Deleted]:
    """Reads the history up to the present, while the clock advances."""
    until = until or await version_of(cluster)
    progress = Progress(0.0, {POD.resource: after, JOB.resource: after})
    reached = {POD.resource: until, JOB.resource: until}
    task = asyncio.create_task(
        missed_since(client or cluster.client, cluster.clock, watches or (PODS,), progress, reached)
    )
    for _ in range(30):
        if task.done():
            break
        await cluster.pass_time(1.0)
    return list((await task).deleted)


def names(found: Sequence[Deleted]) -> list[str]:
    return [key_of(each.object).name for each in found]


async def short_pod(cluster: SmallCluster, name: str, **fields: Any) -> None:
    await cluster.create(POD, name, spec=SPEC, **fields)
    await cluster.delete(POD, name, grace=0)


async def test_a_deleted_object_is_found_with_its_last_state_and_its_time() -> None:
    async with SmallCluster() as cluster:
        before = await version_of(cluster)
        await cluster.create(POD, "p", spec=SPEC)
        await cluster.patch(POD, "p", {"status": {"message": "the last"}}, "status")
        await cluster.pass_time(7)
        await cluster.delete(POD, "p", grace=0)
        deleted = cluster.clock.now().wall
        (found,) = await read(cluster, before)
    assert found.object["status"]["message"] == "the last"
    assert found.at == pytest.approx(deleted, abs=1)


async def test_what_was_deleted_before_is_not_read_again() -> None:
    async with SmallCluster() as cluster:
        await short_pod(cluster, "before")
        version = await version_of(cluster)
        await short_pod(cluster, "after")
        assert names(await read(cluster, version)) == ["after"]
        assert await read(cluster, await version_of(cluster)) == []


async def test_only_watched_objects_are_read() -> None:
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        await short_pod(cluster, "labelled", metadata={"labels": {"a": "b"}})
        await short_pod(cluster, "other")
        assert names(await read(cluster, version, Watch(POD, labels="a"))) == ["labelled"]


async def test_reading_ends_when_the_latest_versions_are_of_other_kinds() -> None:
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        await short_pod(cluster, "p")
        assert names(await read(cluster, version, until=10**9)) == ["p"]


async def test_groups_are_read_since_the_version_of_pods() -> None:
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        await cluster.create(POD_GROUP, "g", spec={"queue": "research"})
        await cluster.delete(POD_GROUP, "g")
        found = await read(cluster, version, Watch(POD_GROUP))
    assert [(each.kind, each.object["spec"]["queue"]) for each in found] == [(POD_GROUP, "research")]


async def test_nothing_is_found_when_the_history_has_expired_or_the_version_is_of_another_server() -> None:
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        await short_pod(cluster, "p")
        store = cluster.registry.store
        store.collection(POD.resource).history.trim_all(store.committed_version)
        assert await read(cluster, version) == []
        assert await read(cluster, 10**6, until=10**6 + 1) == []


async def test_claims_of_deleted_pods_are_found_as_they_were_allocated() -> None:
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        claims = [{"name": "gpu", "resourceClaimName": "mine"}]
        await cluster.create(POD, "p", spec={**SPEC, "resourceClaims": claims})
        await cluster.create(RESOURCE_CLAIM, "mine", spec={})
        allocation: Manifest = {"devices": {"results": []}}
        user = {"resource": "pods", "name": "p", "uid": "u"}
        used = {"allocation": allocation, "reservedFor": [user]}
        await cluster.patch(RESOURCE_CLAIM, "mine", {"status": used}, "status")
        await cluster.patch(
            RESOURCE_CLAIM, "mine", {"status": {"reservedFor": None, "allocation": None}}, "status"
        )
        await cluster.delete(POD, "p", grace=0)
        await cluster.delete(RESOURCE_CLAIM, "mine")
        until = await version_of(cluster)
        progress, reached = Progress(0.0, {POD.resource: version}), {POD.resource: until}
        reading = asyncio.create_task(missed_since(cluster.client, cluster.clock, (PODS,), progress, reached))
        for _ in range(30):
            await cluster.pass_time(1.0)
        found = await reading
    assert names(found.deleted) == ["p"]
    (claim,) = found.devices
    assert claim.object["status"]["reservedFor"] == [user]


class Overloaded(DirectClient):
    """Rejects the first watches."""

    rejected = 0

    def watch(self, kind: Kind, query: Query = EVERYTHING, *, decode: Decode = orjson.loads) -> Any:
        self.rejected += 1
        if self.rejected <= 2:
            raise (TooManyRequests if self.rejected == 1 else Unavailable)("try again")
        return super().watch(kind, query, decode=decode)


async def test_a_server_that_rejects_a_watch_for_a_moment_is_asked_again() -> None:
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        await short_pod(cluster, "p")
        client = Overloaded(cluster.registry)
        assert names(await read(cluster, version, client=client)) == ["p"]
        assert client.rejected > 2


async def test_the_number_of_changes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap, "MOST_EVENTS", 3)
    async with SmallCluster() as cluster:
        version = await version_of(cluster)
        for number in range(100):
            await short_pod(cluster, f"p{number}")
        found = await read(cluster, version)
    assert 0 < len(found) < 100


async def test_versions_are_those_that_all_watches_of_a_resource_have_reached() -> None:
    async with SmallCluster() as cluster:
        informers = SharedInformerFactory(cluster.client, cluster.clock)
        watches = (Watch(POD, labels="a"), Watch(POD, labels="!a"), Watch(JOB))
        assert recorded_versions(informers, watches) == {}
        with (
            informers.add_event_handler(watches[0], lambda _: None),
            informers.add_event_handler(watches[1], lambda _: None),
        ):
            await cluster.rest()
            before = await version_of(cluster)
            assert recorded_versions(informers, watches) == {POD.resource: before}
            await cluster.create(POD, "p", spec=SPEC)
            assert recorded_versions(informers, watches) == {POD.resource: before}
            await cluster.pass_time(90)  # bookmarks
            listed = (await cluster.client.list(POD, Query())).resource_version
            assert recorded_versions(informers, watches) == {POD.resource: int(listed)}
