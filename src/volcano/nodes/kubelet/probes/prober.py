"""Puts a probe to a container and says how it answered."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from volcano.clock import Clock
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.probe_state import Probe
from volcano.nodes.kubelet.probes import handlers
from volcano.nodes.kubelet.probes.handlers import Outcome

TRIES = 3  # of a probe that could not be put


async def put(
    runtime: Runtime, clock: Clock, pod: str, address: str, container: Container, probe: Probe
) -> Outcome:
    """One round of a probe; whoever does not answer in time has failed."""
    outcome = Outcome(None)
    for _ in range(TRIES):
        outcome = await within(clock, probe.timeout, _once(runtime, pod, address, container, probe))
        if outcome.well is not None:
            break
    return outcome


async def within(clock: Clock, seconds: float, attempt: Coroutine[Any, Any, Outcome]) -> Outcome:
    """What an attempt comes to, or a failure when it takes longer than `seconds` of this clock."""
    task = asyncio.ensure_future(attempt)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else Outcome(False, f"timed out after {seconds:g}s")
    finally:
        for future in (task, alarm):
            future.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


async def _once(runtime: Runtime, pod: str, address: str, container: Container, probe: Probe) -> Outcome:
    handler = probe.handler
    if "exec" in handler:
        command = handler["exec"].get("command") or ()
        return await handlers.execute(runtime, pod, container.name, command)
    if "httpGet" in handler:
        return await handlers.http_get(runtime, pod, address, container.spec, handler["httpGet"])
    if "tcpSocket" in handler:
        return await handlers.tcp(runtime, pod, address, container.spec, handler["tcpSocket"])
    if "grpc" in handler:
        return await handlers.grpc(runtime, pod, address, handler["grpc"])
    return Outcome(None, f"missing probe handler for {container.name}")
