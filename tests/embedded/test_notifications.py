"""Notifications in a whole cluster, to a real HTTP server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.notifications.receiver import Receiver, until
from tests.embedded.test_cluster import cluster, gang
from volcano.base.metrics import render
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import EVENT, JOB, POD, QUEUE
from volcano.kube.api.manifest import Key, Manifest

ALLOWED: Any = {"notify_allow": ("127.0.0.0/8",)}


def notifying(name: str, url: str, replicas: int = 1, **annotations: str) -> Manifest:
    manifest = gang(name, replicas)
    more = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    manifest["metadata"]["annotations"] = {"volcano.sh/notify": url, **more}
    return manifest


def kinds_of(receiver: Receiver) -> list[str]:
    return [kind.rpartition(".")[2] for kind in receiver.types]


async def test_the_life_of_a_job_is_notified_of_once(tmp_path: Path) -> None:
    async with Receiver() as receiver:
        async with cluster(tmp_path, durable=True, **ALLOWED) as made:
            await made.client.create(JOB, notifying("train", receiver.url, 2))
            await until(lambda: "completed" in kinds_of(receiver), 30.0)
            assert kinds_of(receiver) == ["running", "completed"]
            assert receiver.events[0]["subject"] == "default/train"

            async def recorded() -> bool:
                job = await made.client.get(JOB, Key("default", "train"))
                return "Completed" in job["metadata"]["annotations"].get("volcano.sh/notified", "")

            for _ in range(200):
                if await recorded():
                    break
                await asyncio.sleep(0.05)
            assert await recorded()
            shown = render(made.metrics).decode()
            for kind in ("Running", "Completed"):
                assert f'volcano_notifications_sent_total{{type="{kind}"}} 1.0' in shown
            assert "volcano_notification_queue_length 0.0" in shown
        async with cluster(tmp_path, durable=True, **ALLOWED) as made:
            await made.client.create(JOB, notifying("next", receiver.url))
            await until(lambda: kinds_of(receiver)[2:] == ["running", "completed"], 30.0)
        subjects = [event["subject"] for event in receiver.events]
        assert subjects == ["default/train"] * 2 + ["default/next"] * 2  # nothing again after the restart


async def test_a_queue_has_a_default_target_and_evictions_are_notified_of(tmp_path: Path) -> None:
    async with Receiver() as receiver, cluster(tmp_path, sim_duration=float("inf"), **ALLOWED) as made:
        annotations = {"volcano.sh/notify": receiver.url, "volcano.sh/notify-on": "Evicted,Pending"}
        annotations["volcano.sh/notify-pending-after"] = "1s"
        await made.client.patch(QUEUE, Key("", "default"), {"metadata": {"annotations": annotations}})
        await made.client.create(JOB, gang("train", 2))

        async def evicted() -> bool:
            eviction = {"metadata": {"name": "train-w-0", "namespace": "default"}}
            try:
                pod = await made.client.get(POD, Key("default", "train-w-0"))
                if pod["status"].get("phase") != "Running":
                    return False
                await made.client.create(
                    POD, {"apiVersion": "policy/v1", "kind": "Eviction", **eviction}, subresource="eviction"
                )
            except ApiError:
                return False
            return True

        for _ in range(400):
            if await evicted():
                break
            await asyncio.sleep(0.05)
        await until(lambda: "evicted" in kinds_of(receiver), 30.0)
        event = receiver.events[kinds_of(receiver).index("evicted")]
        assert event["data"]["evictedPods"] == ["train-w-0"]
        await made.client.create(JOB, gang("too-large", 1, "99"))
        await until(lambda: "pending" in kinds_of(receiver), 30.0)


async def test_a_target_on_this_host_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    async with Receiver() as receiver, cluster(tmp_path) as made:
        await made.client.create(JOB, notifying("train", receiver.url))

        async def failures() -> list[str]:
            events = (await made.client.list(EVENT)).items
            return [each["message"] for each in events if each["reason"] == "NotificationFailed"]

        for _ in range(400):
            if await failures():
                break
            await asyncio.sleep(0.05)
        assert "127.0.0.1 is a local address; allow it with --notify-allow=127.0.0.1" in (await failures())[0]
        assert receiver.requests == []


async def test_a_job_with_an_invalid_url_is_rejected(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        with pytest.raises(ApiError, match="write such as https"):
            await made.client.create(JOB, notifying("train", "example.com"))
