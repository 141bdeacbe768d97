"""Simulated nodes with devices: slices that go with the node, and pods that wait for their claims."""

from tests.cluster import SmallCluster
from volcano.kube.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Key, Manifest, uid_of
from volcano.kube.client.protocol import Options, PatchType
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes
from volcano.nodes.simulated.devices import SimulatedDevices

NODES = nodes_of(parse_pools([2], ["cpu=4,dra=gpu.example.com:130"]))
MERGE = Options(patch_type=PatchType.MERGE)
DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "device-0"}


async def test_nodes_publish_their_devices_and_take_them_away() -> None:
    async with SmallCluster(SimulatedNodes(NODES), SimulatedDevices(NODES)) as cluster:
        await cluster.rest()
        slices = await cluster.all(RESOURCE_SLICE)
        assert [len(each["spec"]["devices"]) for each in slices] == [128, 2] * 2
        assert {each["spec"]["pool"]["resourceSliceCount"] for each in slices} == {2}
        assert await cluster.names(DEVICE_CLASS) == ["gpu.example.com"]
        await cluster.delete(RESOURCE_SLICE, slices[0]["metadata"]["name"])
        assert len(await cluster.all(RESOURCE_SLICE)) == 4, "a slice that was deleted is published again"
        await cluster.delete(NODE, "node-1")
        assert {each["spec"]["nodeName"] for each in await cluster.all(RESOURCE_SLICE)} == {"node-0"}


async def test_a_pod_starts_when_its_claim_is_allocated_and_reserved_for_it() -> None:
    async with SmallCluster(SimulatedNodes(NODES)) as cluster:
        await cluster.create(RESOURCE_CLAIM, "c", spec=DEVICES)
        claims = [{"name": "gpu", "resourceClaimName": "c"}]
        spec: Manifest = {
            "nodeName": "node-0",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": claims,
        }
        pod = await cluster.create(POD, "p", spec=spec)
        await cluster.pass_time(2)

        async def phase() -> str:
            return str((await cluster.get(POD, "p"))["status"]["phase"])

        assert await phase() == "Pending"

        async def status(**fields: object) -> None:
            key = Key("default", "c")
            body = {"status": fields}
            await cluster.client.patch(RESOURCE_CLAIM, key, body, subresource="status", options=MERGE)
            await cluster.pass_time(2)

        await status(allocation={"devices": {"results": [RESULT]}})
        assert await phase() == "Pending"
        await status(reservedFor=[{"resource": "pods", "name": "p", "uid": uid_of(pod)}])
        assert await phase() == "Running"
