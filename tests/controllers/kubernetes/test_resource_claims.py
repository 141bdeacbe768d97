"""Claims of pods: created from templates, released when pods end, deleted with them."""

from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.controllers.kubernetes.resource_claims import ResourceClaimController, claim_from_template
from volcano.kube.api.kinds import EVENT, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from volcano.kube.api.manifest import Key, Manifest, controller_of, key_of, uid_of
from volcano.kube.client.protocol import Options, PatchType
from volcano.kube.devices.dra.claims import FINALIZER, POD_CLAIM

DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
MERGE = Options(patch_type=PatchType.MERGE)


def spec(claim: Manifest | None = None, **more: Any) -> Manifest:
    entry = {"name": "gpu", **(claim or {"resourceClaimTemplateName": "one-gpu"})}
    return {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [entry], **more}


async def template(cluster: SmallCluster) -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    await cluster.create(RESOURCE_CLAIM_TEMPLATE, "one-gpu", spec={"metadata": metadata, "spec": DEVICES})


async def allocate(cluster: SmallCluster, name: str, *pods: Manifest) -> None:
    """What the scheduler writes before it binds pods."""
    key = Key("default", name)
    finalizer = {"metadata": {"finalizers": [FINALIZER]}}
    await cluster.client.patch(RESOURCE_CLAIM, key, finalizer, options=MERGE)
    users = [{"resource": "pods", "name": key_of(pod).name, "uid": uid_of(pod)} for pod in pods]
    status = {"status": {"allocation": ALLOCATION, "reservedFor": users}}
    await cluster.client.patch(RESOURCE_CLAIM, key, status, subresource="status", options=MERGE)
    await cluster.rest()


async def set_phase(cluster: SmallCluster, name: str, phase: str) -> None:
    patch = {"status": {"phase": phase}}
    await cluster.client.patch(POD, Key("default", name), patch, subresource="status", options=MERGE)
    await cluster.rest()


async def only_claim(cluster: SmallCluster) -> Manifest:
    (claim,) = await cluster.all(RESOURCE_CLAIM)
    return claim


async def test_a_claim_is_created_from_the_template_and_named_in_the_pod() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await template(cluster)
        pod = await cluster.create(POD, "p", spec=spec())
        claim = await only_claim(cluster)
        metadata = claim["metadata"]
        assert metadata["name"].startswith("p-gpu-")
        assert metadata["annotations"] == {"c": "d", POD_CLAIM: "gpu"}
        assert metadata["labels"] == {"a": "b"}
        assert (controller_of(claim) or {})["uid"] == uid_of(pod)
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
        pod = await cluster.get(POD, "p")
        assert pod["status"]["resourceClaimStatuses"] == [
            {"name": "gpu", "resourceClaimName": metadata["name"]}
        ]


async def test_a_pod_whose_template_is_missing_waits_for_it_with_an_event() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await cluster.create(POD, "p", spec=spec())
        (event,) = await cluster.all(EVENT)
        assert event["reason"] == "FailedResourceClaimCreation"
        assert event["message"] == (
            'PodResourceClaim gpu: resource claim template "one-gpu": '
            'resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
        )
        await template(cluster)
        assert await only_claim(cluster)


async def test_a_claim_that_is_deleted_under_its_pod_is_created_again() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await template(cluster)
        await cluster.create(POD, "p", spec=spec())
        first = await only_claim(cluster)
        await cluster.delete(RESOURCE_CLAIM, key_of(first).name)
        second = await only_claim(cluster)
        assert uid_of(second) != uid_of(first)
        status = (await cluster.get(POD, "p"))["status"]["resourceClaimStatuses"]
        assert status == [{"name": "gpu", "resourceClaimName": key_of(second).name}]


async def test_a_finished_pod_releases_its_devices_and_its_claim_is_deleted() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await template(cluster)
        pod = await cluster.create(POD, "p", spec=spec(nodeName="n1"))
        await allocate(cluster, key_of(await only_claim(cluster)).name, pod)
        await set_phase(cluster, "p", "Running")
        assert (await only_claim(cluster))["status"]["allocation"] == ALLOCATION
        await set_phase(cluster, "p", "Succeeded")
        assert await cluster.all(RESOURCE_CLAIM) == []


async def test_the_claim_of_a_deleted_pod_goes_with_it() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await template(cluster)
        pod = await cluster.create(POD, "p", spec=spec(nodeName="n1"))
        await allocate(cluster, key_of(await only_claim(cluster)).name, pod)
        await cluster.delete(POD, "p", grace=0)
        assert await cluster.all(RESOURCE_CLAIM) == []


async def test_a_shared_claim_stays_allocated_until_its_last_pod_ends() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await cluster.create(RESOURCE_CLAIM, "shared", spec=DEVICES)
        shared = {"resourceClaimName": "shared"}
        pods = [await cluster.create(POD, name, spec=spec(shared, nodeName="n1")) for name in ("a", "b")]
        await allocate(cluster, "shared", *pods)
        await set_phase(cluster, "a", "Failed")
        claim = await only_claim(cluster)
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["b"]
        assert claim["status"]["allocation"] == ALLOCATION
        await cluster.delete(POD, "b", grace=0)
        claim = await only_claim(cluster)
        assert claim["status"] == {}
        assert "finalizers" not in claim["metadata"]


async def test_an_allocated_claim_is_deleted_only_after_its_pods() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await cluster.create(RESOURCE_CLAIM, "shared", spec=DEVICES)
        pod = await cluster.create(POD, "a", spec=spec({"resourceClaimName": "shared"}, nodeName="n1"))
        await allocate(cluster, "shared", pod)
        await cluster.delete(RESOURCE_CLAIM, "shared")
        assert (await only_claim(cluster))["status"]["allocation"] == ALLOCATION
        await set_phase(cluster, "a", "Succeeded")
        assert await cluster.all(RESOURCE_CLAIM) == []


async def test_an_allocated_claim_is_reserved_for_a_pod_that_was_bound_by_hand() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await cluster.create(RESOURCE_CLAIM, "shared", spec=DEVICES)
        await allocate(cluster, "shared")
        pod = await cluster.create(POD, "a", spec=spec({"resourceClaimName": "shared"}, nodeName="n1"))
        (user,) = (await only_claim(cluster))["status"]["reservedFor"]
        assert user["uid"] == uid_of(pod)


async def test_a_reservation_for_a_pod_that_never_was_is_removed() -> None:
    async with SmallCluster(ResourceClaimController()) as cluster:
        await cluster.create(RESOURCE_CLAIM, "shared", spec=DEVICES)
        await allocate(cluster, "shared", {"metadata": {"name": "ghost", "uid": "1"}})
        assert (await only_claim(cluster))["status"] == {}


@pytest.mark.parametrize(
    ("pod", "claim", "prefix"),
    [
        ("p", "gpu", "p-gpu-"),
        ("p" * 60, "gpu", f"{'p' * 52}-gp"),
        ("p" * 60, "c" * 60, f"{'p' * 28}-{'c' * 28}"),
    ],
)
def test_long_names_are_shortened_in_proportion(pod: str, claim: str, prefix: str) -> None:
    owner = {"metadata": {"name": pod, "namespace": "default", "uid": "1"}}
    made = claim_from_template({"spec": {"spec": DEVICES}}, owner, claim)
    assert made["metadata"]["generateName"] == prefix
