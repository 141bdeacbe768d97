"""`volcano up`, `down` and `nodes`: clusters that stay, and simulated nodes of other clusters."""

import argparse
import asyncio
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from volcano import __version__
from volcano.apiserver.storage.data_directory import DataDirectoryError
from volcano.base import log
from volcano.base.clock import timestamp
from volcano.base.http.tls_context import open_private
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.volcano.dashboard.child import DashboardProcess, dashboard_url
from volcano.cli.volcano.dashboard.of_cluster import dashboard_line, link_line, start_dashboard
from volcano.cli.volcano.framework.operators import operator_documents
from volcano.cli.volcano.settings import cluster_options, duration_of, pools_of, read_documents, topology_of
from volcano.cli.volcano.start_errors import start_error
from volcano.cli.volcano.status import find, nodes_in_words
from volcano.embedded import contexts, state
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import Document, FileError
from volcano.embedded.local_nodes import remove_leftovers
from volcano.embedded.operators import apply_with_operators
from volcano.embedded.options import ClusterOptions
from volcano.nodes.runtimes.probe import RuntimeNotAvailable
from volcano.services.errors import ServiceError

DETACHED_WITHIN = 30.0
STOPPED_WITHIN = 30.0


def up(arguments: argparse.Namespace) -> int:
    """Starts a cluster and runs until it is stopped."""
    settings = cluster_options(arguments, default_duration=float("inf"))
    running = state.find(settings.directory)
    if running is not None:
        raise CommandError(
            f"a cluster runs from {settings.directory} already, as process {running.pid} at {running.url}; "
            "`volcano down` stops it, `volcano up --name NAME` starts another one"
        )
    settings = _with_free_name(settings, chosen=bool(arguments.cluster_name))
    operators, documents = operator_documents(arguments.operator), read_documents(arguments.filename)
    if arguments.detach:
        return _detach(settings)
    return asyncio.run(_up(settings, operators, documents, arguments))


def _with_free_name(settings: ClusterOptions, *, chosen: bool) -> ClusterOptions:
    """Options with a name that no other running cluster has; a chosen name that is taken is an error."""
    others = {
        running.name: running.directory
        for running in contexts.running_clusters()
        if running.directory != str(settings.directory)
    }
    if chosen and settings.name in others:
        raise CommandError(
            f"--name: a cluster named {settings.name!r} runs already, from {others[settings.name]}; "
            "choose another name"
        )
    numbered = (f"{settings.name}-{number}" for number in itertools.count(2))
    free = settings.name if settings.name not in others else next(n for n in numbered if n not in others)
    return replace(settings, name=free)


async def _up(
    settings: ClusterOptions,
    operators: list[Document],
    documents: list[Document],
    arguments: argparse.Namespace,
) -> int:
    verbose: int = arguments.verbose
    stop: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.put_nowait, number)
    why: signal.Signals | None = None
    running: state.Running | None = None
    dashboard: DashboardProcess | None = None
    log.configure(logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.WARNING)
    cluster = LocalCluster(settings)
    started = time.monotonic()
    try:
        await cluster.start()
    except (DataDirectoryError, state.DirectoryError, RuntimeNotAvailable, OSError) as error:
        await cluster.stop(keep_pods=True)
        raise CommandError(start_error(error, settings)) from None
    try:
        await apply_with_operators(cluster, operators, documents)
        described = _describe(cluster)
        # Before the announcement: `volcano up --detach` waits for that, and prints the address.
        dashboard = start_dashboard(described, arguments)
        running = _announce(described, cluster)
        _introduce(running, time.monotonic() - started, dashboard_line(running, dashboard, arguments))
        if cluster.deleted_nodes:
            print(_deleted_in_words(len(cluster.deleted_nodes)), flush=True)
        why = await stop.get()
        print("stopping ...", file=sys.stderr)
    except FileError as error:
        raise CommandError(str(error)) from None
    finally:
        if dashboard is not None:
            await dashboard.stop()
        # SIGTERM may precede a restart: pods keep running, and `volcano down` ends them.
        await cluster.stop(keep_pods=why is signal.SIGTERM)
        if running is not None:
            contexts.remove(running)
            state.mark_ended(settings.directory)
        if not settings.durable:
            state.retract(settings.directory)
            if why is signal.SIGINT:  # keep the log after a failure
                shutil.rmtree(settings.directory, ignore_errors=True)
    return 0


def _describe(cluster: LocalCluster) -> state.Running:
    settings = cluster.options
    return state.Running(
        pid=os.getpid(),
        url=cluster.url,
        kubeconfig=str(cluster.kubeconfig),
        directory=str(settings.directory),
        durable=settings.durable,
        nodes=sum(pool.count for pool in settings.pools),
        local_nodes=settings.local.nodes,
        runtime=cluster.local_nodes.choice.name if cluster.local_nodes else "",
        started=timestamp(cluster.clock.now().wall),
        version=__version__,
        name=settings.name,
        context=settings.context,
        previous_context=cluster.previous_context,
    )


def _announce(running: state.Running, cluster: LocalCluster) -> state.Running:
    state.announce(running)
    contexts.add(running, cluster.credentials)
    return running


def _introduce(running: state.Running, seconds: float, dashboard: str) -> None:
    where = running.directory if running.durable else "memory only"
    lines = (
        f"volcano {running.version} is up after {seconds:.2f} s",
        f"  API server   {running.url}",
        f"  dashboard    {dashboard}",
        f"  nodes        {nodes_in_words(running)}",
        f"  data         {where}",
        "  components   scheduler, controllers and admission, in namespace volcano-system",
        "",
        "To use it:",
        f"  export KUBECONFIG={running.kubeconfig}",
        "  kubectl get nodes",
        "  vcctl top",
        "",
        "Ctrl-C or `volcano down` stops it; `volcano status` shows its health, jobs and usage.",
    )
    print("\n".join(lines), flush=True)


def _deleted_in_words(count: int) -> str:
    nodes = "1 simulated node" if count == 1 else f"{count} simulated nodes"
    return f"{nodes} of an earlier start deleted: --nodes did not ask for {'it' if count == 1 else 'them'} this time"


def _detach(settings: ClusterOptions) -> int:
    """Starts the same command without --detach in a new session and waits until it is ready."""
    try:
        state.make_private(settings.directory)
    except state.DirectoryError as error:
        raise CommandError(str(error)) from None
    own = [argument for argument in sys.argv[1:] if argument != "--detach"]
    log_file = settings.directory / state.LOG_FILE
    with open_private(log_file) as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "volcano.cmd.volcano", *own],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACHED_WITHIN
    while time.monotonic() < deadline:
        running = state.find(settings.directory)
        if running is not None and running.pid == child.pid:
            print(f"volcano is up as process {child.pid} at {running.url}")
            print(f"export KUBECONFIG={running.kubeconfig}")
            if url := dashboard_url(running):
                print(f"dashboard: {link_line(running, url)}")
            return 0
        if child.poll() is not None:
            tail = log_file.read_text(errors="replace").strip().splitlines()[-5:]
            raise CommandError("the cluster did not start:\n" + "\n".join(tail))
        time.sleep(0.05)
    child.terminate()
    raise CommandError(f"the cluster was not ready within {DETACHED_WITHIN:.0f} s; its log is {log_file}")


def down(arguments: argparse.Namespace) -> int:
    """Stops a running cluster and its pods, unless they are kept."""
    try:
        running = find(arguments)
    except ServiceError as error:
        return _clear_up(arguments, error)
    if not state.end(running, within=STOPPED_WITHIN):
        raise CommandError(
            f"process {running.pid} still runs after {STOPPED_WITHIN:.0f} s; "
            f"`kill -9 {running.pid}` ends it, and `volcano down` then removes its pods"
        )
    contexts.remove(running)
    if not arguments.keep_pods:
        asyncio.run(remove_leftovers(Path(running.directory)))
        if not running.durable:
            shutil.rmtree(running.directory, ignore_errors=True)
    data = f"its data stays in {running.directory}" if running.durable else "it was in memory"
    print(f"stopped cluster {running.name}; {data}")
    return 0


def _clear_up(arguments: argparse.Namespace, not_running: ServiceError) -> int:
    """Removes the pods of a cluster that was killed, and its context."""
    if isinstance(not_running, UsageError):
        raise not_running
    name: str = arguments.cluster_name
    memory = state.cluster_directory(name, in_memory=True)
    places = (
        [arguments.data_dir.absolute()] if arguments.data_dir else [state.cluster_directory(name), memory]
    )
    removed: list[str] = []
    for place in places:
        removed += asyncio.run(remove_leftovers(place))
        contexts.forget(place)
        state.mark_ended(place)
    if memory in places and memory.exists():
        shutil.rmtree(memory, ignore_errors=True)
        removed.append(str(memory))
    if not removed:
        raise not_running
    print("no cluster runs; removed what an earlier one had left:")
    for what in removed:
        print(f"  {what}")
    return 0


def nodes(arguments: argparse.Namespace) -> int:
    """Simulates nodes on another API server until it is stopped."""
    from volcano.cli.volcano.simulation import simulate

    pools = pools_of(arguments)
    if not pools:
        raise UsageError("give a number of nodes, such as --nodes 100 --node cpu=32,memory=128Gi")
    duration = duration_of(arguments.sim_duration, float("inf"))
    topology = topology_of(arguments)
    return simulate(pools, topology, duration, arguments.kubeconfig, arguments.context, arguments.verbose)
