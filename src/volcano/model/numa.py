"""NUMA request: the policy that a pod asks for and the CPUs that its containers get for their own."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from volcano.kube.devices.numa.assignment import NONE
from volcano.kube.devices.numa.requests import exclusive_cpus, is_guaranteed


class NumaRequest(NamedTuple):
    """Request of a Guaranteed pod. `cpus` are whole CPUs by container, 0 for those that use shared ones."""

    policy: str  # empty when the pod asks for none
    containers: tuple[str, ...]
    cpus: tuple[int, ...]

    @property
    def asks(self) -> bool:
        """Whether the pod asks for a policy."""
        return self.policy not in ("", NONE)


def numa_request(policy: str, spec: Mapping[str, Any]) -> NumaRequest | None:
    """The request of a pod with this policy annotation; None where the topology of nodes does not matter to it."""
    if not is_guaranteed(spec):
        return None
    cpus = exclusive_cpus(spec)
    request = NumaRequest(policy, tuple(cpus), tuple(cpus.values()))
    return request if cpus or request.asks else None
