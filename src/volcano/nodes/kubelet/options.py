"""What may be chosen about the nodes of this host."""

from dataclasses import dataclass
from pathlib import Path

PODS = "pods"
CONTAINERS = "containers"


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """`directory` is the cluster's data directory: pods live in `pods/<uid>` below it, volumes in `volumes/<pv>`."""

    directory: Path
    nodes: int = 1
    names: tuple[str, ...] = ()  # of the nodes; `local-0`, `local-1` ... by default
    fake_gpus: int = 0  # of the whole host, shared out among its nodes
    cluster_domain: str = "cluster.local"
    dns: str = "10.96.0.10"
    api: tuple[str, int] = ("10.96.0.1", 443)  # as pods reach it
    api_url: str = ""  # as this host reaches it
    authority: str = ""  # PEM of who signed the API server's certificate
    host_address: str = ""  # found out when empty
    pods_per_node: int = 110
    # Seconds that a status waits which says no more than that a pod is being started: mostly the next one overtakes it.
    status_delay: float = 0.2
    # Seconds between two looks at what a pod has written, where that is limited; longer where looking takes long.
    measure_interval: float = 10.0
    log_bytes: int = 10 * 1024 * 1024  # of one file of a container's log
    log_files: int = 5
    keep_logs: bool = False  # of pods that are gone, until the agent is closed

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.names or tuple(f"local-{number}" for number in range(self.nodes))

    def pod_directory(self, uid: str) -> Path:
        return self.directory / PODS / uid

    def log_path(self, uid: str, container: str, attempt: int) -> Path:
        """The log of one start of a container; older parts of it are `.1`, `.2` ..."""
        return self.pod_directory(uid) / CONTAINERS / container / f"{attempt}.log"

    def termination_path(self, uid: str, container: str, attempt: int) -> Path:
        """Where a container leaves its last words."""
        return self.pod_directory(uid) / CONTAINERS / container / f"{attempt}.termination"
