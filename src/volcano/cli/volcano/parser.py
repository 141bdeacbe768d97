"""Parser of `volcano`: its commands, their flags and their help."""

import argparse
from functools import partial
from pathlib import Path

from volcano import __version__
from volcano.cli.program_parser import ProgramParser, examples
from volcano.cli.volcano.cluster_flags import (
    add_cluster_flags,
    add_node_flags,
    add_operator_flag,
    add_output,
    add_selection,
)
from volcano.cli.volcano.dashboard.flags import add_dashboard_flags, add_up_flags
from volcano.cli.volcano.framework.flags import add_framework_commands
from volcano.cli.volcano.help_examples import EXAMPLES
from volcano.cli.volcano.simulating.flags import add_connection, add_simulate_flags, add_snapshot_flags

# Module and function of each command. Modules are imported late, so that `volcano --help` does not import numpy.
COMMANDS = {
    "up": "commands:up",
    "down": "commands:down",
    "nodes": "commands:nodes",
    "run": "runs:run",
    "demo": "runs:demo",
    "status": "status:status",
    "list": "status:list_clusters",
    "config validate": "configuration:validate",
    "config show": "configuration:show",
    "config plan": "simulating.config_plan:plan",
    "examples list": "example_files:list_examples",
    "examples show": "example_files:show",
    "examples run": "example_files:run",
    "frameworks list": "framework.commands:list_frameworks",
    "frameworks install": "framework.commands:install_frameworks",
    "frameworks remove": "framework.commands:remove_frameworks",
    "frameworks path": "framework.commands:print_path",
    "backup": "maintenance:backup",
    "restore": "maintenance:restore",
    "check": "maintenance:check",
    "simulate": "simulating.command:simulate",
    "snapshot save": "simulating.live:save_snapshot",
    "dashboard": "dashboard.command:dashboard",
    "completion": "completion:print_script",
    "__complete": "completion:print_candidates",
}


def build_parser() -> ProgramParser:
    """Parser of all commands."""
    parser = ProgramParser(
        prog="volcano",
        description="A batch system for Kubernetes, in one process.",
        usage="%(prog)s COMMAND ...",
        epilog=examples(*EXAMPLES[""]),
    )
    parser.add_argument("--version", action="version", version=f"volcano {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", prog="volcano")
    _clusters(commands)
    _jobs(commands)
    frameworks = _group(
        commands, "frameworks", "install frameworks such as Spark and Ray for pods of this host"
    )
    add_framework_commands(partial(_command, frameworks))
    _maintenance(commands)
    _configuration(commands)
    nodes = _command(commands, "nodes", "simulate nodes for another API server, such as a real one")
    nodes.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="kubeconfig of the API server (default: as kubectl)"
    )
    nodes.add_argument("--context", default="", metavar="NAME", help="context of the kubeconfig")
    add_node_flags(nodes)
    add_dashboard_flags(
        _command(
            commands, "dashboard", "serve a web dashboard of a cluster, or print a link to a running one"
        )
    )
    add_simulate_flags(_command(commands, "simulate", "run a trace with the scheduler under a virtual clock"))
    snapshots = _group(commands, "snapshot", "save what the scheduler sees of a cluster")
    add_snapshot_flags(_command(snapshots, "snapshot save", "write a snapshot of a cluster to a file"))
    completion = _command(commands, "completion", "print the completion script of a shell")
    completion.add_argument(
        "shell", choices=("bash", "fish", "zsh"), metavar="SHELL", help="bash, zsh or fish"
    )
    hidden = commands.add_parser("__complete")
    hidden.set_defaults(command="__complete")
    hidden.add_argument("--program", default="volcano")
    hidden.add_argument("words", nargs="*")
    return parser


def _clusters(commands: "argparse._SubParsersAction[ProgramParser]") -> None:
    up = _command(commands, "up", "start a cluster, in the foreground or with --detach in the background")
    add_cluster_flags(up)
    add_operator_flag(up)
    add_up_flags(up)
    up.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="apply FILE at start; repeatable",
    )
    up.add_argument("--detach", action="store_true", help="return as soon as the cluster is ready")
    down = _command(commands, "down", "stop a running cluster and its pods")
    add_selection(down)
    down.add_argument(
        "--keep-pods", action="store_true", help="leave pods running; the next `volcano up` adopts them"
    )
    status = _command(
        commands, "status", "show the health, jobs and usage of a cluster; exit with 1 if it is unhealthy"
    )
    add_selection(status)
    add_output(status)
    add_output(_command(commands, "list", "list clusters, running or stopped"))


def _jobs(commands: "argparse._SubParsersAction[ProgramParser]") -> None:
    run = _command(commands, "run", "apply files on a temporary cluster and follow their jobs to the end")
    add_cluster_flags(run, named=False)
    add_operator_flag(run)
    run.add_argument("files", nargs="+", metavar="FILE", help="manifest files; `-` is standard input")
    run.add_argument(
        "--timeout", default="10m", metavar="DURATION", help="stop waiting after this time (default 10m)"
    )
    add_output(run)
    group = _group(commands, "examples", "list, print and run the examples of this package")
    _command(group, "examples list", "list the examples")
    show = _command(group, "examples show", "print an example file")
    show.add_argument("example", metavar="NAME", help="name, as `volcano examples list` prints it")
    example = _command(group, "examples run", "run an example on a temporary cluster")
    example.add_argument("example", metavar="NAME", help="name, as `volcano examples list` prints it")
    example.add_argument("run_flags", nargs="*", metavar="-- FLAG", help="flags of `volcano run`, after `--`")
    _command(commands, "demo", "run gangs on this host and on simulated nodes, and follow them")


def _maintenance(commands: "argparse._SubParsersAction[ProgramParser]") -> None:
    backup = _command(
        commands, "backup", "write the objects and keys of a cluster to a file; it may be running"
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="file to write, such as cluster.tar.gz")
    add_selection(backup)
    backup.add_argument("--force", action="store_true", help="replace FILE if it exists")
    restore = _command(commands, "restore", "restore a backup to a new or stopped data directory")
    restore.add_argument("file", type=Path, metavar="FILE", help="backup file")
    add_selection(restore)
    restore.add_argument("--force", action="store_true", help="replace the store and keys of the directory")
    check = _command(commands, "check", "check a data directory or a backup for damage")
    check.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="backup file (default: check the data directory)"
    )
    add_selection(check)
    check.add_argument(
        "--salvage", type=Path, metavar="DIR", help="write the intact objects to a new data directory DIR"
    )
    add_output(check)


def _configuration(commands: "argparse._SubParsersAction[ProgramParser]") -> None:
    group = _group(commands, "config", "validate, show and plan scheduler configurations")
    validate = _command(group, "config validate", "report all errors of a scheduler configuration")
    validate.add_argument(
        "file",
        metavar="FILE",
        help="configuration file, ConfigMap file that contains one, or name of a preset",
    )
    add_output(validate)
    show = _command(group, "config show", "print a configuration preset, or the names of all")
    show.add_argument("preset", nargs="?", default="", metavar="NAME", help="default, preempt or reservation")
    plan = _command(group, "config plan", "show what another configuration would do in a live cluster")
    plan.add_argument(
        "file",
        metavar="FILE",
        help="configuration file, ConfigMap file that contains one, or name of a preset",
    )
    source = plan.add_argument_group("cluster")
    add_connection(source)
    source.add_argument(
        "--snapshot", default="", metavar="FILE", help="plan for the cluster in a snapshot file instead"
    )
    add_output(plan)


def _group(
    commands: "argparse._SubParsersAction[ProgramParser]", name: str, text: str
) -> "argparse._SubParsersAction[ProgramParser]":
    parser = commands.add_parser(
        name,
        help=text,
        description=_sentence(text),
        usage="%(prog)s COMMAND ...",
        epilog=examples(*EXAMPLES[name]),
    )
    return parser.add_subparsers(title="commands", required=True, metavar="COMMAND", prog=f"volcano {name}")


def _command(commands: "argparse._SubParsersAction[ProgramParser]", words: str, text: str) -> ProgramParser:
    leaf = words.rpartition(" ")[2]
    parser = commands.add_parser(
        leaf, help=text, description=_sentence(text), epilog=examples(*EXAMPLES[words])
    )
    parser.set_defaults(command=words)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
