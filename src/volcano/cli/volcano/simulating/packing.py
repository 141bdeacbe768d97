"""`volcano simulate --experiment packing`."""

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from volcano.cli.errors import INTERRUPTED, UsageError
from volcano.cli.volcano.simulating.flags import format_of
from volcano.simulate.loaders import load, load_nodes
from volcano.simulate.packing.experiment import Packed, run_policies
from volcano.simulate.packing.policies import ABLATIONS, POLICIES


def run_experiment(arguments: argparse.Namespace) -> int:
    """Prints one result per policy; Ctrl-C ends the experiment with those so far."""
    if arguments.trace is None or not arguments.nodes:
        raise UsageError("--experiment packing needs --nodes FILE and --trace FILE")
    known = {**POLICIES, **ABLATIONS}
    unknown = next((name for name in arguments.policy if name not in known), "")
    if unknown:
        raise UsageError(f"--policy: no policy {unknown!r}; choose from {', '.join(known)}")
    if not arguments.seeds:
        raise UsageError("--seeds: give at least 1")
    workload = load(arguments.trace, format_of(arguments), arguments.seed)
    nodes = [node for text in arguments.nodes for node in load_nodes(text)]
    trace = arguments.trace.stem.removeprefix("openb_pod_list_")
    results: list[Packed] = []
    interrupted = False
    try:
        for result in run_policies(
            arguments.policy or list(POLICIES), nodes, workload.jobs, trace, arguments.seeds
        ):
            results.append(result)
            if sys.stderr.isatty() and not arguments.no_progress:
                print(f"{result.policy}: done", file=sys.stderr)
    except KeyboardInterrupt:
        interrupted = True
    _print(results, arguments.output)
    return INTERRUPTED if interrupted else 0


def _print(results: list[Packed], output: str) -> None:
    if output == "json":
        print(json.dumps([result.as_json() for result in results], indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for name in ("POLICY", "TRACE", "SEEDS", "AT 100 %", "AT END", "PLACEMENTS/S"):
        table.add_column(name, justify="left" if name in ("POLICY", "TRACE") else "right")
    for result in results:
        table.add_row(
            result.policy,
            result.trace,
            str(result.seeds),
            f"{result.at_100_percent:.2f}",
            f"{result.at_end_percent:.2f}",
            f"{result.placements_per_s:.0f}",
        )
    Console().print(table)
