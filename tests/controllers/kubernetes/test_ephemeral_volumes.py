"""Volumes that live and go with their pods."""

from tests.cluster import SmallCluster
from volcano.controllers.kubernetes.volumes import PROVISIONER, VolumeController
from volcano.kube.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from volcano.kube.api.manifest import Manifest, controller_of, uid_of

CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "late",
}


def spec(**fields: object) -> Manifest:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": CLAIM}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    return {"containers": [{"name": "web", "image": "web"}], "volumes": volumes, **fields}


async def test_a_pod_s_claim_is_made_at_once_bound_when_it_has_a_node_and_goes_with_it() -> None:
    async with SmallCluster(VolumeController(host_directory="/data/volumes")) as cluster:
        await cluster.create(
            STORAGE_CLASS,
            "late",
            provisioner=PROVISIONER,
            reclaimPolicy="Delete",
            volumeBindingMode="WaitForFirstConsumer",
        )
        pod = await cluster.create(POD, "p", spec=spec())
        claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "p-v")
        assert (controller_of(claim) or {})["uid"] == uid_of(pod)
        assert (claim["metadata"]["labels"], claim["metadata"]["annotations"]) == ({"a": "b"}, {"c": "d"})
        assert not claim["spec"].get("volumeName")
        placed = await cluster.create(POD, "q", spec=spec(nodeName="n"))
        bound = await cluster.get(PERSISTENT_VOLUME_CLAIM, "q-v")
        name = bound["spec"]["volumeName"]
        volume = await cluster.get(PERSISTENT_VOLUME, name)
        assert volume["spec"]["hostPath"] == {"path": f"/data/volumes/{name}", "type": "DirectoryOrCreate"}
        await cluster.delete(POD, placed["metadata"]["name"], grace=0)
        assert await cluster.names(PERSISTENT_VOLUME_CLAIM) == ["p-v"]
        assert await cluster.names(PERSISTENT_VOLUME) == []


async def test_a_claim_that_is_deleted_under_its_pod_is_made_again() -> None:
    async with SmallCluster(VolumeController()) as cluster:
        await cluster.create(POD, "p", spec=spec())
        first = await cluster.get(PERSISTENT_VOLUME_CLAIM, "p-v")
        await cluster.delete(PERSISTENT_VOLUME_CLAIM, "p-v")
        second = await cluster.get(PERSISTENT_VOLUME_CLAIM, "p-v")
        assert uid_of(first) != uid_of(second)
