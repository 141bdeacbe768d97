"""Lost pods: those that ended with their node are reported and deleted, so that their controllers replace them."""

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError, Conflict, NotFound
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, controller_of, key_of, uid_of
from volcano.kube.client.protocol import Client, Options
from volcano.nodes.kubelet.events import EventWriter, pod_reference

log = Log("kubelet")

NODE_RESTARTED = "NodeRestarted"
RETRY_SECONDS = 1.0


def report_lost(pod: Manifest, events: EventWriter) -> None:
    """Records that a pod ended with its node, on the pod and on its controller, which outlives it."""
    node, message = (
        pod["spec"]["nodeName"],
        f"Pod {key_of(pod).name} was running when its node was stopped",
    )
    owner = controller_of(pod) or {}
    regarding = {name: owner.get(name) for name in ("apiVersion", "kind", "name", "uid")}
    for reference in (pod_reference(pod), {**regarding, "namespace": key_of(pod).namespace}):
        events.warn(node, reference, NODE_RESTARTED, f"{message}; its controller replaces it")


async def delete_lost(pod: Manifest, client: Client, clock: Clock) -> None:
    """Deletes a pod, so that its controller creates another: reported as failed, it would fail its job."""
    while True:
        try:
            options = Options(grace_seconds=0, uid=uid_of(pod))
            await client.delete(POD, key_of(pod), options=options)
            return
        except (NotFound, Conflict):  # gone, or another pod of this name
            return
        except ApiError as error:
            log.warning("deletion of lost pod failed, retrying", pod=str(key_of(pod)), reason=error.message)
            await clock.sleep(RETRY_SECONDS)
