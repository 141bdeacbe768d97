"""Bookmarks carry the zero values of the Go types, as those of a real server: typed clients decode them too."""

import json
from typing import Any

import pytest

from tests.apiserver.conformance import BOOKMARKS
from tests.cluster import SmallCluster
from volcano.apiserver.storage.zero_values import zero_object
from volcano.kube.api.kinds import BUILT_IN, JOB, POD, QUEUE, Kind
from volcano.kube.client.protocol import EventType, Query

KINDS = {f"{kind.api_version} {kind.kind}": kind for kind in (*BUILT_IN, JOB, QUEUE)}
RECORDED: dict[str, Any] = json.loads(BOOKMARKS.read_text())
QUERY = Query(
    bookmarks=True, send_initial_events=True, resource_version_match="NotOlderThan", timeout_seconds=1
)


async def bookmark(cluster: SmallCluster, kind: Kind) -> Any:
    async for event in cluster.registry.watch(kind, QUERY):
        if event.type is EventType.BOOKMARK:
            return json.loads(event.data)
    raise AssertionError("no bookmark")


async def test_every_kind_has_the_bookmark_of_a_real_server() -> None:
    async with SmallCluster() as cluster:
        for name, kind in KINDS.items():
            found = await bookmark(cluster, kind)
            assert found["metadata"].pop("resourceVersion").isdigit()
            assert found == RECORDED[name], name


def test_a_pod_without_values_has_containers_and_a_status() -> None:
    assert zero_object(POD) == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {},
        "spec": {"containers": None},
        "status": {},
    }


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.kind)
def test_zero_values_can_be_changed_without_changing_those_of_others(kind: Kind) -> None:
    zero_object(kind)["metadata"]["resourceVersion"] = "1"
    assert "resourceVersion" not in zero_object(kind)["metadata"]
