"""kubectl with device claims, classes and slices."""

from tests.kubectl.conftest import Kubectl

MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpus}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {model: {string: A100}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
"""
ALLOCATION = (
    '{"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"gpu.example.com","pool":"node-1",'
    '"device":"gpu-0"}]}}}}'
)


def test_device_kinds_are_printed_and_described(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=MANIFESTS)
    assert kubectl("get", "resourceclaims").split()[:5] == ["NAME", "STATE", "AGE", "shared", "pending"]
    kubectl("patch", "resourceclaim", "shared", "--subresource=status", "--type=merge", "-p", ALLOCATION)
    assert kubectl("get", "resourceclaims", "--no-headers").split()[1] == "allocated"
    slices = kubectl("get", "resourceslices").split()
    assert slices[:9] == [
        "NAME", "NODE", "DRIVER", "POOL", "AGE", "node-1-gpus", "node-1", "gpu.example.com", "node-1",
    ]  # fmt: skip
    assert "gpu.example.com" in kubectl("get", "deviceclasses")
    assert "one-gpu" in kubectl("get", "resourceclaimtemplates")
    described = kubectl("describe", "resourceclaim", "shared")
    assert "Device Class Name:" in described
    assert "gpu-0" in described
    assert "FIELD: selectors" in kubectl("explain", "deviceclass.spec.selectors")
    kubectl("delete", "-f", "-", stdin=MANIFESTS)
