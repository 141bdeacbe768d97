"""Dynamic Resource Allocation on a real API server: kube-controller-manager creates the claims, ours allocates them."""

import pytest

from tests.k8s.load import job
from tests.k8s.plain import Object
from tests.k8s.programs import Programs
from tests.k8s.test_scenarios import FOREVER, Scenario, programs, scenario
from volcano.kube.devices.dra.slices import device, driver_class, node_slices

__all__ = ["programs", "scenario"]  # fixtures
pytestmark = pytest.mark.k8s

DRIVER = "gpu.example.com"
CLASSES, SLICES = "/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"
PER_NODE = 2


@pytest.fixture(scope="module", autouse=True)
def devices(installed: Programs) -> None:
    """Two devices on each of the four nodes."""
    api = installed.api
    api.create(CLASSES, driver_class(DRIVER, DRIVER))
    for node in api.items("/api/v1/nodes"):
        found = [device(f"gpu-{number}", {"number": number}) for number in range(PER_NODE)]
        for each in node_slices(node["metadata"]["name"], DRIVER, found):
            api.create(SLICES, each)


def claiming(
    scenario: Scenario, name: str, replicas: int, count: int = 1, seconds: float = FOREVER
) -> Object:
    """Submits a gang whose pods claim `count` devices each."""
    template = f"gpus-{count}"
    if not any(
        each["metadata"]["name"] == template
        for each in scenario.api.items(TEMPLATES.format(scenario.namespace))
    ):
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": count}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        scenario.api.create(
            TEMPLATES.format(scenario.namespace), {"metadata": {"name": template}, "spec": spec}
        )
    manifest = job(name, replicas, seconds=seconds)
    pod = manifest["spec"]["tasks"][0]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    pod["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return scenario.submit(manifest)


def allocated(scenario: Scenario) -> list[tuple[str, str]]:
    claims = scenario.api.items(CLAIMS.format(scenario.namespace))
    return [
        (result["pool"], result["device"])
        for claim in claims
        if (claim.get("status") or {}).get("allocation")
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]


def test_a_gang_gets_a_device_for_each_pod_and_releases_them(scenario: Scenario) -> None:
    claiming(scenario, "train", 8, seconds=5)
    scenario.until(lambda: scenario.running("train") == 8)
    found = allocated(scenario)
    assert len(found) == len(set(found)) == 8
    for claim in scenario.api.items(CLAIMS.format(scenario.namespace)):
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert [user["resource"] for user in claim["status"]["reservedFor"]] == ["pods"]
    scenario.until(lambda: scenario.phase("train") == "Completed")
    scenario.until(lambda: allocated(scenario) == [])


def test_a_gang_that_needs_more_devices_than_there_are_gets_none(scenario: Scenario) -> None:
    claiming(scenario, "big", 5, count=2)
    scenario.until(
        lambda: any(
            "too few free devices of class gpu.example.com for request gpu" in condition.get("message", "")
            for pod in scenario.pods("big")
            for condition in pod["status"].get("conditions") or ()
        )
    )
    assert scenario.running("big") == 0
    assert allocated(scenario) == []
    claiming(scenario, "small", 4, count=2, seconds=2)
    scenario.until(lambda: scenario.phase("small") == "Completed")


def test_pods_share_a_claim_on_one_node(scenario: Scenario) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 2}}
    scenario.api.create(
        CLAIMS.format(scenario.namespace),
        {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}},
    )
    manifest = job("pair", 2, seconds=4)
    manifest["spec"]["tasks"][0]["template"]["spec"]["resourceClaims"] = [
        {"name": "gpu", "resourceClaimName": "shared"}
    ]
    scenario.submit(manifest)
    scenario.until(lambda: scenario.running("pair") == 2)
    assert len({pod["spec"]["nodeName"] for pod in scenario.pods("pair")}) == 1
    claim = scenario.api.get(f"{CLAIMS.format(scenario.namespace)}/shared")
    assert len(claim["status"]["reservedFor"]) == 2
    scenario.until(lambda: allocated(scenario) == [])
