"""Deliveries to a real server: content, signature, retries, and targets that hang, redirect or are not allowed."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.controllers.notifications.receiver import Receiver, until
from volcano.clock import SystemClock
from volcano.controllers.notifications import outbox
from volcano.controllers.notifications import outbox as outbox_module
from volcano.controllers.notifications.messages import Notification
from volcano.controllers.notifications.metrics import NotificationMetrics
from volcano.controllers.notifications.outbox import DeliveryQueue, OutboxSettings
from volcano.controllers.notifications.targets import Targets
from volcano.kube.errors import Unavailable
from volcano.kube.kinds import EVENT, JOB, SECRET
from volcano.kube.manifest import Key
from volcano.kube.workqueue import Backoff
from volcano.metrics import CollectorRegistry
from volcano.model.annotations.notify import NotificationType, Subscription
from volcano.net.tls import create_authority, issue
from volcano.net.tls_context import client_context, server_context

FAST = OutboxSettings(source="/test", attempts=3, backoff=Backoff(0.01, 0.05), timeout=5.0)
LOOPBACK = Targets(("127.0.0.0/8",))
AT = "2026-05-01T12:00:00Z"


class Sending:
    """A cluster with a job, and a running queue of deliveries."""

    def __init__(
        self, cluster: SmallCluster, queue: DeliveryQueue, uid: str, metrics: CollectorRegistry
    ) -> None:
        self.cluster, self.queue, self.uid, self._metrics = cluster, queue, uid, metrics

    def metric(self, name: str, **labels: str) -> float | None:
        return self._metrics.get_sample_value(f"volcano_notification{name}", labels)

    def notification(self, url: str, kind: str = "Running", at: str = AT, **more: Any) -> Notification:
        wanted = Subscription(url, secret=more.pop("secret", None))
        found = Notification(
            Key("default", "train"), self.uid, NotificationType(kind), at, wanted, {"phase": kind}
        )
        return replace(found, **more)

    async def job(self) -> Any:
        return await self.cluster.client.get(JOB, Key("default", "train"))

    async def notified(self) -> Any:
        return json.loads(
            (await self.job())["metadata"].get("annotations", {}).get("volcano.sh/notified", "{}")
        )

    async def events(self) -> list[str]:
        found = (await self.cluster.client.list(EVENT)).items
        return [each["message"] for each in found if each["reason"] == "NotificationFailed"]

    async def sent(self) -> None:
        await until(lambda: not len(self.queue))


@asynccontextmanager
async def sending(settings: OutboxSettings = FAST, targets: Targets = LOOPBACK) -> AsyncIterator[Sending]:
    async with SmallCluster() as cluster:
        task = {
            "name": "w",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}},
        }
        made = await cluster.client.create(
            JOB,
            {
                "apiVersion": JOB.api_version,
                "kind": "Job",
                "metadata": {"name": "train", "namespace": "default"},
                "spec": {"minAvailable": 1, "schedulerName": "volcano", "tasks": [task]},
            },
        )
        metrics = CollectorRegistry()
        queue = DeliveryQueue(cluster.client, SystemClock(), targets, settings, NotificationMetrics(metrics))
        running = asyncio.create_task(queue.run())
        try:
            yield Sending(cluster, queue, made["metadata"]["uid"], metrics)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def run(test: Any) -> None:
    asyncio.run(test())


def test_a_notification_is_a_cloud_event_in_structured_form() -> None:
    async def test() -> None:
        async with sending() as given, Receiver() as receiver:
            assert given.queue.offer([given.notification(receiver.url)])
            await given.sent()
            request, event = receiver.requests[0], receiver.events[0]
            assert request.method == "POST"
            assert request.target == "/hook?team=a"
            assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
            assert "x-volcano-signature-256" not in request.headers
            assert event == {
                "specversion": "1.0",
                "id": f"{given.uid}.running.{AT}",
                "source": "/test/namespaces/default/jobs/train",
                "type": "sh.volcano.job.running",
                "subject": "default/train",
                "time": AT,
                "datacontenttype": "application/json",
                "data": {"phase": "Running"},
            }
            assert await given.notified() == {"Running": AT}

    run(test)


def test_the_body_is_signed_with_the_key_of_the_secret() -> None:
    async def test() -> None:
        async with sending() as given, Receiver() as receiver:
            key = b"not a real key"
            metadata = {"name": "hook", "namespace": "default"}
            data = {"key": base64.b64encode(key).decode()}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
            await given.cluster.client.create(SECRET, secret)
            given.queue.offer([given.notification(receiver.url, secret=("default", "hook"))])
            await given.sent()
            request = receiver.requests[0]
            expected = hmac.new(key, request.body, hashlib.sha256).hexdigest()
            assert request.headers["x-volcano-signature-256"] == f"sha256={expected}"

    run(test)


def test_without_the_secret_nothing_is_sent_and_an_event_says_why() -> None:
    async def test() -> None:
        async with sending() as given, Receiver() as receiver:
            given.queue.offer([given.notification(receiver.url, secret=("default", "hook"))])
            await given.sent()
            assert receiver.requests == []
            assert (
                "Secret default/hook does not exist; create it with a key 'key'" in (await given.events())[0]
            )

    run(test)


def test_failed_attempts_are_repeated_with_the_same_id() -> None:
    async def test() -> None:
        async with sending() as given, Receiver(500, 429) as receiver:
            given.queue.offer([given.notification(receiver.url)])
            await given.sent()
            assert len({event["id"] for event in receiver.events}) == 1
            assert len(receiver.events) == 3
            assert await given.events() == []

    run(test)


@pytest.mark.parametrize(
    ("statuses", "headers", "requests", "message"),
    [
        pytest.param([503] * 9, {}, 3, "tried 3 times and is given up: 127.0.0.1:", id="always unavailable"),
        pytest.param([404], {}, 1, "tried once and is given up: 127.0.0.1:", id="not found"),
        pytest.param(
            [302], {"Location": "http://127.0.0.1:1/"}, 1, "redirects are not followed", id="redirect"
        ),
    ],
)
def test_a_notification_that_is_given_up_is_an_event_of_the_job(
    statuses: list[int], headers: dict[str, str], requests: int, message: str
) -> None:
    async def test() -> None:
        async with sending() as given, Receiver(*statuses, headers=headers) as receiver:
            given.queue.offer([given.notification(receiver.url)])
            await given.sent()
            assert len(receiver.requests) == requests
            events = await given.events()
            assert len(events) == 1
            assert message in events[0]
            assert await given.notified() == {"Running": AT}  # it is not tried again after a restart

    run(test)


def test_loopback_is_not_connected_to_by_default() -> None:
    async def test() -> None:
        async with sending(targets=Targets()) as given, Receiver() as receiver:
            given.queue.offer([given.notification(receiver.url.replace("127.0.0.1", "localhost"))])
            await given.sent()
            assert receiver.requests == []
            assert "is a local address; allow it with --notify-allow=" in (await given.events())[0]

    run(test)


def test_notifications_of_a_job_arrive_in_order_and_once() -> None:
    async def test() -> None:
        async with sending() as given, Receiver(500) as receiver:
            first = given.notification(receiver.url)
            last = given.notification(receiver.url, "Completed", "2026-05-01T12:05:00Z")
            given.queue.offer([first, last])
            given.queue.offer([first, last])
            await given.sent()
            given.queue.offer([first, last])
            await given.sent()
            names = [kind.rpartition(".")[2] for kind in receiver.types]
            assert names == ["running", "running", "completed"]
            assert await given.notified() == {"Running": AT, "Completed": "2026-05-01T12:05:00Z"}

    run(test)


def test_a_target_that_hangs_delays_only_its_own_notifications() -> None:
    async def test() -> None:
        slow = replace(FAST, timeout=60.0)
        async with sending(slow) as given, Receiver(hangs=True) as hanging, Receiver() as receiver:
            for number in range(50):
                given.queue.offer([given.notification(hanging.url, job_uid=f"other-{number}")])
            await until(lambda: hanging.requests)
            given.queue.offer([given.notification(receiver.url)])
            await until(
                lambda: receiver.requests, 10.0
            )  # six times sooner than an attempt to the other one ends
            assert len(hanging.requests) <= 2
            hanging.hangs = False

    run(test)


def test_a_target_that_does_not_answer_in_time_is_given_up() -> None:
    async def test() -> None:
        short = replace(FAST, timeout=0.2, attempts=2)
        async with sending(short) as given, Receiver(hangs=True) as hanging:
            given.queue.offer([given.notification(hanging.url)])
            await given.sent()
            assert "did not answer in 0.2 seconds" in (await given.events())[0]
            hanging.hangs = False

    run(test)


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(outbox_module, "MOST_QUEUED", 5)
        async with sending() as given, Receiver(hangs=True) as hanging:
            offered = [
                given.queue.offer([given.notification(hanging.url, job_uid=f"j{i}")]) for i in range(8)
            ]
            assert offered == [True] * 5 + [False] * 3
            assert len(given.queue) == 5
            hanging.hangs = False
            await given.sent()
            assert given.queue.offer([given.notification(hanging.url)])

    run(test)


def test_a_job_that_was_deleted_meanwhile_needs_no_record() -> None:
    async def test() -> None:
        async with sending() as given, Receiver() as receiver:
            await given.cluster.client.delete(JOB, Key("default", "train"))
            given.queue.offer([given.notification(receiver.url)])
            await given.sent()
            assert len(receiver.requests) == 1

    run(test)


async def raw_server(answer: bytes, *, endless: bool = False) -> asyncio.Server:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            while endless:
                writer.write(b"X-Pad: " + b"a" * 1000 + b"\r\n")
                await writer.drain()
            await writer.drain()
            writer.close()
        except ConnectionError:
            pass

    return await asyncio.start_server(handle, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("answer", "endless", "message"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n", True, "", id="headers without an end are not read"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", False, "", id="interim"
        ),
        pytest.param(b"SSH-2.0-x\r\n", False, "did not answer with HTTP", id="another protocol"),
        pytest.param(b"a" * 100_000, False, "did not answer with HTTP", id="a line that is too long"),
        pytest.param(b"", False, "closed the connection without an answer", id="no answer"),
    ],
)
def test_answers_of_servers_that_are_not_trusted(answer: bytes, endless: bool, message: str) -> None:
    async def test() -> None:
        async with sending() as given:
            server = await raw_server(answer, endless=endless)
            port = server.sockets[0].getsockname()[1]
            given.queue.offer([given.notification(f"http://127.0.0.1:{port}/")])
            await given.sent()
            events = await given.events()
            assert events == [] if not message else message in events[0]
            server.close()

    run(test)


def test_what_could_not_be_recorded_is_sent_again_with_the_same_id_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with sending() as given, Receiver() as receiver:
            sent = given.notification(receiver.url)

            async def fail(*arguments: Any, **options: Any) -> Any:
                raise Unavailable("the server is restarting")

            with monkeypatch.context() as broken:
                broken.setattr(given.cluster.client, "patch", fail)
                given.queue.offer([sent])
                await given.sent()
            assert await given.notified() == {}
            again = DeliveryQueue(given.cluster.client, SystemClock(), LOOPBACK, FAST)
            task = asyncio.create_task(again.run())
            again.offer([sent])
            await until(lambda: not len(again))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert [event["id"] for event in receiver.events] == [sent.id, sent.id]
            assert await given.notified() == {"Running": AT}

    run(test)


@pytest.mark.parametrize("trusted", [True, False])
def test_certificates_are_verified(trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = create_authority("test", now=time.time())
    server = server_context(issue(authority, "server", server=True, hosts=["127.0.0.1"], now=time.time()))
    if trusted:
        monkeypatch.setattr(outbox, "client_context", lambda: client_context(authority.cert_pem))

    async def test() -> None:
        async with sending() as given, Receiver(tls=server) as receiver:
            assert receiver.url.startswith("https://")
            given.queue.offer([given.notification(receiver.url)])
            await given.sent()
            events = await given.events()
            assert len(receiver.requests) == trusted
            assert events == [] if trusted else "is not trusted" in events[0]

    run(test)


def test_metrics_count_what_was_sent_repeated_and_given_up() -> None:
    async def test() -> None:
        async with sending() as given, Receiver(500, 200, 404) as receiver:
            first = given.notification(receiver.url)
            last = given.notification(receiver.url, "Completed", "2026-05-01T12:05:00Z")
            given.queue.offer([first, last])
            assert given.metric("_queue_length") == 2
            await given.sent()
            assert given.metric("_queue_length") == 0
            assert given.metric("s_sent_total", type="Running") == 1
            assert given.metric("s_retried_total", type="Running") == 1
            assert given.metric("s_failed_total", type="Completed") == 1
            assert given.metric("s_failed_total", type="Running") == 0
            assert given.metric("_attempt_duration_seconds_count", result="accepted") == 1
            assert given.metric("_attempt_duration_seconds_count", result="failed") == 2

    run(test)


def test_metrics_count_offers_to_a_full_queue_and_what_an_error_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Targets):
        async def dial(self, host: str, port: int) -> socket.socket:
            raise RuntimeError("a bug")

    async def test() -> None:
        monkeypatch.setattr(outbox_module, "MOST_QUEUED", 1)
        async with sending(targets=Broken(["all"])) as given:
            given.queue.offer([given.notification("http://127.0.0.1:1/")])
            assert not given.queue.offer([given.notification("http://127.0.0.1:1/", "Completed")])
            assert given.metric("s_deferred_total") == 1
            await given.sent()
            assert given.metric("s_dropped_total", type="Running") == 1

    run(test)
