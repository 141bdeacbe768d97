"""`volcano`: a whole cluster in one process, and jobs on a temporary one."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from volcano import __version__

FAILED, USAGE = 1, 2
MAINTENANCE = ("backup", "restore", "check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        return _carry_out(parsed)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130


def _carry_out(parsed: argparse.Namespace) -> int:
    # Imported late so that `volcano --help` does not import numpy.
    from volcano.entry import commands, maintenance

    module = maintenance if parsed.command in MAINTENANCE else commands
    command: Callable[[argparse.Namespace], int] = getattr(module, parsed.command)
    try:
        return command(parsed)
    except commands.CommandError as error:
        print(f"volcano: {error}", file=sys.stderr)
        return error.code


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="volcano", description="A batch system for Kubernetes, in one process."
    )
    parser.add_argument("--version", action="version", version=f"volcano {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    up = _command(commands, "up", "start a cluster and stay (or return when it is ready, with --detach)")
    _cluster_options(up)
    up.add_argument(
        "-f", "--filename", action="append", default=[], metavar="FILE", help="apply FILE at start"
    )
    up.add_argument("--detach", action="store_true", help="return as soon as the cluster is ready")
    run = _command(commands, "run", "start a throw-away cluster, apply FILEs, follow their jobs to the end")
    _cluster_options(run)
    run.add_argument("files", nargs="+", metavar="FILE", help="manifests to run; `-` is standard input")
    run.add_argument("--timeout", default="10m", help="give up after this long (default 10m)")
    run.add_argument("-o", "--output", choices=("table", "json"), default="table")
    down = _command(commands, "down", "stop a running cluster and its pods")
    _directory_option(down)
    down.add_argument(
        "--keep-pods", action="store_true", help="let pods run on, for the next `volcano up` to take over"
    )
    status = _command(commands, "status", "show the running cluster")
    _directory_option(status)
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    _maintenance_commands(commands)
    config = _command(commands, "config", "check a scheduler configuration file")
    config.add_argument("action", choices=("validate",))
    config.add_argument(
        "file", metavar="FILE", help="a scheduler configuration, or a ConfigMap that holds one"
    )
    nodes = _command(commands, "nodes", "simulate nodes for another API server, such as a real one")
    nodes.add_argument(
        "--kubeconfig", default="", help="the API server to register with (default: as kubectl's)"
    )
    nodes.add_argument("--context", default="", help="the kubeconfig's context to use")
    _node_options(nodes)
    _command(commands, "demo", "run gangs on this host and on simulated nodes, and watch them take turns")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=name)
    return parser


def _maintenance_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    backup = _command(
        commands, "backup", "write a cluster's objects and keys to a file, while it may be running"
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="the file to write, such as cluster.tar.gz")
    _directory_option(backup)
    backup.add_argument("--force", action="store_true", help="replace FILE if it exists")
    restore = _command(commands, "restore", "restore a backup to a new or stopped data directory")
    restore.add_argument("file", type=Path, metavar="FILE", help="a file that `volcano backup` has written")
    _directory_option(restore)
    restore.add_argument("--force", action="store_true", help="replace the store and keys of the directory")
    check = _command(commands, "check", "check a data directory or a backup for damage")
    check.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="a backup (default: the data directory)"
    )
    _directory_option(check)
    check.add_argument(
        "--salvage", type=Path, metavar="DIR", help="write what is intact to a new data directory DIR"
    )
    check.add_argument("-o", "--output", choices=("table", "json"), default="table")


def _directory_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="the cluster's data directory")


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where the cluster lives (default: your data folder)"
    )
    place.add_argument("--in-memory", action="store_true", help="keep nothing on disk")
    parser.add_argument("--host", default="127.0.0.1", help="listen on this address (default: loopback only)")
    parser.add_argument(
        "--port", type=_port, default=0, help="listen on this port (default: the last one, or a free one)"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="write the kubeconfig to FILE; other clusters that are in it stay",
    )
    _node_options(parser)
    _local_node_options(parser)
    parser.add_argument("--scheduler-conf", type=Path, metavar="FILE", help="scheduler configuration")
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
        "--allow-egress",
        action="append",
        default=[],
        metavar="TARGET",
        help="let webhooks and proxies of the API server connect to TARGET, an address, network (CIDR), host name "
        "or `all`; repeatable (default: only to loopback addresses and pods on local nodes)",
    )
    parser.add_argument(
        "--kubelet-certificate-authority",
        metavar="FILE|cluster",
        help="verify the certificates of kubelets on other machines with the CA in FILE, or with the cluster's own "
        "(default: not verified)",
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65535, or 0 for a free one")
    return int(text)


def _local_node_options(parser: argparse.ArgumentParser) -> None:
    local = parser.add_mutually_exclusive_group()
    local.add_argument(
        "--local-nodes", type=int, default=1, metavar="N", help="split this host into N nodes (default 1)"
    )
    local.add_argument(
        "--no-local-node", action="store_true", help="run nothing on this host: only simulated nodes"
    )
    parser.add_argument(
        "--runtime",
        default="auto",
        choices=("auto", "netns", "userns", "plain", "podman", "docker"),
        help="how pods run on this host (default auto: the first of netns, userns and plain that is possible)",
    )
    parser.add_argument(
        "--pod-network",
        choices=("nat", "none"),
        help="other networks that pods in netns and userns reach: `nat`, those that this host reaches, without the "
        "host itself; `none` (default: $VOLCANO_POD_NETWORK, or nat if --host is a loopback address)",
    )
    parser.add_argument(
        "--fake-gpus", type=int, default=0, metavar="N", help="pretend that this host has N GPUs"
    )


def _node_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", type=int, action="append", default=[], metavar="N", help="simulate N nodes; repeatable"
    )
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="SPEC",
        help="what the nodes of the --nodes at the same place are like: cpu=32,memory=128Gi,nvidia.com/gpu=8,"
        "label:zone=a,taint:gpu=true:NoSchedule,name=gpu,count=4",
    )
    parser.add_argument(
        "--sim-duration", metavar="D", help="how long simulated pods run (default: for ever; 5s in run)"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; repeatable")


if __name__ == "__main__":
    sys.exit(main())
