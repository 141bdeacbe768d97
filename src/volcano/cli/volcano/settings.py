"""Options of a cluster from the flags of `volcano up` and `volcano run`."""

import argparse
import ipaddress
import os
import re
from pathlib import Path

from volcano.accounting.periods import retention_of
from volcano.apiserver.admission.podsecurity.policy import ConfigurationError, PodSecurityConfiguration
from volcano.base.http.dialer import AllowedTargets
from volcano.base.http.tls_context import is_certificate
from volcano.base.os_errors import explain_os_error
from volcano.cli.errors import CommandError, UsageError, value_of
from volcano.cli.volcano.configuration import checked
from volcano.cli.volcano.pod_security import pod_security
from volcano.controllers.notifications.targets import Targets
from volcano.embedded import state
from volcano.embedded.files import Document, FileError, read_files
from volcano.embedded.image_map import ImageOptions
from volcano.embedded.options import CLUSTER_AUTHORITY, ClusterOptions, LocalNodeOptions
from volcano.embedded.state import DEFAULT_NAME
from volcano.frameworks.install import image_files
from volcano.kube.api.duration import parse as parse_duration
from volcano.nodes.image_map import ImageMapError
from volcano.nodes.image_map import parse as parse_image_map
from volcano.nodes.kubelet.gpus.driver import has_gpus
from volcano.nodes.pools import Pool, PoolError, parse_pools
from volcano.nodes.shim.specs import NAT, NO_NETWORK, POD_NETWORKS
from volcano.nodes.topology import Topology, parse_topology
from volcano.scheduler.engine.config import ConfigError
from volcano.webhooks.resourcegroups import GroupsFile

POD_NETWORK_VARIABLE = "VOLCANO_POD_NETWORK"


def cluster_options(
    arguments: argparse.Namespace, *, default_duration: float, once_in: Path | None = None
) -> ClusterOptions:
    """Cluster options from the flags; `once_in` is the directory of a temporary cluster."""
    pools = pools_of(arguments)
    name: str = getattr(arguments, "cluster_name", "")
    usual = state.cluster_directory(name, in_memory=arguments.in_memory)
    directory = (once_in or arguments.data_dir or usual).absolute()
    return ClusterOptions(
        directory=directory,
        name=name or (DEFAULT_NAME if once_in else name_of(directory)),
        durable=not arguments.in_memory and once_in is None,
        host=arguments.host,
        port=arguments.port,
        kubeconfig=arguments.kubeconfig.absolute() if arguments.kubeconfig else None,
        pools=pools
        or (parse_pools([4], []) if arguments.command == "run" and arguments.no_local_node else []),
        topology=topology_of(arguments),
        sim_duration=duration_of(arguments.sim_duration, default_duration),
        scheduler_conf=_scheduler_conf(arguments.scheduler_conf),
        admission_conf=_admission_conf(arguments.admission_conf),
        audit_log=arguments.audit_log,
        accounting_database=arguments.accounting_database,
        accounting_retention=_retention(arguments.accounting_retention),
        allow_egress=_egress(arguments.allow_egress),
        notify_allow=_notify_targets(arguments.notify_allow),
        kubelet_authority=_kubelet_authority(arguments.kubelet_certificate_authority),
        local=_local(arguments),
        pod_security=_pod_security(arguments),
        images=ImageOptions(_images(arguments.images), image_files),
    )


def _retention(text: str) -> float:
    try:
        return retention_of(text)
    except ValueError as error:
        raise CommandError(f"--accounting-retention {error}") from None


def name_of(directory: Path) -> str:
    """Name of a cluster that was not given one: `default`, `in-memory`, or the name of its directory."""
    if directory == state.cluster_directory(""):
        return DEFAULT_NAME
    if directory == state.cluster_directory("", in_memory=True):
        return "in-memory"
    return re.sub(r"[^a-z0-9]+", "-", directory.name.lower()).strip("-")[: state.LONGEST_NAME] or "cluster"


def read_documents(files: list[str]) -> list[Document]:
    """Every object of some manifest files."""
    try:
        documents = read_files(files)
    except FileError as error:
        raise CommandError(str(error)) from None
    if files and not documents:
        raise CommandError(f"no objects in {', '.join(files)}")
    return documents


def pools_of(arguments: argparse.Namespace) -> list[Pool]:
    """Simulated nodes from --nodes and --node."""
    try:
        return parse_pools(arguments.nodes, arguments.node)
    except PoolError as error:
        raise UsageError(str(error)) from None


def topology_of(arguments: argparse.Namespace) -> Topology:
    """The topology of the simulated nodes."""
    if not arguments.topology:
        return Topology()
    if not arguments.nodes and not arguments.node:
        text = "--topology: there are no simulated nodes to group; add such as --nodes 64"
        raise UsageError(text)
    try:
        return parse_topology(arguments.topology)
    except PoolError as error:
        raise UsageError(str(error)) from None


def duration_of(text: str | None, default: float) -> float:
    """Seconds that simulated pods run."""
    if text is None:
        return default
    if text in ("forever", "inf"):
        return float("inf")
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--sim-duration: {error}; such as 5s, 2m or forever") from None


def _pod_security(arguments: argparse.Namespace) -> PodSecurityConfiguration:
    shared_host = arguments.command == "up" and not arguments.no_local_node
    with value_of("--pod-security", ConfigurationError):
        return pod_security(arguments.pod_security, shared_host=shared_host)


def _kubelet_authority(source: str | None) -> str | None:
    if source is None or source == CLUSTER_AUTHORITY:
        return source
    option = "--kubelet-certificate-authority"
    try:
        text = Path(source).read_text("ascii", "replace")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(f"{option}: cannot read {source}: {reason}") from None
    if not is_certificate(text.encode("ascii", "replace")):
        raise UsageError(f"{option}: {source} contains no certificate in PEM form")
    return text


def _notify_targets(targets: list[str]) -> tuple[str, ...]:
    with value_of("--notify-allow"):
        Targets(targets)
    return tuple(targets)


def _egress(targets: list[str]) -> tuple[str, ...]:
    with value_of("--allow-egress"):
        AllowedTargets.parse(targets)
    return tuple(targets)


def _local(arguments: argparse.Namespace) -> LocalNodeOptions:
    """Nodes of this host: one, unless another number or none is requested."""
    if arguments.local_nodes < 1:
        raise UsageError(
            f"--local-nodes: must be 1 or more (got {arguments.local_nodes}); use --no-local-node for none",
        )
    nodes = 0 if arguments.no_local_node else arguments.local_nodes
    if arguments.share_gpus and nodes and not arguments.fake_gpus and not has_gpus():
        raise UsageError(
            "--share-gpus: this machine has no NVIDIA GPU; --fake-gpus N adds some that exist only for the scheduler",
        )
    return LocalNodeOptions(
        nodes,
        arguments.runtime,
        arguments.fake_gpus,
        arguments.share_gpus,
        dra=arguments.dra,
        keep_logs=arguments.command == "run",
        pod_network=_pod_network(arguments),
        cpu_manager_policy=arguments.cpu_manager_policy,
        topology_manager_policy=arguments.topology_manager_policy,
    )


def _pod_network(arguments: argparse.Namespace) -> str:
    chosen: str = arguments.pod_network or os.environ.get(POD_NETWORK_VARIABLE, "")
    if chosen and chosen not in POD_NETWORKS:
        raise UsageError(
            f"{POD_NETWORK_VARIABLE}: {chosen!r} is unknown; choose from {', '.join(POD_NETWORKS)}"
        )
    return chosen or (NAT if _is_loopback(arguments.host) else NO_NETWORK)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _images(path: Path | None) -> str | None:
    """The text of an image map."""
    if path is None:
        return None
    try:
        text = path.read_text()
        parse_image_map(text, str(path))
    except OSError as error:
        raise UsageError(f"--images: {explain_os_error(error, str(path))}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--images: {path}: not a text file; an image map is YAML") from None
    except ImageMapError as error:
        raise UsageError(f"--images: {error}") from None
    return text


def _scheduler_conf(chosen: str) -> str | None:
    try:
        return checked(chosen) if chosen else None
    except ConfigError as error:
        raise CommandError(f"--scheduler-conf: {error}") from None


def _admission_conf(path: Path | None) -> Path | None:
    """The file of resource groups; it is read again when it changes."""
    if path is None:
        return None
    try:
        GroupsFile(path)
    except OSError as error:
        raise UsageError(f"--admission-conf {explain_os_error(error, str(path))}") from None
    except ValueError as error:
        raise UsageError(f"--admission-conf {path}: {error}") from None
    return path.absolute()
