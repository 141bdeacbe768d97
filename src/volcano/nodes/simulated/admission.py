"""Admission on simulated nodes: a pod is rejected if the node's free capacity is too small, as a kubelet does.

Independent schedulers may bind to the same node at the same time; only the node can decide which pod is
rejected.
"""

from collections.abc import Mapping

from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.kubelet.pods.lifecycle import PodFailure
from volcano.nodes.kubelet.pods.pod_resources import Amounts, amounts, check_fit, totals


class NodeAdmission:
    """Requests of the pods on one node."""

    def __init__(self, allocatable: Mapping[str, str]) -> None:
        self._allocatable = allocatable
        self._capacity = amounts(allocatable)
        self._used: Amounts = {}
        self._pods: dict[Key, Amounts] = {}

    def set_allocatable(self, allocatable: Mapping[str, str]) -> None:
        """Takes over the Node's allocatable: users may add resources that no simulated node has by itself."""
        if allocatable != self._allocatable:
            self._allocatable, self._capacity = allocatable, amounts(allocatable)

    def admit(self, key: Key, pod: Manifest) -> PodFailure | None:
        """Counts the pod, or returns why it does not fit."""
        requests = self._requests(pod)
        if any(
            amount and amount + self._used.get(name, 0.0) > self._capacity.get(name, 0.0)
            for name, amount in requests.items()
        ):
            return check_fit(pod, self._pods.values(), self._allocatable)
        self._add(key, requests)
        return None

    def add(self, key: Key, pod: Manifest) -> None:
        """Counts a pod that was admitted earlier, without checking."""
        if key not in self._pods:
            self._add(key, self._requests(pod))

    def remove(self, key: Key) -> None:
        """Stops counting a pod that has ended or was deleted."""
        for name, amount in self._pods.pop(key, {}).items():
            self._used[name] -= amount

    def _requests(self, pod: Manifest) -> Amounts:
        return totals(pod["spec"], "requests") | {"pods": 1.0}

    def _add(self, key: Key, requests: Amounts) -> None:
        self._pods[key] = requests
        for name, amount in requests.items():
            self._used[name] = self._used.get(name, 0.0) + amount


def rejected_status(failure: PodFailure) -> Manifest:
    """The status of a pod that was not admitted."""
    return {
        "phase": "Failed",
        "reason": failure.reason,
        "message": f"Pod was rejected: {failure.message}",
    }
