"""Lifecycle hooks: what a container wants done right after its start and before its end."""

from volcano.clock import Clock
from volcano.kube.manifest import Manifest
from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.container_state import Container
from volcano.nodes.kubelet.probes import handlers
from volcano.nodes.kubelet.probes.handlers import Outcome


async def run_hook(
    runtime: Runtime, clock: Clock, pod: str, address: str, container: Container, handler: Manifest
) -> Outcome:
    """Runs a hook to its end; the caller bounds its time."""
    if "exec" in handler:
        return await handlers.execute(runtime, pod, container.name, handler["exec"].get("command") or ())
    if "httpGet" in handler:
        return await handlers.http_get(runtime, pod, address, container.spec, handler["httpGet"])
    if "sleep" in handler:
        await clock.sleep(float(handler["sleep"].get("seconds") or 0))
        return Outcome(True)
    if "tcpSocket" in handler:
        return Outcome(True)  # kept by Kubernetes for old objects; does nothing there either
    return Outcome(None, "the hook names neither exec, httpGet nor sleep")
