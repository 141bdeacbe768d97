"""Dynamic Resource Allocation on local nodes: publishes GPUs as slices and finds the devices of pods' claims."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from volcano.base.log import Log
from volcano.kube.api.errors import AlreadyExists, ApiError, NotFound
from volcano.kube.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.client.protocol import Client, Query
from volcano.kube.devices.dra.claims import claim_problem, pod_claim_references
from volcano.nodes.kubelet.gpus import slices
from volcano.nodes.kubelet.node import LocalNode
from volcano.nodes.shim.specs import Failure

log = Log("kubelet")

CONFIG_ERROR = "CreateContainerConfigError"
FAILED_CLAIMS = "FailedPrepareDynamicResources"


class SlicePublisher:
    """Keeps the slices of some nodes as their GPUs are."""

    def __init__(self, client: Client, nodes: Mapping[str, LocalNode]) -> None:
        self._client = client
        self._nodes = nodes

    async def publish(self, name: str, owner: Manifest) -> None:
        """Publishes the GPUs of a node, or removes the slices of a node that allocates them otherwise."""
        try:
            await self._publish(self._nodes[name], owner)
        except ApiError as error:
            log.warning("devices of node not published", node=name, reason=error.message)

    async def _publish(self, node: LocalNode, owner: Manifest) -> None:
        fields = f"spec.driver={slices.DRIVER},spec.nodeName={node.name}"
        old = (await self._client.list(RESOURCE_SLICE, Query(fields=fields))).items
        last = max((each["spec"]["pool"]["generation"] for each in old), default=0)
        new = []
        if node.claimable:
            await self._create_classes()
            new = slices.gpu_slices(
                node.name, node.cards, node.unhealthy, generation=last + 1, owner=_reference(owner)
            )
        if _devices_in(old) == _devices_in(new) and bool(old) == bool(new):
            return
        for each in old:
            await self._delete(key_of(each))
        for each in new:
            await self._client.create(RESOURCE_SLICE, each)

    async def _create_classes(self) -> None:
        for manifest in slices.device_classes():
            try:
                await self._client.create(DEVICE_CLASS, manifest)
            except AlreadyExists:
                continue  # users may have changed it

    async def _delete(self, key: Key) -> None:
        try:
            await self._client.delete(RESOURCE_SLICE, key)
        except NotFound:
            return


async def fetch_claims(client: Client, pod: Manifest) -> dict[str, Manifest]:
    """The claims of a pod by the pod's names for them. Raises a Failure unless it may use all of them."""
    references = dict(pod_claim_references(pod))
    found: dict[str, Manifest] = {}
    for name in filter(None, references.values()):
        with suppress(NotFound):
            found[name] = await client.get(RESOURCE_CLAIM, Key(key_of(pod).namespace, name))
    if problem := claim_problem(pod, found.get):
        raise Failure(FAILED_CLAIMS, problem)
    return {name: found[claim] for name, claim in references.items() if claim}


def claimed_devices(
    container: Mapping[str, Any], claims: Mapping[str, Manifest], node: LocalNode
) -> tuple[str, ...]:
    """UUIDs of the GPUs that a container gets from the claims of its pod."""
    devices = slices.published_devices(node.cards)
    found: list[str] = []
    for wanted in (container.get("resources") or {}).get("claims") or ():
        if wanted["name"] not in claims:
            continue
        claim = claims[wanted["name"]]
        try:
            found += slices.claimed_uuids(claim, wanted.get("request") or "", node.name, devices)
        except ValueError as error:
            raise Failure(CONFIG_ERROR, f"resource claim {key_of(claim).name!r}: {error}") from error
    return tuple(dict.fromkeys(found))


def _devices_in(published: list[Manifest]) -> list[Manifest]:
    return [device for each in published for device in each["spec"].get("devices") or ()]


def _reference(node: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": key_of(node).name,
        "uid": uid_of(node),
        "controller": True,
    }
