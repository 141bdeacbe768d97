"""Options of the kubelet."""

from dataclasses import dataclass
from pathlib import Path

from volcano.kube.devices.numa.assignment import NONE

PODS = "pods"
CONTAINERS = "containers"


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """`directory` is the cluster's data directory: pods are in `pods/<uid>` below it, volumes in `volumes/<pv>`."""

    directory: Path
    nodes: int = 1
    names: tuple[str, ...] = ()  # of the nodes; `local-0`, `local-1` ... by default
    fake_gpus: int = 0  # of the whole host, divided among its nodes
    share_gpus: int = 0  # containers that may share a card; 0: cards are allocated as a whole
    publish_devices: bool = False  # as ResourceSlices, instead of by number
    cluster_domain: str = "cluster.local"
    dns: str = "10.96.0.10"
    api: tuple[str, int] = ("10.96.0.1", 443)  # address and port at which pods reach the API server
    host_address: str = ""  # discovered when empty
    pods_per_node: int = 110
    # Seconds that a status is held back which only reports a pod as starting: mostly the next one replaces
    # it.
    status_delay: float = 0.2
    # Seconds between measurements of a pod's disk usage, if it is limited; longer if measuring takes long.
    measure_interval: float = 10.0
    private: tuple[Path, ...] = ()  # files that are not mounted by hostPath, beside the data directory
    keep_logs: bool = False  # of deleted pods, until the kubelet is closed
    cpu_manager_policy: str = NONE
    topology_manager_policy: str = NONE
    pod_pids_limit: int = 0  # processes and threads of a pod; 0: as machine.default_pids_limit

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.names or tuple(f"local-{number}" for number in range(self.nodes))

    def pod_directory(self, uid: str) -> Path:
        return self.directory / PODS / uid

    def log_path(self, uid: str, container: str, attempt: int) -> Path:
        """The log of one attempt of a container; rotated files have the suffixes `.1`, `.2` ..."""
        return self.pod_directory(uid) / CONTAINERS / container / f"{attempt}.log"

    def termination_path(self, uid: str, container: str, attempt: int) -> Path:
        """The termination message file of one attempt of a container."""
        return self.pod_directory(uid) / CONTAINERS / container / f"{attempt}.termination"
