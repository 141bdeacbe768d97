"""Reports about devices to the API server: failed and recovered ones, and shares that were handed out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError, Conflict, Invalid, NotFound
from volcano.kube.api.events import reference_to
from volcano.kube.api.kinds import NODE, POD
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.protocol import Client
from volcano.nodes.kubelet.devices import DeviceManager
from volcano.nodes.kubelet.events import EventWriter, pod_reference
from volcano.nodes.kubelet.gpus import sharing
from volcano.nodes.kubelet.gpus.inventory import card_of
from volcano.nodes.kubelet.node import LocalNode
from volcano.nodes.kubelet.node_status import NodeStatusUpdater

log = Log("kubelet")

UNHEALTHY, HEALTHY = "UnhealthyDevice", "HealthyDevice"
RETRY_SECONDS = 1.0


class DeviceReporter:
    """Reports of the nodes of one host. `pods` returns the pods on them that have not ended."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        events: EventWriter,
        nodes: dict[str, LocalNode],
        devices: DeviceManager,
        status: NodeStatusUpdater,
        pods: Callable[[], Iterable[Manifest]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._nodes = nodes
        self._devices = devices
        self._status = status
        self._pods = pods

    async def set_problems(self, problems: Mapping[str, str]) -> None:
        """Makes failed devices unallocatable, and recovered ones allocatable, with events on node and pods."""
        for name, node in list(self._nodes.items()):
            own = {uuid: text for uuid, text in problems.items() if card_of(node.cards, uuid) is not None}
            if own == node.unhealthy:
                continue
            self._nodes[name] = replace(node, unhealthy=own)
            self._report_changes(node, own)
            await self._status.report_devices(name)

    def _report_changes(self, node: LocalNode, problems: Mapping[str, str]) -> None:
        reference = reference_to({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}})
        for uuid in sorted(problems.keys() - node.unhealthy.keys()):
            found = card_of(node.cards, uuid)
            what = f"GPU {uuid} ({found[0].name if found else 'unknown'})"
            log.error("GPU failed", node=node.name, gpu=uuid, reason=problems[uuid])
            text = f"{what} failed and is not allocated any more: {problems[uuid]}"
            self._events.warn(node.name, reference, UNHEALTHY, text)
            for pod in self._pods():
                if pod["spec"]["nodeName"] == node.name and self._devices.uses(node.name, pod, uuid):
                    text = f"{what}, which this pod uses, failed: {problems[uuid]}"
                    self._events.warn(node.name, pod_reference(pod), UNHEALTHY, text)
        for uuid in sorted(node.unhealthy.keys() - problems.keys()):
            log.info("GPU recovered", node=node.name, gpu=uuid)
            self._events.normal(node.name, reference, HEALTHY, f"GPU {uuid} works again and is allocated")

    async def answer_assignment(self, pod: Manifest, *, failed: bool) -> None:
        """Tells the scheduler that the shares of a pod were handed out or could not be, and unlocks the node."""
        node = pod["spec"]["nodeName"]
        metadata = {"uid": uid_of(pod), "annotations": sharing.answer(pod, failed=failed)}
        while True:
            try:
                await self._client.patch(POD, key_of(pod), {"metadata": metadata})
                unlocked = {"metadata": {"annotations": dict.fromkeys(sharing.LOCKS)}}
                await self._client.patch(NODE, Key("", node), unlocked)
                return
            except (NotFound, Conflict, Invalid):  # gone, or another pod of this name
                return
            except ApiError as error:
                log.warning(
                    "assignment of shares not reported, retrying", pod=str(key_of(pod)), reason=error.message
                )
                await self._clock.sleep(RETRY_SECONDS)
