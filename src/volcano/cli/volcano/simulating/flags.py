"""Flags of `volcano simulate` and `volcano snapshot save`."""

import argparse
from pathlib import Path

from volcano.cli.errors import UsageError
from volcano.cli.program_parser import ProgramParser, whole_number
from volcano.cli.volcano.cluster_flags import add_output

FORMATS = (
    "openb",
    "swf",
    "slurm",
    "philly",
    "helios",
    "acme",
    "pai",
    "yaml",
    "snapshot",
)  # as the loaders have them

SUFFIXES = {".swf": "swf", ".yaml": "yaml", ".yml": "yaml", ".snapshot": "snapshot"}


def format_of(arguments: argparse.Namespace) -> str:
    """The format that was given, or the one that the name of the file tells."""
    chosen: str = arguments.format or SUFFIXES.get(arguments.trace.suffix, "")
    if not chosen:
        raise UsageError(f"{arguments.trace}: the name does not tell the format; give --format")
    return chosen


def add_simulate_flags(parser: ProgramParser) -> None:
    """Adds all flags of `volcano simulate`."""
    inputs = parser.add_argument_group("inputs")
    inputs.add_argument(
        "--trace", type=Path, metavar="FILE", help="jobs: a trace, a workload file or a saved snapshot"
    )
    inputs.add_argument("--format", choices=FORMATS, default="", metavar="FORMAT", help=_formats())
    inputs.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="FILE|N:SHAPE",
        help="nodes: a CSV or workload file, or a number and a shape such as 100:cpu=32,memory=128Gi,nvidia.com/gpu=8; "
        "repeatable",
    )
    inputs.add_argument(
        "--from-cluster", action="store_true", help="start from the nodes, queues and jobs of a live cluster"
    )
    add_connection(inputs)
    inputs.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE|NAME",
        help="scheduler configuration or preset (default, preempt or reservation); repeatable, over the same trace",
    )
    _add_run_flags(parser.add_argument_group("simulation"))
    _add_what_if_flags(parser.add_argument_group("what if"))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="write report.html, summary.json, series.json and a CSV of jobs per configuration",
    )
    output.add_argument("--no-progress", action="store_true", help="show no progress bar")
    add_output(parser)
    experiment = parser.add_argument_group("experiments")
    experiment.add_argument(
        "--experiment",
        choices=("packing",),
        metavar="NAME",
        help="packing: fill the nodes with GPUs with pods in random order and compare placement policies",
    )
    experiment.add_argument(
        "--seeds", type=whole_number, default=10, metavar="N", help="orders to try (default 10)"
    )
    experiment.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME",
        help="only this policy; repeatable (default: all)",
    )


def _formats() -> str:
    return f"format of the trace: {', '.join(FORMATS)} (default: by the name of the file)"


def _add_run_flags(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--seed", type=whole_number, default=0, metavar="N", help="seed of everything random (default 0)"
    )
    group.add_argument("--jobs", type=whole_number, default=0, metavar="N", help="only the first N jobs")
    group.add_argument(
        "--until",
        default="",
        metavar="DURATION",
        help="end after this virtual time (default: when nothing is left)",
    )
    group.add_argument(
        "--period",
        default="0s",
        metavar="DURATION",
        help="shortest time between two cycles (default: as the scheduler, soon after a change)",
    )
    group.add_argument(
        "--grace", default="1s", metavar="DURATION", help="time that an evicted pod takes to end (default 1s)"
    )
    group.add_argument(
        "--run-time",
        default="1h",
        metavar="DURATION",
        help="run time of pods whose trace has none: a snapshot or a live cluster (default 1h)",
    )
    group.add_argument(
        "--gpu-sharing",
        choices=("auto", "vgpu", "divisible"),
        default="auto",
        help="fractions of GPUs as vGPU cores (needs the plugin deviceshare), or as parts of nvidia.com/gpu "
        "(default auto: vgpu if the configuration has deviceshare)",
    )


def _add_what_if_flags(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--add-nodes",
        action="append",
        default=[],
        metavar="N:KIND",
        help="more nodes: of a GPU model, like a node, or of a shape, such as 10:a100; repeatable",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="change a queue, such as queue.research.weight=4 or queue.research.capability.cpu=100; repeatable",
    )
    group.add_argument(
        "--scale-arrivals",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="jobs arrive FACTOR times as often",
    )
    group.add_argument(
        "--kill-rack",
        action="append",
        default=[],
        metavar="RACK@TIME",
        help="the nodes with the label value RACK fail, for an hour or as in rack-3@2h+30m; repeatable",
    )
    group.add_argument(
        "--faults",
        default="",
        metavar="SPEC|FILE",
        help="nodes fail at random, such as mtbf=30d,mttr=2h, or as a CSV file with time, node and duration says",
    )


def add_snapshot_flags(parser: ProgramParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write, such as cluster.snapshot")
    add_connection(parser)
    parser.add_argument(
        "--config",
        default="",
        metavar="FILE|NAME",
        help="scheduler configuration to save with it (default: default)",
    )


def add_connection(parser: "argparse._ActionsContainer") -> None:
    """Adds the flags that choose a cluster."""
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="kubeconfig of the cluster (default: as kubectl)"
    )
    parser.add_argument("--context", default="", metavar="NAME", help="context of the kubeconfig")
