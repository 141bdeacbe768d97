"""The contract of every API server for resource.k8s.io: status of claims, admin access, slices of nodes."""

from typing import Any

import pytest

from tests.contracts.namespace_client import NamespaceClient
from volcano.kube.api.errors import Conflict, Invalid
from volcano.kube.api.kinds import NAMESPACE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options, PatchType, Query

MERGE = Options(patch_type=PatchType.MERGE)
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
USER = {"resource": "pods", "name": "p", "uid": "1"}


def claim(ns: NamespaceClient, **exactly: Any) -> Manifest:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": ns.namespace},
        "spec": {"devices": {"requests": [request]}},
    }


async def set_status(ns: NamespaceClient, **status: Any) -> Manifest:
    body = {"status": status}
    return await ns.client.patch(RESOURCE_CLAIM, ns.key("c"), body, subresource="status", options=MERGE)


async def test_a_claim_is_allocated_and_reserved_through_its_status(ns: NamespaceClient) -> None:
    created = await ns.client.create(RESOURCE_CLAIM, {**claim(ns), "status": {"allocation": ALLOCATION}})
    assert created.get("status") == {}
    assert created["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    updated = await set_status(ns, allocation=ALLOCATION, reservedFor=[USER])
    assert updated["status"]["reservedFor"] == [USER]
    with pytest.raises(Conflict):
        await ns.client.update(RESOURCE_CLAIM, {**created, "status": {}}, subresource="status")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"reservedFor": [USER]}, "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"),
        (
            {"allocation": {"devices": {"results": [{**RESULT, "request": "other"}]}}},
            'status.allocation.devices.results[0].request: Invalid value: "other": must be the name of a request in '
            "the claim or the name of a request and a subrequest separated by '/'",
        ),
        (
            {"allocation": {"devices": {"results": [{**RESULT, "shareID": "x"}]}}},
            'status.allocation.devices.results[0].shareID: Invalid value: "x": error validating uid: invalid UUID '
            "length: 1",
        ),
        (
            {"allocation": {"devices": {"config": [{"opaque": {"driver": "a.b", "parameters": {}}}]}}},
            "status.allocation.devices.config[0].source: Required value",
        ),
        (
            {"allocation": ALLOCATION, "reservedFor": [USER, USER]},
            'status.reservedFor[1]: Duplicate value: "1"',
        ),
        (
            {"allocation": ALLOCATION, "reservedFor": [{**USER, "uid": str(n)} for n in range(257)]},
            "status.reservedFor: Too many: 257: must have at most 256 items",
        ),
        (
            {"allocation": ALLOCATION, "reservedFor": [{}]},
            "[status.reservedFor[0].resource: Required value, status.reservedFor[0].name: Required value, "
            "status.reservedFor[0].uid: Required value]",
        ),
        (
            {
                "allocation": ALLOCATION,
                "devices": [
                    {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "networkData": {"ips": ["1.2.3.4"]}}
                ],
            },
            'status.devices[0].networkData.ips[0]: Invalid value: "1.2.3.4": must be a valid address in CIDR form, '
            "(e.g. 10.9.8.7/24 or 2001:db8::1/64)",
        ),
    ],
)  # fmt: skip
async def test_an_invalid_status_of_a_claim_is_rejected(
    ns: NamespaceClient, status: Manifest, message: str
) -> None:
    await ns.client.create(RESOURCE_CLAIM, claim(ns))
    with pytest.raises(Invalid) as caught:
        await set_status(ns, **status)
    assert caught.value.message == f'ResourceClaim.resource.k8s.io "c" is invalid: {message}'


async def test_an_allocation_changes_only_by_deallocation(ns: NamespaceClient) -> None:
    await ns.client.create(RESOURCE_CLAIM, claim(ns))
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    await set_status(ns, allocation=ALLOCATION, devices=[device])
    with pytest.raises(Invalid, match="field is immutable"):
        await set_status(ns, allocation={"devices": {"results": [{**RESULT, "device": "gpu-1"}]}})
    freed = await set_status(ns, allocation=None)
    assert freed["status"] == {}, "the driver's status of the device goes with the allocation"


async def test_a_deleted_claim_takes_no_new_consumers(ns: NamespaceClient) -> None:
    manifest = claim(ns)
    manifest["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    await ns.client.create(RESOURCE_CLAIM, manifest)
    await set_status(ns, allocation=ALLOCATION, reservedFor=[USER])
    await ns.client.delete(RESOURCE_CLAIM, ns.key("c"))
    with pytest.raises(Invalid, match="new entries may not be added"):
        await set_status(ns, reservedFor=[USER, {**USER, "uid": "2"}])
    assert "reservedFor" not in (await set_status(ns, reservedFor=None))["status"]


@pytest.mark.parametrize("kind", [RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE], ids=str)
async def test_admin_access_needs_a_label_of_the_namespace(ns: NamespaceClient, kind: Any) -> None:
    manifest = claim(ns, adminAccess=True)
    if kind is RESOURCE_CLAIM_TEMPLATE:
        manifest = {**manifest, "kind": kind.kind, "spec": {"spec": manifest["spec"]}}
    with pytest.raises(Invalid) as caught:
        await ns.client.create(kind, manifest)
    assert caught.value.message == (
        f'{kind.kind}.resource.k8s.io "c" is invalid: spec.devices.requests[0].adminAccess: Forbidden: admin access to '
        "devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await ns.client.patch(NAMESPACE, Key("", ns.namespace), label, options=MERGE)
    await ns.client.create(kind, manifest)


async def test_slices_are_selected_by_node_and_driver(ns: NamespaceClient) -> None:
    for node in ("a", "b"):
        spec = {
            "driver": f"{ns.namespace}.example.com",
            "nodeName": f"{ns.namespace}-{node}",
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]}],
        }
        name = {"name": f"{ns.namespace}-{node}"}
        manifest = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": name,
            "spec": spec,
        }
        created = await ns.client.create(RESOURCE_SLICE, manifest)
        assert created["metadata"]["generation"] == 1
        assert created["spec"]["devices"][0]["taints"][0]["timeAdded"]
    fields = f"spec.driver={ns.namespace}.example.com"
    both = await ns.client.list(RESOURCE_SLICE, Query(fields=fields))
    one = await ns.client.list(RESOURCE_SLICE, Query(fields=f"{fields},spec.nodeName={ns.namespace}-a"))
    assert (len(both.items), len(one.items)) == (2, 1)
    for node in ("a", "b"):
        await ns.client.delete(RESOURCE_SLICE, Key("", f"{ns.namespace}-{node}"))
