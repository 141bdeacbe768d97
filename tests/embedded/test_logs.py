"""What `kubectl logs` shows of simulated pods and of our own components."""

import asyncio
import logging
from collections.abc import AsyncIterator

from volcano.apiserver.interfaces import LogOptions
from volcano.base.clock import SystemClock
from volcano.embedded.logs import ComponentLogs, LocalLogSource, component
from volcano.kube.api.manifest import Key, Manifest


def pod(*, ended: bool) -> Manifest:
    times = {"startedAt": "2026-01-02T03:04:05Z"}
    end = {**times, "finishedAt": "2026-01-02T03:04:10Z", "exitCode": 3}
    status = {"name": "c", "image": "i", "state": {"terminated": end} if ended else {"running": times}}
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    return {"metadata": metadata, "status": {"containerStatuses": [status]}}


async def read(source: LocalLogSource, shown: Manifest, options: LogOptions) -> str:
    return b"".join([chunk async for chunk in await source.open_log(shown, options)]).decode()


def source(found: Manifest | None = None) -> LocalLogSource:
    def find(key: Key) -> Manifest | None:
        return found

    return LocalLogSource(ComponentLogs(), frozenset(), find, SystemClock())


async def test_a_simulated_pod_tells_when_it_started_and_ended() -> None:
    text = await read(source(), pod(ended=True), LogOptions("c"))
    assert [line.rsplit(" ", 1)[-1] for line in text.splitlines()] == ["started", "3"]
    assert "exited with 3" in text
    assert await read(source(), pod(ended=True), LogOptions("other")) == ""


async def test_timestamps_and_tail_are_honoured() -> None:
    text = await read(source(), pod(ended=True), LogOptions("c", timestamps=True, tail_lines=1))
    assert text.startswith("2026-01-02T03:04:10.000000Z simulated")
    assert len(text.splitlines()) == 1


async def test_following_waits_for_the_end() -> None:
    text = await asyncio.wait_for(
        read(source(pod(ended=True)), pod(ended=False), LogOptions("c", follow=True)), 5
    )
    assert text.splitlines()[-1].endswith("exited with 3")
    assert len(text.splitlines()) == 2


async def test_following_ends_when_the_pod_is_gone() -> None:
    text = await asyncio.wait_for(read(source(None), pod(ended=False), LogOptions("c", follow=True)), 5)
    assert len(text.splitlines()) == 1


class Real:
    """Pods that really run."""

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        async def said() -> AsyncIterator[bytes]:
            yield b"really\n"

        return said()


def on(node: str, **labels: str) -> Manifest:
    made = pod(ended=True)
    made["metadata"]["labels"] = labels
    return {**made, "spec": {"nodeName": node}}


def is_real(pod: Manifest) -> bool:
    return bool(pod["spec"]["nodeName"] == "local-0")


async def test_pods_that_really_run_are_asked_of_whoever_runs_them() -> None:
    logs = ComponentLogs()
    source = LocalLogSource(
        logs, frozenset({"volcano-scheduler"}), lambda key: None, SystemClock(), pods=Real(), is_real=is_real
    )
    assert await read(source, on("local-0"), LogOptions("c")) == "really\n"
    assert "simulated" in await read(source, on("sim-0"), LogOptions("c"))
    ours = on("local-0", app="volcano-scheduler")
    ours["metadata"]["namespace"] = "volcano-system"
    assert await read(source, ours, LogOptions("c")) == ""


def test_each_component_has_its_own_lines() -> None:
    logs = ComponentLogs()
    record = logging.LogRecord("volcano.x", logging.INFO, "", 0, "hello", None, None)
    with component("volcano-scheduler"):
        logs.emit(record)
    assert [line.text.endswith("hello") for line in logs.lines("volcano-scheduler")] == [True]
    assert logs.lines("volcano-controllers") == []
