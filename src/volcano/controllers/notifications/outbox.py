"""Outbox: sends notifications in tasks of its own, with retries, and records on the Job what was handled."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import ssl
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from volcano.base.clock import Clock
from volcano.base.http.dialer import DialRejected
from volcano.base.http.pool import reason_of
from volcano.base.http.tls_context import client_context
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.base.workqueue import Backoff, Waker, WorkQueue
from volcano.controllers.http import request
from volcano.controllers.notifications.messages import CONTENT_TYPE, Notification, notified
from volcano.controllers.notifications.metrics import NotificationMetrics
from volcano.controllers.notifications.targets import Targets
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import JOB, SECRET
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.api.names import NOTIFIED
from volcano.kube.client.operations import perform
from volcano.kube.client.protocol import Client, Options, PatchType
from volcano.kube.controllers.events import record_event

log = Log("notifications")

SOURCE: Final = "notification-controller"
FAILED: Final = "NotificationFailed"
SIGNATURE: Final = "X-Volcano-Signature-256"
SECRET_KEY: Final = "key"  # in the Secret
MOST_QUEUED = 1000  # notifications
MOST_SENDING, MOST_PER_HOST = 16, 2
TIMEOUT = 10.0  # seconds for one attempt
WAIT_FOR_HOST = 1.0  # seconds until a job whose target is busy is tried again
MOST_HANDLED = 10_000  # ids that are remembered until the annotation arrives
RETRIED = frozenset((408, 425, 429))  # statuses below 500 after which sending is tried again
RECORD_ATTEMPTS = 3
BACKOFF = Backoff(first=1.0, longest=300.0, factor=3.0)


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """Settings of deliveries."""

    source: str = "/volcano"  # begin of the CloudEvents attribute `source`; unique to a cluster
    attempts: int = 8
    backoff: Backoff = BACKOFF
    timeout: float = TIMEOUT


class Problem(Exception):
    """An attempt that failed; `final` if further ones would fail as well."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class DeliveryQueue:
    """Notifications of jobs, those of one job in order. Bounded; a slow target delays only its own."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        targets: Targets,
        settings: OutboxSettings | None = None,
        metrics: NotificationMetrics | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._targets = targets
        self._settings = settings or OutboxSettings()
        self._metrics = metrics or NotificationMetrics(CollectorRegistry())
        self._metrics.watch_queue(self.__len__)
        self._queue: WorkQueue[str] = WorkQueue(self._settings.backoff)  # uids of jobs
        self._waiting: dict[str, deque[Notification]] = {}
        self._ids: set[str] = set()
        self._handled: dict[str, None] = {}
        self._failures: Counter[str] = Counter()  # by id
        self._hosts: Counter[str] = Counter()  # attempts in progress
        self._sending: set[asyncio.Task[None]] = set()
        self._waker = Waker(clock)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """TLS settings with the authorities of this host; reading them takes a while."""
        return client_context()

    def __len__(self) -> int:
        return len(self._ids)

    def offer(self, notifications: Iterable[Notification]) -> bool:
        """Queues notifications that are neither queued nor handled; false if there is no room for all."""
        for notification in notifications:
            if notification.id in self._ids or notification.id in self._handled:
                continue
            if len(self._ids) >= MOST_QUEUED:
                self._metrics.deferred()
                return False
            self._ids.add(notification.id)
            self._waiting.setdefault(notification.job_uid, deque()).append(notification)
            if len(self._waiting[notification.job_uid]) == 1:
                self._queue.add(notification.job_uid)
        self._waker.wake()
        return True

    async def run(self) -> None:
        """Sends until cancelled."""
        try:
            while True:
                self._waker.clear()
                room = MOST_SENDING - len(self._sending)
                for uid in self._queue.get(self._now, room) if room > 0 else ():
                    self._start(uid)
                due = self._queue.next_due() if len(self._sending) < MOST_SENDING else None
                await self._waker.wait(None if due is None else max(due, self._now))
        finally:
            self._waker.close()
            for task in self._sending:
                task.cancel()

    @property
    def _now(self) -> float:
        return self._clock.now().monotonic

    def _start(self, uid: str) -> None:
        notification = self._waiting[uid][0]
        host = urlsplit(notification.subscription.url).netloc
        if self._hosts[host] >= MOST_PER_HOST:
            self._queue.add_at(uid, self._now + WAIT_FOR_HOST)
            self._queue.done(uid)
            return
        self._hosts[host] += 1
        task = asyncio.create_task(self._handle(uid, notification, host))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _handle(self, uid: str, notification: Notification, host: str) -> None:
        try:
            await self._attempt(uid, notification)
        except Exception as error:  # a bug that one notification triggers must not stop the others
            log.error("notification raised an error, dropped", job=notification.job, error=error)
            self._metrics.dropped(notification.type)
            self._finish(uid, notification)
        finally:
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]
            self._queue.done(uid)
            self._waker.wake()

    async def _attempt(self, uid: str, notification: Notification) -> None:
        begun = self._now
        try:
            await self._send(notification)
        except Problem as problem:
            self._metrics.attempted(self._now - begun, accepted=False)
            self._failures[notification.id] += 1
            failures = self._failures[notification.id]
            if not problem.final and failures < self._settings.attempts:
                self._metrics.retried(notification.type)
                self._queue.retry(uid, self._now)
                return
            self._metrics.failed(notification.type)
            log.warning("notification failed", job=notification.job, type=notification.type, reason=problem)
            await self._record(notification, str(problem), failures)
        else:
            self._metrics.attempted(self._now - begun, accepted=True)
            self._metrics.sent(notification.type)
            await self._record(notification)
        self._finish(uid, notification)

    def _finish(self, uid: str, notification: Notification) -> None:
        """Removes a notification that was sent or given up; the next one of its job follows."""
        self._ids.discard(notification.id)
        self._failures.pop(notification.id, None)
        if len(self._handled) >= MOST_HANDLED:
            del self._handled[next(iter(self._handled))]
        self._handled[notification.id] = None
        self._queue.forget(uid)
        self._waiting[uid].popleft()
        if self._waiting[uid]:
            self._queue.add(uid)
        else:
            del self._waiting[uid]

    async def _send(self, notification: Notification) -> None:
        """Makes one attempt. Raises Problem."""
        url = notification.subscription.url
        body = notification.body(self._settings.source)
        headers = {"Content-Type": CONTENT_TYPE, "User-Agent": "volcano", "Accept": "*/*"}
        key = await self._key(notification)
        if key is not None:
            headers[SIGNATURE] = signature(key, body)
        host = urlsplit(url).netloc
        try:
            async with asyncio.timeout(self._settings.timeout):
                tls = self._tls if url.startswith("https:") else None
                status = await request("POST", url, headers, self._targets.dial, body=body, tls=tls)
        except TimeoutError:
            raise Problem(f"{host} did not answer in {self._settings.timeout:g} seconds") from None
        except DialRejected as error:
            raise Problem(f"not allowed: {error}", final=True) from None
        except ssl.SSLCertVerificationError as error:
            raise Problem(f"{host} is not trusted: {error.verify_message}") from None
        except OSError as error:
            raise Problem(f"cannot connect to {host}: {reason_of(error)}") from None
        except ValueError as error:
            raise Problem(f"{host} did not answer with HTTP: {error}") from None
        check_status(host, status)

    async def _key(self, notification: Notification) -> bytes | None:
        """The key that signs a notification. Raises Problem if its Secret has none."""
        where = notification.subscription.secret
        if where is None:
            return None
        namespace, name = where
        try:
            secret = await self._client.get(SECRET, Key(namespace, name))
        except NotFound:
            raise Problem(
                f"Secret {namespace}/{name} does not exist; create it with a key {SECRET_KEY!r}"
            ) from None
        except ApiError as error:
            raise Problem(f"Secret {namespace}/{name} cannot be read: {error.message}") from None
        try:
            key = base64.b64decode((secret.get("data") or {}).get(SECRET_KEY, ""), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not key:
            raise Problem(f"Secret {namespace}/{name} has no key {SECRET_KEY!r}, or an empty one")
        return key

    async def _record(self, notification: Notification, problem: str = "", failures: int = 0) -> None:
        """Records on the Job that a notification was handled, and an event if it was given up."""
        for attempt in range(RECORD_ATTEMPTS):
            try:
                job = await self._client.get(JOB, notification.job)
                if uid_of(job) != notification.job_uid:
                    return
                await self._annotate(notification, job)
                if problem:
                    await self._record_event(notification, job, problem, failures)
                return
            except NotFound:
                return  # the job was deleted meanwhile
            except ApiError as error:
                if attempt + 1 == RECORD_ATTEMPTS:
                    log.warning("notification not recorded", job=notification.job, reason=error.message)
                else:
                    await self._clock.sleep(self._settings.backoff.delay(attempt))

    async def _annotate(self, notification: Notification, job: Manifest) -> None:
        handled = {**notified(job), str(notification.type): notification.transition}
        change = {"metadata": {"annotations": {NOTIFIED: json.dumps(handled, sort_keys=True)}}}
        options = Options(patch_type=PatchType.MERGE, field_manager=SOURCE)
        await self._client.patch(JOB, notification.job, change, options=options)

    async def _record_event(
        self, notification: Notification, job: Manifest, problem: str, failures: int
    ) -> None:
        times = "once" if failures == 1 else f"{failures} times"
        text = f"The notification {notification.type} was tried {times} and is given up: {problem}"
        event = record_event(
            job, JOB, FAILED, text, self._clock.now(), source=SOURCE, warning=True, occasion=notification.id
        )
        await perform(self._client, event)


def signature(key: bytes, body: bytes) -> str:
    """Value of the signature header: HMAC with SHA-256 of the body."""
    return f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"


def check_status(host: str, status: int) -> None:
    """Raises Problem unless a status means that the notification was accepted."""
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise Problem(
            f"{host} answered {status}: redirects are not followed; name the final address", final=True
        )
    raise Problem(f"{host} answered {status}", final=status < 500 and status not in RETRIED)
