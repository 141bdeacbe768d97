"""Flags of `volcano` that several commands share: clusters, nodes and output."""

import argparse
from pathlib import Path

from volcano.cli.program_parser import whole_number
from volcano.cli.volcano.notifications import add_target_flag
from volcano.embedded.state import LONGEST_NAME, NAME
from volcano.kube.devices.numa.assignment import CPU_MANAGER_POLICIES, NONE, POLICIES


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="output format")


def add_operator_flag(parser: argparse.ArgumentParser) -> None:
    """Adds `--operator`."""
    parser.add_argument(
        "--operator",
        action="append",
        default=[],
        metavar="NAME",
        help="apply the operator of an installed framework first, such as argo or kuberay (see `volcano frameworks "
        "list`), and the files when it is available; repeatable",
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that select an existing cluster."""
    group = parser.add_mutually_exclusive_group()
    _add_name(group, "name of the cluster (default: the default one, or the only one that runs)")
    group.add_argument("--data-dir", type=Path, metavar="DIR", help="data directory of the cluster")


def add_cluster_flags(parser: argparse.ArgumentParser, *, named: bool = True) -> None:
    """Adds the flags of a new cluster; a temporary one has no name."""
    if named:
        _add_name(parser, "name of the cluster; several run side by side, each as context volcano-NAME")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="data directory (default: ~/.local/share/volcano)"
    )
    place.add_argument("--in-memory", action="store_true", help="store nothing on disk")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default 127.0.0.1)"
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=0,
        help="port to listen on (default: that of the last start, or a free one)",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="add the cluster to this kubeconfig, such as ~/.kube/config, and make it the current context; "
        "`volcano down` removes it (default: a file in the data directory)",
    )
    add_node_flags(parser)
    _add_local_node_flags(parser)
    parser.add_argument(
        "--scheduler-conf",
        default="",
        metavar="NAME|FILE",
        help="scheduler configuration: a preset (default, preempt or reservation) or a file",
    )
    parser.add_argument(
        "--pod-security",
        metavar="LEVEL|FILE",
        help="level of the Pod Security Standards that pods must meet in namespaces without labels: privileged, "
        "baseline or restricted, or a PodSecurityConfiguration file (default: baseline for `up` with local nodes)",
    )
    parser.add_argument(
        "--admission-conf",
        type=Path,
        metavar="FILE",
        help="resource groups, which assign pods to schedulers and nodes",
    )
    parser.add_argument(
        "--audit-log", type=Path, metavar="FILE", help="write an audit line for every request"
    )
    parser.add_argument(
        "--accounting-database",
        default="",
        metavar="URL",
        help="database of pod runs, such as postgresql://user@host/name, or `none` (default: SQLite in the data "
        "directory)",
    )
    parser.add_argument(
        "--accounting-retention",
        default="400d",
        metavar="DURATION",
        help="time for which each pod run is kept; after that, sums of months are (default 400d)",
    )
    parser.add_argument(
        "--allow-egress",
        action="append",
        default=[],
        metavar="TARGET",
        help="let webhooks and proxies of the API server connect to TARGET, an address, network (CIDR), host name "
        "or `all`; repeatable (default: only to loopback addresses and pods on local nodes)",
    )
    add_target_flag(parser)
    parser.add_argument(
        "--kubelet-certificate-authority",
        metavar="FILE|cluster",
        help="verify the certificates of kubelets on other machines with the CA in FILE, or with the cluster's own "
        "(default: not verified)",
    )


def add_node_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of simulated nodes."""
    parser.add_argument(
        "--nodes",
        type=whole_number,
        action="append",
        default=[],
        metavar="N",
        help="number of simulated nodes; repeatable, once per shape",
    )
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="SHAPE",
        help="shape of the nodes from the matching --nodes, such as cpu=32,memory=128Gi,nvidia.com/gpu=8; also "
        "label:zone=a, taint:gpu=true:NoSchedule, name=gpu, count=4, numa=2, "
        "topology-policy=restricted and dra=gpu.example.com:8 (devices for resource claims)",
    )
    parser.add_argument(
        "--topology",
        default="",
        metavar="TIERS",
        help="group the simulated nodes into HyperNodes, lowest tier first: rack=8,spine=4 for racks of 8 nodes and "
        "spines of 4 racks",
    )
    parser.add_argument(
        "--sim-duration",
        metavar="DURATION",
        help="time that simulated pods run, such as 5s, 2m or forever (default: forever; 5s in `volcano run`)",
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; repeatable")


def _add_name(parser: "argparse._ActionsContainer", text: str) -> None:
    parser.add_argument("--name", dest="cluster_name", type=_name, default="", metavar="NAME", help=text)


def _add_local_node_flags(parser: argparse.ArgumentParser) -> None:
    local = parser.add_mutually_exclusive_group()
    local.add_argument(
        "--local-nodes",
        type=whole_number,
        default=1,
        metavar="N",
        help="number of nodes into which this host is divided (default 1)",
    )
    local.add_argument("--no-local-node", action="store_true", help="run no pods on this host")
    parser.add_argument(
        "--runtime",
        default="auto",
        choices=("auto", "netns", "userns", "plain", "podman", "docker"),
        help="how pods run on this host (default auto: the first of netns, userns and plain that is available)",
    )
    parser.add_argument(
        "--pod-network",
        choices=("nat", "none"),
        help="networks that pods of netns and userns reach: `nat`, those that this host reaches, without the "
        "host itself; `none`, only other pods (default: $VOLCANO_POD_NETWORK, or nat if --host is a loopback "
        "address)",
    )
    parser.add_argument(
        "--images",
        type=Path,
        metavar="FILE",
        help="image map: directories, entry point, environment and user that stand for images on runtimes that pull "
        "none (netns, userns, plain); kept as ConfigMap volcano-image-map in volcano-system, beside the maps of "
        "installed frameworks",
    )
    parser.add_argument(
        "--fake-gpus",
        type=whole_number,
        default=0,
        metavar="N",
        help="number of fake GPUs on this host, for tests",
    )
    allocation = parser.add_mutually_exclusive_group()
    allocation.add_argument(
        "--share-gpus",
        type=whole_number,
        default=0,
        metavar="N",
        help="let up to N containers share each GPU of this host, by the resources volcano.sh/vgpu-number, -memory "
        "and -cores, instead of allocating whole ones",
    )
    parser.add_argument(
        "--cpu-manager-policy",
        choices=CPU_MANAGER_POLICIES,
        default=NONE,
        help="`static` gives whole CPUs of this host to containers of Guaranteed pods for their own (default none)",
    )
    parser.add_argument(
        "--topology-manager-policy",
        choices=POLICIES,
        default=NONE,
        help="from how many NUMA nodes of this host those CPUs may come (default none)",
    )
    allocation.add_argument(
        "--dra",
        action="store_true",
        help="publish the GPUs of this host as ResourceSlices for resource claims (device classes gpu.nvidia.com and "
        "mig.nvidia.com), instead of as numbers",
    )


def _name(text: str) -> str:
    if text and (not NAME.fullmatch(text) or len(text) > LONGEST_NAME):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name: up to {LONGEST_NAME} lower-case letters, digits and dashes"
        )
    return text


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65535, or 0 for a free one")
    return int(text)
