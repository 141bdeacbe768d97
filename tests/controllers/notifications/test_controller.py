"""The notification controller: subscriptions of jobs and queues, evictions, and an outbox without room."""

import asyncio
from collections.abc import Iterable
from typing import Any

from tests.cluster import SmallCluster
from volcano.base.clock import timestamp
from volcano.controllers.notifications.controller import NotificationController, is_evicted
from volcano.controllers.notifications.messages import Notification
from volcano.kube.api.kinds import JOB, POD, QUEUE
from volcano.kube.api.manifest import Key

URL = "https://example.com/hook"


class Kept:
    """An outbox that keeps notifications; `full` has no room."""

    def __init__(self) -> None:
        self.full = False
        self.found: dict[str, Notification] = {}

    def offer(self, notifications: Iterable[Notification]) -> bool:
        if self.full:
            return False
        self.found |= {each.id: each for each in notifications}
        return True

    @property
    def types(self) -> list[str]:
        return [str(each.type) for each in self.found.values()]


class Following:
    """A cluster with the controller."""

    def __init__(self, cluster: SmallCluster, kept: Kept) -> None:
        self.cluster, self.kept = cluster, kept

    async def job(self, name: str = "train", **annotations: str) -> None:
        task = {
            "name": "w",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}},
        }
        marks = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
        await self.cluster.client.create(
            JOB,
            {
                "apiVersion": JOB.api_version,
                "kind": "Job",
                "metadata": {"name": name, "namespace": "default", "annotations": marks},
                "spec": {"minAvailable": 1, "schedulerName": "volcano", "queue": "default", "tasks": [task]},
            },
        )
        await self.cluster.rest()

    async def phase(self, phase: str, name: str = "train") -> None:
        stamp = timestamp(self.cluster.clock.now().wall)
        state = {"phase": phase, "lastTransitionTime": stamp}
        conditions = [{"status": phase, "lastTransitionTime": stamp}]
        await self.cluster.client.patch(
            JOB,
            Key("default", name),
            {"status": {"state": state, "conditions": conditions}},
            subresource="status",
        )
        await self.cluster.rest()

    async def evict(self, pod: str) -> None:
        container = {"name": "c", "image": "x"}
        labels = {"volcano.sh/job-name": "train"}
        metadata = {"name": pod, "namespace": "default", "labels": labels}
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container]},
        }
        await self.cluster.client.create(POD, manifest)
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        await self.cluster.client.patch(
            POD, Key("default", pod), {"status": {"conditions": [target]}}, subresource="status"
        )
        await self.cluster.client.delete(POD, Key("default", pod))
        await self.cluster.rest()


async def following(test: Any) -> None:
    kept = Kept()
    async with SmallCluster(NotificationController(kept)) as cluster:
        queue = {
            "apiVersion": QUEUE.api_version,
            "kind": "Queue",
            "metadata": {"name": "default"},
            "spec": {},
        }
        await cluster.client.create(QUEUE, queue)
        await test(Following(cluster, kept))


def run(test: Any) -> None:
    asyncio.run(following(test))


def test_a_job_without_a_subscription_is_not_notified_of() -> None:
    async def test(given: Following) -> None:
        await given.job()
        await given.phase("Running")
        assert given.kept.types == []

    run(test)


def test_transitions_of_a_job_are_offered() -> None:
    async def test(given: Following) -> None:
        await given.job(notify=URL)
        await given.phase("Running")
        await given.cluster.pass_time(60)
        await given.phase("Completed")
        assert given.kept.types == ["Running", "Completed"]

    run(test)


def test_a_queue_gives_jobs_without_a_target_its_own() -> None:
    async def test(given: Following) -> None:
        await given.job("plain")
        await given.job("own", notify="https://own.example/")
        await given.job("none", notify="")
        for name in ("plain", "own", "none"):
            await given.phase("Running", name)
        marks = {"metadata": {"annotations": {"volcano.sh/notify": URL}}}
        await given.cluster.client.patch(QUEUE, Key("", "default"), marks)
        await given.cluster.rest()
        urls = {each.job.name: each.subscription.url for each in given.kept.found.values()}
        assert urls == {"plain": URL, "own": "https://own.example/"}

    run(test)


def test_a_job_that_waits_for_long_is_offered_without_any_event() -> None:
    async def test(given: Following) -> None:
        await given.job(notify=URL, notify_pending_after="10m")
        await given.phase("Pending")
        await given.cluster.pass_time(599)
        assert given.kept.types == []
        await given.cluster.pass_time(3)
        assert given.kept.types == ["Pending"]

    run(test)


def test_evictions_after_the_same_transition_are_one_notification() -> None:
    async def test(given: Following) -> None:
        await given.job(notify=URL, notify_on="Evicted")
        await given.phase("Running")
        await given.evict("train-w-0")
        assert given.kept.types == ["Evicted"]
        await given.evict("train-w-1")
        assert given.kept.types == ["Evicted"]
        await given.cluster.pass_time(60)
        await given.phase("Running")
        await given.evict("train-w-2")
        assert given.kept.types == ["Evicted", "Evicted"]
        assert list(given.kept.found.values())[-1].data["evictedPods"] == ["train-w-2"]

    run(test)


def test_an_outbox_without_room_is_offered_the_notifications_again() -> None:
    async def test(given: Following) -> None:
        given.kept.full = True
        await given.job(notify=URL)
        await given.phase("Running")
        await given.evict("train-w-0")
        given.kept.full = False
        await given.cluster.pass_time(31)
        assert sorted(given.kept.types) == ["Evicted", "Running"]

    run(test)


def test_which_pods_were_evicted() -> None:
    target = {"type": "DisruptionTarget", "status": "True"}
    assert is_evicted({"status": {"conditions": [target]}})
    assert is_evicted({"status": {"phase": "Failed", "reason": "Evicted"}})
    assert not is_evicted({"status": {"conditions": [{**target, "status": "False"}]}})
    assert not is_evicted({})
