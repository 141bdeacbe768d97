"""Runs probes and lifecycle hooks of containers."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from volcano.base.clock import Clock
from volcano.kube.api.manifest import Manifest
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.probe_state import Probe
from volcano.nodes.kubelet.probes import handlers
from volcano.nodes.kubelet.probes.handlers import HandlerResult

MAX_PROBE_RETRIES = 3  # of a probe that could not be run


async def run_probe(
    runtime: Runtime, clock: Clock, pod: str, address: str, container: Container, probe: Probe
) -> HandlerResult:
    """Runs a probe; a timeout is a failure."""
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
    """Runs a hook to its end; the caller sets the timeout."""
    if "exec" in handler:
        return await handlers.execute(runtime, pod, container.name, handler["exec"].get("command") or ())
    if "httpGet" in handler:
        return await handlers.http_get(runtime, pod, address, container.spec, handler["httpGet"])
    if "sleep" in handler:
        await clock.sleep(float(handler["sleep"].get("seconds") or 0))
        return HandlerResult(True)
    if "tcpSocket" in handler:
        return HandlerResult(True)  # deprecated in Kubernetes, where it does nothing either
    return HandlerResult(None, "the hook names neither exec, httpGet nor sleep")


async def run_with_timeout(
    clock: Clock, seconds: float, attempt: Coroutine[Any, Any, HandlerResult]
) -> HandlerResult:
    """The result of a handler, or a failure after `seconds` of this clock."""
    task = asyncio.ensure_future(attempt)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else HandlerResult(False, f"timed out after {seconds:g}s")
    finally:
        for future in (task, timer):
            future.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)


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
