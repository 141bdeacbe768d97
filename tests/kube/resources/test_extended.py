"""Extended resources are those of neither Kubernetes nor quotas; their limits are their requests."""

import pytest

from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.extended import containers_of, is_extended, limit_extended


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("example.com/device", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/batch", False),
        ("attachable.kubernetes.io/volumes", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_which_resources_are_extended(name: str, extended: bool) -> None:
    assert is_extended(name) is extended


def test_a_request_without_a_limit_gets_one_and_what_was_given_stays() -> None:
    requests = {"nvidia.com/gpu": "2", "example.com/nic": 1, "cpu": "1"}
    given = {"requests": requests, "limits": {"example.com/nic": 4, "memory": "1Gi"}}
    pod: Manifest = {
        "initContainers": [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": 1}}}],
        "containers": [{"name": "c", "resources": given}, {"name": "d"}],
    }
    limit_extended(pod)
    first, second, third = containers_of(pod)
    assert first["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert second["resources"]["limits"] == {"example.com/nic": 4, "memory": "1Gi", "nvidia.com/gpu": "2"}
    assert second["resources"]["requests"] == requests
    assert third == {"name": "d"}
