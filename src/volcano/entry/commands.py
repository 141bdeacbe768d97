"""Commands of `volcano`."""

import argparse
import asyncio
import ipaddress
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from volcano import __version__, log
from volcano.admission.resourcegroups import GroupsFile
from volcano.apiserver.admission.podsecurity.policy import ConfigurationError, PodSecurityConfiguration
from volcano.apiserver.storage.data_directory import DataDirectoryError
from volcano.clock import SystemClock, timestamp
from volcano.entry.configuration import checked
from volcano.entry.pod_security import pod_security
from volcano.kube.duration import parse as parse_duration
from volcano.kube.kinds import POD
from volcano.kube.manifest import Manifest
from volcano.local import state
from volcano.local.cluster import LocalCluster
from volcano.local.files import Document, FileError, read_files
from volcano.local.local_nodes import remove_leftovers
from volcano.local.log_tail import LogTail
from volcano.local.options import CLUSTER_AUTHORITY, ClusterOptions, LocalNodeOptions
from volcano.local.progress import ProgressRow, ProgressWatcher, table_of, tracked
from volcano.local.temporary_directory import temporary_directory
from volcano.net.dialer import AllowedTargets
from volcano.net.tls_context import is_certificate, open_private
from volcano.nodes.pools import Pool, PoolError, parse_pools
from volcano.nodes.runtimes.probe import RuntimeNotAvailable
from volcano.nodes.shim.specs import NAT, NO_NETWORK, POD_NETWORKS
from volcano.scheduler.engine.config import ConfigError

DETACHED_WITHIN = 30.0
STOPPED_WITHIN = 30.0
RUN_DURATION = 5.0
DEMO_WITHIN = 120.0
WIDE = 200
POD_NETWORK_VARIABLE = "VOLCANO_POD_NETWORK"


class CommandError(Exception):
    """The command failed; the message says why and what would help."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def up(arguments: argparse.Namespace) -> int:
    """Starts a cluster and runs until it is stopped."""
    settings = _settings(arguments, default_duration=float("inf"))
    running = state.find(settings.directory)
    if running is not None:
        raise CommandError(
            f"a cluster runs from {settings.directory} already, as process {running.pid} at {running.url}"
        )
    documents = _read(arguments.filename)
    if arguments.detach:
        return _detach(settings)
    return asyncio.run(_up(settings, documents, arguments.verbose))


async def _up(settings: ClusterOptions, documents: list[Document], verbose: int) -> int:
    stop: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.put_nowait, number)
    why: signal.Signals | None = None
    log.configure(logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.WARNING)
    cluster = LocalCluster(settings)
    started = time.monotonic()
    try:
        await cluster.start()
    except (DataDirectoryError, state.DirectoryError, RuntimeNotAvailable, OSError) as error:
        await cluster.stop(keep_pods=True)
        raise CommandError(_reason(error, settings)) from None
    try:
        await cluster.apply(documents)
        running = _announce(cluster)
        _introduce(running, time.monotonic() - started)
        why = await stop.get()
        print("stopping ...", file=sys.stderr)
    except FileError as error:
        raise CommandError(str(error)) from None
    finally:
        # SIGTERM may precede a restart: pods keep running, and `volcano down` ends them.
        await cluster.stop(keep_pods=why is signal.SIGTERM)
        if not settings.durable:
            state.retract(settings.directory)
            if why is signal.SIGINT:  # keep the log after a failure
                shutil.rmtree(settings.directory, ignore_errors=True)
    return 0


def _reason(error: Exception, settings: ClusterOptions) -> str:
    """Reason for which a cluster did not start; a bare name resolution error lacks the name."""
    if isinstance(error, socket.gaierror):
        return f"--host {settings.host}: no address of this machine: {error.strerror}"
    return str(error)


def _announce(cluster: LocalCluster) -> state.Running:
    settings = cluster.options
    running = state.Running(
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
    )
    state.announce(running)
    return running


def _introduce(running: state.Running, seconds: float) -> None:
    where = running.directory if running.durable else "memory only"
    lines = (
        f"volcano {running.version} is up after {seconds:.2f} s",
        f"  API server   {running.url}",
        f"  nodes        {_nodes_in_words(running)}",
        f"  data         {where}",
        "  components   scheduler, controllers and admission, in namespace volcano-system",
        "",
        "To use it:",
        f"  export KUBECONFIG={running.kubeconfig}",
        "  kubectl get nodes",
        "",
        "Ctrl-C or `volcano down` stops it.",
    )
    print("\n".join(lines), flush=True)


def _nodes_in_words(running: state.Running) -> str:
    local = f"{running.local_nodes} on this host ({running.runtime})" if running.local_nodes else ""
    simulated = f"{running.nodes} simulated" if running.nodes or not local else ""
    return ", ".join(filter(None, (local, simulated)))


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
            [sys.executable, "-m", "volcano.entry.local", *own],
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
            return 0
        if child.poll() is not None:
            tail = log_file.read_text(errors="replace").strip().splitlines()[-5:]
            raise CommandError("the cluster did not start:\n" + "\n".join(tail))
        time.sleep(0.05)
    child.terminate()
    raise CommandError(f"the cluster was not ready within {DETACHED_WITHIN:.0f} s; its log is {log_file}")


def down(arguments: argparse.Namespace) -> int:
    """Stops a running cluster and its pods, unless they are kept."""
    directory = arguments.data_dir.absolute() if arguments.data_dir else None
    running = state.find(directory) if directory else state.find_any()
    if running is None:
        return _clear_up(directory)
    if not state.end(running, within=STOPPED_WITHIN):
        raise CommandError(f"process {running.pid} is still there after {STOPPED_WITHIN:.0f} s")
    if not arguments.keep_pods:
        asyncio.run(remove_leftovers(Path(running.directory)))
        if not running.durable:
            shutil.rmtree(running.directory, ignore_errors=True)
    print(
        f"stopped the cluster of {running.directory}" if running.durable else "stopped the in-memory cluster"
    )
    return 0


def _clear_up(directory: Path | None) -> int:
    """Removes the pods of a cluster that was killed."""
    removed: list[str] = []
    for place in [directory] if directory else [state.default_directory(), state.memory_directory()]:
        removed += asyncio.run(remove_leftovers(place))
    if directory is None and state.memory_directory().exists():
        shutil.rmtree(state.memory_directory(), ignore_errors=True)
        removed.append(str(state.memory_directory()))
    if not removed:
        where = str(directory) if directory else f"{state.default_directory()} or in memory"
        raise CommandError(f"no cluster runs from {where}; `volcano up` starts one", code=4)
    print("no cluster runs; removed what an earlier one had left:")
    for what in removed:
        print(f"  {what}")
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Shows the running cluster."""
    running = _find(arguments.data_dir)
    if arguments.output == "json":
        print(json.dumps(asdict(running), indent=2))
        return 0
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in asdict(running).items():
        table.add_row(name.upper(), str(value))
    _console().print(table)
    return 0


def _find(directory: Path | None) -> state.Running:
    running = state.find(directory.absolute()) if directory else state.find_any()
    if running is None:
        where = str(directory) if directory else f"{state.default_directory()} or in memory"
        raise CommandError(f"no cluster runs from {where}; `volcano up` starts one", code=4)
    return running


def run(arguments: argparse.Namespace) -> int:
    """Runs manifest files on a temporary cluster; returns 0 only if every job completed."""
    try:
        timeout = parse_duration(arguments.timeout)
    except ValueError as error:
        raise CommandError(f"--timeout: {error}", code=2) from None
    documents = _read(arguments.files)
    with nullcontext() if arguments.data_dir else temporary_directory() as directory:
        settings = _settings(arguments, default_duration=RUN_DURATION, once_in=directory)
        return asyncio.run(_run(settings, documents, timeout, arguments.output, arguments.verbose))


async def _run(
    settings: ClusterOptions, documents: list[Document], timeout: float, output: str, verbose: int
) -> int:
    log.configure(logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.ERROR)
    console = _console(stderr=output == "json")
    if (task := asyncio.current_task()) is not None:  # clean up on SIGTERM as after Ctrl-C
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    cluster = LocalCluster(settings)
    try:
        await cluster.start()
        applied = await cluster.apply(documents)
        kinds = {(s.kind.api_version, s.kind.kind): s.kind for s in cluster.registry.kinds}
        targets = tracked(applied, kinds)
        console.print(_applied_in_words(len(applied), len(targets)), highlight=False)
        tail = _tail(cluster, console)
        see = tail.add_pod if tail is not None else _ignore_pod
        follower = ProgressWatcher(
            cluster.client, SystemClock(), targets, on_pod=lambda pod: _follow_local_pod(cluster, see, pod)
        )
        rows = await follower.follow(timeout=timeout, console=console, quiet=output == "json")
        if tail is not None:
            await tail.close()
    except (FileError, DataDirectoryError, state.DirectoryError, RuntimeNotAvailable, OSError) as error:
        raise CommandError(_reason(error, settings)) from None
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
    from volcano.entry.demo import INTRODUCTION, manifests, settings

    print(INTRODUCTION)
    with temporary_directory() as directory:
        return asyncio.run(_run(settings(directory), manifests(), DEMO_WITHIN, "table", 0))


def nodes(arguments: argparse.Namespace) -> int:
    """Simulates nodes on another API server until it is stopped."""
    from volcano.entry.simulation import simulate

    pools = _pools(arguments)
    if not pools:
        raise CommandError("say how many nodes, such as --nodes 100 --node cpu=32,memory=128Gi", code=2)
    duration = _duration(arguments.sim_duration, float("inf"))
    return simulate(pools, duration, arguments.kubeconfig, arguments.context, arguments.verbose)


def config(arguments: argparse.Namespace) -> int:
    """Validates a scheduler configuration file."""
    from volcano.entry.configuration import validate

    return validate(Path(arguments.file))


def _read(files: list[str]) -> list[Document]:
    try:
        documents = read_files(files)
    except FileError as error:
        raise CommandError(str(error)) from None
    if files and not documents:
        raise CommandError(f"no objects in {', '.join(files)}")
    return documents


def _settings(
    arguments: argparse.Namespace, *, default_duration: float, once_in: Path | None = None
) -> ClusterOptions:
    """Cluster options from the flags; `once_in` is the directory of a temporary cluster."""
    pools = _pools(arguments)
    usual = state.memory_directory() if arguments.in_memory else state.default_directory()
    directory = once_in or arguments.data_dir or usual
    return ClusterOptions(
        directory=directory.absolute(),
        durable=not arguments.in_memory and once_in is None,
        host=arguments.host,
        port=arguments.port,
        kubeconfig=arguments.kubeconfig.absolute() if arguments.kubeconfig else None,
        pools=pools
        or (parse_pools([4], []) if arguments.command == "run" and arguments.no_local_node else []),
        sim_duration=_duration(arguments.sim_duration, default_duration),
        scheduler_conf=_scheduler_conf(arguments.scheduler_conf),
        admission_conf=_admission_conf(arguments.admission_conf),
        audit_log=arguments.audit_log,
        allow_egress=_egress(arguments.allow_egress),
        kubelet_authority=_kubelet_authority(arguments.kubelet_certificate_authority),
        local=_local(arguments),
        pod_security=_pod_security(arguments),
    )


def _pod_security(arguments: argparse.Namespace) -> PodSecurityConfiguration:
    shared_host = arguments.command == "up" and not arguments.no_local_node
    try:
        return pod_security(arguments.pod_security, shared_host=shared_host)
    except ConfigurationError as error:
        raise CommandError(f"--pod-security: {error}", code=2) from None


def _kubelet_authority(source: str | None) -> str | None:
    if source is None or source == CLUSTER_AUTHORITY:
        return source
    option = "--kubelet-certificate-authority"
    try:
        text = Path(source).read_text("ascii", "replace")
    except OSError as error:
        raise CommandError(
            f"{option}: cannot read {source}: {os.strerror(error.errno or 0)}", code=2
        ) from None
    if not is_certificate(text.encode("ascii", "replace")):
        raise CommandError(f"{option}: {source} contains no certificate in PEM form", code=2)
    return text


def _egress(targets: list[str]) -> tuple[str, ...]:
    try:
        AllowedTargets.parse(targets)
    except ValueError as error:
        raise CommandError(f"--allow-egress: {error}", code=2) from None
    return tuple(targets)


def _local(arguments: argparse.Namespace) -> LocalNodeOptions:
    """Nodes of this host: one, unless another number or none is requested."""
    if arguments.local_nodes < 1:
        raise CommandError("--local-nodes: at least 1; --no-local-node does without", code=2)
    if arguments.fake_gpus < 0:
        raise CommandError("--fake-gpus: a number of GPUs cannot be negative", code=2)
    nodes = 0 if arguments.no_local_node else arguments.local_nodes
    return LocalNodeOptions(
        nodes,
        arguments.runtime,
        arguments.fake_gpus,
        keep_logs=arguments.command == "run",
        pod_network=_pod_network(arguments),
    )


def _pod_network(arguments: argparse.Namespace) -> str:
    chosen: str = arguments.pod_network or os.environ.get(POD_NETWORK_VARIABLE, "")
    if chosen and chosen not in POD_NETWORKS:
        raise CommandError(
            f"{POD_NETWORK_VARIABLE}: {chosen!r} is unknown; choose from {', '.join(POD_NETWORKS)}", code=2
        )
    return chosen or (NAT if _is_loopback(arguments.host) else NO_NETWORK)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _pools(arguments: argparse.Namespace) -> list[Pool]:
    try:
        return parse_pools(arguments.nodes, arguments.node)
    except PoolError as error:
        raise CommandError(str(error), code=2) from None


def _duration(text: str | None, default: float) -> float:
    if text is None:
        return default
    if text in ("forever", "inf"):
        return float("inf")
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"--sim-duration: {error}; such as 5s, 2m or forever", code=2) from None


def _scheduler_conf(path: Path | None) -> str | None:
    try:
        return checked(path) if path else None
    except ConfigError as error:
        raise CommandError(f"--scheduler-conf: {error}") from None


def _admission_conf(path: Path | None) -> Path | None:
    """The file of resource groups; it is read again when it changes."""
    if path is None:
        return None
    try:
        GroupsFile(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"--admission-conf {path}: {error}", code=2) from None
    return path.absolute()
