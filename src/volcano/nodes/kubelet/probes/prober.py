"""Puts a probe to a container and says how it answered."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from volcano.clock import Clock
from volcano.kube.manifest import Manifest
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.probe_state import Probe
from volcano.nodes.kubelet.probes import handlers
from volcano.nodes.kubelet.probes.handlers import HandlerResult

MAX_PROBE_RETRIES = 3  # of a probe that could not be put


async def run_probe(
    runtime: Runtime, clock: Clock, pod: str, address: str, container: Container, probe: Probe
) -> HandlerResult:
    """One round of a probe; whoever does not answer in time has failed."""
    result = HandlerResult(None)
    for _ in range(MAX_PROBE_RETRIES):
        result = await run_with_timeout(
            clock, probe.timeout, _attempt(runtime, pod, address, container, probe)
        )
        if result.success is not None:
            break
    return result


async def run_hook(
    runtime: Runtime, clock: Clock, pod: str, address: str, container: Container, handler: Manifest
) -> HandlerResult:
    """Runs a hook to its end; the caller bounds its time."""
    if "exec" in handler:
        return await handlers.execute(runtime, pod, container.name, handler["exec"].get("command") or ())
    if "httpGet" in handler:
        return await handlers.http_get(runtime, pod, address, container.spec, handler["httpGet"])
    if "sleep" in handler:
        await clock.sleep(float(handler["sleep"].get("seconds") or 0))
        return HandlerResult(True)
    if "tcpSocket" in handler:
        return HandlerResult(True)  # kept by Kubernetes for old objects; does nothing there either
    return HandlerResult(None, "the hook names neither exec, httpGet nor sleep")


async def run_with_timeout(
    clock: Clock, seconds: float, attempt: Coroutine[Any, Any, HandlerResult]
) -> HandlerResult:
    """What an attempt comes to, or a failure when it takes longer than `seconds` of this clock."""
    task = asyncio.ensure_future(attempt)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else HandlerResult(False, f"timed out after {seconds:g}s")
    finally:
        for future in (task, alarm):
            future.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


async def _attempt(
    runtime: Runtime, pod: str, address: str, container: Container, probe: Probe
) -> HandlerResult:
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
    return HandlerResult(None, f"missing probe handler for {container.name}")
