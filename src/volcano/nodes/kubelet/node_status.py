"""Registers the nodes of this host, renews their leases and updates their status."""

from collections.abc import Callable, Mapping

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import AlreadyExists, ApiError, NotFound
from volcano.kube.api.kinds import NODE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import Create, perform
from volcano.kube.client.protocol import Client, Options, PatchType
from volcano.kube.devices import vgpu
from volcano.nodes.heartbeats import HEARTBEAT, STATUS_HEARTBEAT, renewal
from volcano.nodes.kubelet.device_claims import SlicePublisher
from volcano.nodes.kubelet.machine import MachineInfo
from volcano.nodes.kubelet.node import (
    LocalNode,
    is_device_resource,
    node_annotations,
    node_labels,
    node_object,
    node_status,
)

log = Log("kubelet")

RETRY_SECONDS = 1.0


class NodeStatusUpdater:
    """Status of the nodes of one host. `abnormal` returns the condition types that are not met."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        nodes: Mapping[str, LocalNode],
        machine: MachineInfo,
        runtime: Mapping[str, str],
        address: str,
        abnormal: Callable[[], frozenset[str]],
        publisher: SlicePublisher,
    ) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._machine = machine
        self._runtime = runtime
        self._address = address
        self._abnormal = abnormal
        self._publisher = publisher
        self._registered: dict[str, Manifest] = {}
        self._leased: dict[str, bool] = {}

    @property
    def registered(self) -> Mapping[str, Manifest]:
        """The Node objects as they were last written."""
        return self._registered

    async def register(self) -> None:
        """Creates or updates the Node objects; returns when all are registered."""
        for name in self._nodes:
            while True:
                try:
                    self._registered[name] = await self._register(name)
                    await self._publisher.publish(name, self._registered[name])
                    break
                except ApiError as error:
                    log.warning("node registration failed, retrying", node=name, reason=error.message)
                    await self._clock.sleep(RETRY_SECONDS)

    async def run(self) -> None:
        """Runs until cancelled. As in the kubelet, a deleted node is registered again only after a restart."""
        reported: frozenset[str] | None = None
        reported_at = self._clock.now().monotonic
        while True:
            abnormal = self._abnormal_conditions()
            again = self._clock.now().monotonic - reported_at >= STATUS_HEARTBEAT
            for name in self._nodes:
                await self._renew(name)
                if again or (reported is not None and abnormal != reported):
                    await self._update_status(name, abnormal)
            if again or abnormal != reported:
                reported, reported_at = abnormal, self._clock.now().monotonic
            await self._clock.sleep(HEARTBEAT)

    def _abnormal_conditions(self) -> frozenset[str]:
        try:
            return self._abnormal()
        except OSError as error:  # a disk that cannot be queried counts as full
            log.warning("node pressure check failed", reason=str(error))
            return frozenset(("DiskPressure",))

    async def _register(self, name: str) -> Manifest:
        node, now = self._nodes[name], self._clock.now().timestamp()
        try:
            manifest = node_object(node, self._machine, self._runtime, self._address, now)
            return await self._client.create(NODE, manifest)
        except AlreadyExists:
            known = await self._client.get(NODE, Key("", name))
            # A register of shared cards that is no longer valid is removed.
            annotations = {vgpu.REGISTER: None, **node_annotations(node)}
            metadata = {"labels": node_labels(node, self._machine), "annotations": annotations}
            await self._client.patch(NODE, Key("", name), {"metadata": metadata})
            return await self._patch(name, known, self._abnormal_conditions())

    async def report_devices(self, name: str) -> None:
        """Reports at once that devices of a node failed or recovered."""
        try:
            annotations = node_annotations(self._nodes[name])
            if annotations:
                await self._client.patch(NODE, Key("", name), {"metadata": {"annotations": annotations}})
        except ApiError as error:
            log.info("node status update failed", node=name, reason=error.message)
        await self._update_status(name, self._abnormal_conditions())
        await self._publisher.publish(name, self._registered[name])

    async def _patch(self, name: str, known: Manifest, abnormal: frozenset[str]) -> Manifest:
        now = self._clock.now().timestamp()
        node, machine = self._nodes[name], self._machine
        status = node_status(
            node, machine, self._runtime, self._address, now, abnormal=abnormal, before=known
        )
        # Resources that the host no longer has are removed; those added by users stay.
        for field in ("capacity", "allocatable"):
            old = (known.get("status") or {}).get(field, {})
            status[field] = {resource: None for resource in old if is_device_resource(resource)} | status[
                field
            ]
        options = Options(patch_type=PatchType.STRATEGIC)
        patch = {"status": {**status, "addresses": [{"$patch": "replace"}, *status["addresses"]]}}
        return await self._client.patch(NODE, Key("", name), patch, subresource="status", options=options)

    async def _renew(self, name: str) -> None:
        exists = self._leased.get(name, False)
        try:
            wanted = renewal(self._registered[name], self._clock.now(), exists=exists)
            lease = await perform(self._client, wanted)
            self._leased[name] = True
            if isinstance(wanted, Create) and lease["spec"] != wanted.manifest["spec"]:
                await self._renew(name)  # a lease left by an earlier process may have expired
        except NotFound:
            self._leased[name] = False  # created by the next renewal
        except ApiError as error:
            log.info("lease renewal failed", node=name, reason=error.message)

    async def _update_status(self, name: str, abnormal: frozenset[str]) -> None:
        try:
            known = await self._client.get(NODE, Key("", name))
            self._registered[name] = await self._patch(name, known, abnormal)
        except ApiError as error:
            log.info("node status update failed", node=name, reason=error.message)
