"""Options of a local cluster, as a user chooses them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volcano.apiserver.admission.podsecurity.policy import PodSecurityConfiguration
from volcano.embedded.image_map import ImageOptions
from volcano.embedded.state import DEFAULT_NAME, context_of
from volcano.kube.devices.numa.assignment import NONE
from volcano.nodes.pools import Pool
from volcano.nodes.runtimes.probe import AUTO
from volcano.nodes.shim.specs import NO_NETWORK
from volcano.nodes.topology import Topology

CLUSTER_AUTHORITY = "cluster"  # instead of a CA: that of the cluster itself


@dataclass(frozen=True, slots=True)
class LocalNodeOptions:
    """Nodes of this host, on which pods really run; none by default."""

    nodes: int = 0
    runtime: str = AUTO
    fake_gpus: int = 0
    share_gpus: int = 0  # containers that may share a GPU; 0: GPUs are allocated as a whole
    dra: bool = False  # GPUs are published as ResourceSlices
    keep_logs: bool = False  # of deleted pods, for as long as the cluster runs
    pod_network: str = NO_NETWORK  # other networks that pods reach
    cpu_manager_policy: str = NONE
    topology_manager_policy: str = NONE


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    directory: Path
    name: str = DEFAULT_NAME
    durable: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig: Path | None = None
    pools: Sequence[Pool] = ()  # of simulated nodes
    topology: Topology = field(default_factory=Topology)  # of simulated nodes
    sim_duration: float = float("inf")
    scheduler_conf: str | None = None  # the text of a configuration file
    admission_conf: Path | None = None  # a file of resource groups
    audit_log: Path | None = None
    accounting_database: str = ""  # URL; empty: SQLite in the directory, `none`: no accounting
    accounting_retention: float = 400 * 86_400.0  # seconds
    # Targets of webhooks and proxies beside loopback addresses and pods: addresses, networks, names, or `all`.
    allow_egress: tuple[str, ...] = ()
    # Targets of notifications: addresses, networks, names, or `all`; public addresses if empty.
    notify_allow: tuple[str, ...] = ()
    # CA of kubelets' serving certificates, PEM, or `cluster` for that of the cluster; None: they are not verified.
    kubelet_authority: str | None = None
    local: LocalNodeOptions = field(default_factory=LocalNodeOptions)
    pod_security: PodSecurityConfiguration = field(default_factory=PodSecurityConfiguration)
    images: ImageOptions = field(default_factory=ImageOptions)  # programs of this host that stand for images

    @property
    def context(self) -> str:
        """Name of the context in kubeconfigs."""
        return context_of(self.name)
