"""`volcano run` and `volcano demo`: manifests on a temporary cluster, followed to the end."""

import argparse
import asyncio
import json
import logging
import signal
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from rich.console import Console

from volcano.apiserver.storage.data_directory import DataDirectoryError
from volcano.base import log
from volcano.base.clock import SystemClock
from volcano.cli.errors import CommandError, value_of
from volcano.cli.volcano.framework.operators import operator_documents
from volcano.cli.volcano.settings import cluster_options, read_documents
from volcano.cli.volcano.start_errors import start_error
from volcano.embedded import state
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import Document, FileError
from volcano.embedded.log_tail import LogTail
from volcano.embedded.operators import apply_with_operators
from volcano.embedded.options import ClusterOptions
from volcano.embedded.progress import ProgressRow, ProgressWatcher, table_of, tracked
from volcano.embedded.temporary_directory import temporary_directory
from volcano.kube.api.duration import parse as parse_duration
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest
from volcano.nodes.runtimes.probe import RuntimeNotAvailable

RUN_DURATION = 5.0
DEMO_WITHIN = 120.0
WIDE = 200


def run(arguments: argparse.Namespace) -> int:
    """Runs manifest files on a temporary cluster; returns 0 only if every job completed."""
    with value_of("--timeout"):
        timeout = parse_duration(arguments.timeout)
    operators, documents = operator_documents(arguments.operator), read_documents(arguments.files)
    with nullcontext() if arguments.data_dir else temporary_directory() as directory:
        settings = cluster_options(arguments, default_duration=RUN_DURATION, once_in=directory)
        work = _run(settings, operators, documents, timeout, arguments.output, arguments.verbose)
        return asyncio.run(work)


async def _run(
    settings: ClusterOptions,
    operators: list[Document],
    documents: list[Document],
    timeout: float,
    output: str,
    verbose: int,
) -> int:
    log.configure(logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.ERROR)
    console = _console(stderr=output == "json")
    if (task := asyncio.current_task()) is not None:  # clean up on SIGTERM as after Ctrl-C
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    cluster = LocalCluster(settings)
    try:
        await cluster.start()
        applied = await apply_with_operators(cluster, operators, documents)
        kinds = {(s.kind.api_version, s.kind.kind): s.kind for s in cluster.registry.kinds}
        targets = tracked(applied, kinds)
        console.print(_applied_in_words(len(applied), len(targets)), highlight=False)
        tail = _tail(cluster, console)
        see = tail.add_pod if tail is not None else _ignore_pod
        follower = ProgressWatcher(
            cluster.client,
            SystemClock(),
            targets,
            on_pod=lambda pod: _follow_local_pod(cluster, see, pod),
            served=kinds.values(),
        )
        rows = await follower.follow(timeout=timeout, console=console, quiet=output == "json")
        if tail is not None:
            await tail.close()
    except (FileError, DataDirectoryError, state.DirectoryError, RuntimeNotAvailable, OSError) as error:
        raise CommandError(start_error(error, settings)) from None
    finally:
        await cluster.stop()
    return _conclude(rows, output, console, timeout)


def _applied_in_words(applied: int, followed: int) -> str:
    what = f"applied {applied} object{'s' if applied != 1 else ''}"
    return (
        f"{what}, following {followed}" if followed else f"{what}; none of them is a job or a pod to follow"
    )


def _tail(cluster: LocalCluster, console: Console) -> LogTail | None:
    if cluster.local_nodes is None:
        return None
    find = partial(cluster.registry.lookup.find, POD)
    return LogTail(cluster.local_nodes.pods, find, cluster.clock, console)


def _ignore_pod(pod: Manifest) -> None:
    """Does nothing: simulated pods have no logs."""


def _follow_local_pod(cluster: LocalCluster, see: Callable[[Manifest], None], pod: Manifest) -> None:
    """Follows the log of a pod that runs on this host."""
    if cluster.local_nodes is not None and cluster.local_nodes.is_real(pod):
        see(pod)


def _console(*, stderr: bool = False) -> Console:
    """Console as wide as the terminal; in a file or pipe, wide enough for a whole row."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDE)


def _conclude(rows: list[ProgressRow], output: str, console: Console, timeout: float) -> int:
    if output == "json":
        print(
            json.dumps(
                {"jobs": [row.as_json() for row in rows], "completed": all(row.good for row in rows)},
                indent=2,
            )
        )
    elif rows:
        console.print(table_of(rows))
    late = [row for row in rows if not row.over]
    if late:
        names = ", ".join(f"{row.namespace}/{row.name} ({row.phase})" for row in late)
        raise CommandError(f"not finished within {timeout:.0f} s: {names}")
    if all(row.good for row in rows):
        return 0
    return next((row.exit_code for row in rows if row.exit_code), 1)


def demo(arguments: argparse.Namespace) -> int:
    """Runs a gang on this host, one that waits for resources, and one on simulated GPU nodes."""
    from volcano.cli.volcano.demo import INTRODUCTION, manifests, next_steps, settings

    print(INTRODUCTION)
    with temporary_directory() as directory:
        code = asyncio.run(_run(settings(directory), [], manifests(), DEMO_WITHIN, "table", 0))
    print(next_steps())
    return code
