"""`volcano simulate`: runs configurations over a trace and reports them side by side."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from volcano.base.log import configure
from volcano.cli.errors import INTERRUPTED, CommandError, UsageError
from volcano.cli.volcano.configuration import read
from volcano.cli.volcano.simulating.flags import format_of
from volcano.cli.volcano.simulating.live import live_snapshot
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped
from volcano.simulate.engine import Settings
from volcano.simulate.faults import NodeFault, parse_faults, rack_faults, seconds_of
from volcano.simulate.loaders import load, load_nodes
from volcano.simulate.loaders.saved_cluster import read_snapshot
from volcano.simulate.objects import GpuSharing
from volcano.simulate.results.html_report import html_report
from volcano.simulate.results.series import series_document
from volcano.simulate.results.summary import table_rows
from volcano.simulate.runner import Runs, run_all, uses_vgpus
from volcano.simulate.whatif import add_nodes, scale_arrivals, set_value
from volcano.simulate.workload import SimNode, TraceError, Workload

WIDE = 200


def simulate(arguments: argparse.Namespace) -> int:
    """Runs the simulation or experiment of a command line."""
    configure(logging.ERROR)
    try:
        if arguments.experiment == "packing":
            from volcano.cli.volcano.simulating.packing import run_experiment

            return run_experiment(arguments)
        workload = _workload(arguments)
        return _simulate(arguments, workload)
    except (TraceError, ConfigError) as error:
        raise CommandError(str(error)) from None


def _simulate(arguments: argparse.Namespace, workload: Workload) -> int:
    configurations = _configurations(arguments, workload)
    with _ProgressBar(arguments, workload, [name for name, _ in configurations]) as shown:
        runs = run_all(workload, configurations, report=arguments.report, progress=shown.update)
    for note in workload.notes:
        print(f"note: {note}", file=sys.stderr)
    if arguments.report is not None:
        _write_report(arguments.report, workload, runs, arguments)
    if arguments.output == "json":
        print(json.dumps([run.summary.as_json() for run in runs.finished], indent=2))
    else:
        _print(runs)
        if arguments.report is not None:
            print(f"report: {arguments.report / 'report.html'}")
    if runs.interrupted:
        print("interrupted: the figures of the last configuration are partial", file=sys.stderr)
    return INTERRUPTED if runs.interrupted else 0


# -- inputs ----------------------------------------------------------------------------------------


def _workload(arguments: argparse.Namespace) -> Workload:
    run_time = seconds_of(arguments.run_time, "--run-time")
    if arguments.from_cluster:
        if arguments.trace is not None:
            raise UsageError("give --trace or --from-cluster, not both")
        data = live_snapshot(arguments.kubeconfig, arguments.context, shipped())
        workload = read_snapshot(data, "cluster", run_time)
    elif arguments.trace is None:
        raise UsageError("give --trace FILE or --from-cluster")
    else:
        workload = load(arguments.trace, format_of(arguments), arguments.seed, run_time)
    nodes = tuple(node for text in arguments.nodes for node in load_nodes(text))
    nodes = _distinct(nodes) or workload.nodes
    for text in arguments.add_nodes:
        nodes = add_nodes(nodes, text)
    if not nodes:
        raise UsageError("the trace has no nodes; give --nodes FILE or --nodes 100:cpu=32,memory=128Gi")
    if arguments.jobs:
        workload = replace(workload, jobs=workload.jobs[: arguments.jobs])
    workload = replace(workload, nodes=nodes).with_all_queues()
    for text in arguments.settings:
        workload = replace(workload, queues=set_value(workload.queues, text))
    return workload if arguments.scale_arrivals == 1 else scale_arrivals(workload, arguments.scale_arrivals)


def _distinct(nodes: Sequence[SimNode]) -> tuple[SimNode, ...]:
    names = [node.name for node in nodes]
    twice = (
        next((name for name in names if names.count(name) > 1), "") if len(set(names)) < len(names) else ""
    )
    if twice:
        raise UsageError(f"--nodes: two nodes are called {twice!r}; give shapes a name=")
    return tuple(nodes)


def _configurations(arguments: argparse.Namespace, workload: Workload) -> list[tuple[str, Settings]]:
    chosen: list[str] = arguments.config or ["default"]
    until = seconds_of(arguments.until, "--until") if arguments.until else float("inf")
    last = max((job.arrival for job in workload.jobs), default=0.0)
    faults = _faults(arguments, workload, min(until, last) if last else until)
    found: list[tuple[str, Settings]] = []
    for text in chosen:
        config = parse(read(text), text)
        for warning in config.warnings:
            print(f"warning: {text}: {warning}", file=sys.stderr)
        settings = Settings(
            config,
            seed=arguments.seed,
            period=seconds_of(arguments.period, "--period"),
            grace=seconds_of(arguments.grace, "--grace"),
            sharing=_sharing(arguments.gpu_sharing, config),
            faults=tuple(faults),
            until=until,
        )
        found.append((_name(text, [name for name, _ in found]), settings))
    return found


def _name(text: str, taken: Sequence[str]) -> str:
    name = Path(text).stem or text
    return name if name not in taken else f"{name}-{len(taken) + 1}"


def _sharing(chosen: str, config: Config) -> GpuSharing:
    if chosen == "auto":
        return GpuSharing.VGPU if uses_vgpus(config) else GpuSharing.DIVISIBLE
    return GpuSharing(chosen)


def _faults(arguments: argparse.Namespace, workload: Workload, end: float) -> list[NodeFault]:
    faults = [fault for text in arguments.kill_rack for fault in rack_faults(text, workload.nodes)]
    if arguments.faults:
        faults += parse_faults(arguments.faults, workload.nodes, end, arguments.seed)
    return faults


# -- output ----------------------------------------------------------------------------------------


class _ProgressBar:
    """Progress bar on standard error, unless that is no terminal or it is not wanted."""

    def __init__(self, arguments: argparse.Namespace, workload: Workload, names: Sequence[str]) -> None:
        hidden = arguments.no_progress or not sys.stderr.isatty()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} jobs"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True)
        self._tasks = {name: self._bar.add_task(name, total=max(len(workload.jobs), 1)) for name in names}

    def __enter__(self) -> "_ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, name: str, jobs: int, now: float) -> None:
        self._bar.update(self._tasks[name], completed=jobs, description=f"{name} ({now / 3600:.1f} h)")


def _print(runs: Runs) -> None:
    summaries = [run.summary for run in runs.finished]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for summary in summaries:
        table.add_column(summary.name, justify="right")
    for name, values in table_rows(summaries):
        table.add_row(name, *values)
    console = Console()
    (console if console.is_terminal else Console(width=WIDE)).print(table)
    for summary in summaries:
        for reason, count in list(summary.reasons.items())[:5]:
            print(f"{summary.name}: {count} jobs never started: {reason}")


def _write_report(directory: Path, workload: Workload, runs: Runs, arguments: argparse.Namespace) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    results = [(run.summary, run.recorder) for run in runs.finished]
    source = "a live cluster" if arguments.from_cluster else arguments.trace.name
    title = f"{source}: {len(workload.jobs)} jobs on {len(workload.nodes)} nodes"
    (directory / "report.html").write_text(html_report(title, results, workload.notes))
    document = [run.summary.as_json() for run in runs.finished]
    (directory / "summary.json").write_text(json.dumps(document, indent=2) + "\n")
    (directory / "series.json").write_text(json.dumps(series_document(title, results, workload.notes)) + "\n")
