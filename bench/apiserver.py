"""API server under load: creates, bindings, watches, lists, start-up and memory, over HTTPS, durable.

The load is a separate process. `BENCH_REAL=1` runs the same writes against a real kube-apiserver with
etcd, alternating with ours, and reports the ratio; it needs the control plane that `make test-k8s` builds.
Reported values are medians of the rounds, because the machine's speed varies.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.case import Case
from tests.k8s.control_plane import build, cluster

BENCH = "apiserver"
# A real kube-apiserver with etcd handles about 1,200 creates/s and 1,400 bindings/s on two cores; the target
# is twice that.
TIMES = 2.0
TARGETS = {"create": 1200 * TIMES, "bind": 1400 * TIMES}
WRITES = 2000  # per round
ROUNDS = 5
WATCHERS = 10
LISTED = 10_000
NODES, PODS = 1000, 20_000
START_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server process and its kubeconfig."""

    name: str
    kubeconfig: Path
    pid: int
    store_pid: int | None = None  # if the store is a separate process

    def cpu_seconds(self) -> float:
        """CPU time so far, including the store."""
        return sum(_cpu_seconds(pid) for pid in (self.pid, self.store_pid) if pid is not None)

    def resident_mib(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cases(scale: float) -> Iterator[Case]:
    """Runs every case; `scale` shortens the runs."""
    yield from _start_up()
    for connections in (8, 32):
        yield from _write_cases(
            connections, int(WRITES * scale), beside_real=bool(os.environ.get("BENCH_REAL"))
        )
    with _ours("--nodes", "0") as ours:
        yield _fan_out(ours, int(3000 * scale))
        yield _list(ours, int(LISTED * scale))
    yield _memory(scale)


def _start_up() -> Iterator[Case]:
    """From the command to a ready server, with an empty and with an existing data directory."""
    with tempfile.TemporaryDirectory() as directory:
        for case in ("first start", "start again"):
            began = time.perf_counter()
            with _ours("--nodes", "100", directory=Path(directory)) as ours:
                _load(ours, "list", 1, 1, "x")  # uses the kubeconfig; includes the load process
                answered = time.perf_counter() - began
                yield Case(
                    BENCH,
                    f"volcano up, {case}",
                    {"seconds": _started_in(Path(directory)), "seconds_to_first_answer": answered},
                    {"max:seconds": 2.0},
                )


def _write_cases(connections: int, count: int, *, beside_real: bool) -> Iterator[Case]:
    """Creates and bindings, alternating between our server and a real one."""
    rounds: dict[str, list[dict[str, float]]] = {"create": [], "bind": []}
    with ExitStack() as stack:
        ours = stack.enter_context(_ours("--nodes", "0"))
        real = stack.enter_context(_real()) if beside_real else None
        for number in range(ROUNDS):
            measured = dict(_writes(ours, connections, count, f"round-{number}"))
            if real is not None:
                for verb, metrics in _writes(real, connections, count, f"round-{number}"):
                    measured[verb] |= _compared(measured[verb], metrics)
            for verb, metrics in measured.items():
                rounds[verb].append(metrics)
    for verb, each in rounds.items():
        medians = {name: median(metrics[name] for metrics in each) for name in each[0]}
        targets = {"min:ratio": TIMES} if beside_real else {"min:per_second": TARGETS[verb]}
        yield Case(BENCH, f"{verb} pods, {connections} connections", medians, targets)


def _compared(ours: dict[str, float], real: dict[str, float]) -> dict[str, float]:
    return {
        "real_per_second": real["per_second"],
        "real_cpu_us": real["server_cpu_us"],
        "ratio": ours["per_second"] / real["per_second"],
    }


def _writes(
    server: Server, connections: int, count: int, name: str = "load"
) -> Iterator[tuple[str, dict[str, float]]]:
    _load(server, "create", 200, connections, f"warm-{name}")
    for verb in ("create", "bind"):
        cpu = server.cpu_seconds()
        metrics = _load(server, verb, count, connections, f"{name}-{connections}")
        metrics["server_cpu_us"] = 1e6 * (server.cpu_seconds() - cpu) / count
        yield verb, metrics


def _fan_out(server: Server, count: int) -> Case:
    """New pods as received by several watchers while they are created as fast as possible."""
    _load(server, "create", 10, 1, "warm")
    watching = _spawn(server, "watch", count, WATCHERS, "fan")
    assert watching.stdout is not None
    assert watching.stdout.readline().strip() == "watching"
    created = _load(server, "create", count, 8, "fan")
    metrics = _read(watching)
    metrics["creates_per_second"] = created["per_second"]
    return Case(BENCH, f"watch fan-out to {WATCHERS} watchers", metrics)


def _list(server: Server, count: int) -> Case:
    _load(server, "create", count, 32, "listed")
    metrics = _load(server, "list", 5, 1, "listed")
    return Case(BENCH, f"list of {metrics['items']:,.0f} pods", metrics)


def _memory(scale: float) -> Case:
    """Memory of a whole cluster with node heartbeats and running pods."""
    nodes, pods = int(NODES * scale), int(PODS * scale)
    with _ours("--nodes", str(nodes)) as ours:
        empty = ours.resident_mib()
        _load(ours, "create", pods, 32, "kept")
        metrics = {"mib": ours.resident_mib(), "mib_without_pods": empty}
        cpu, began = ours.cpu_seconds(), time.monotonic()
        time.sleep(5)
        metrics["idle_cpu_percent"] = 100 * (ours.cpu_seconds() - cpu) / (time.monotonic() - began)
    return Case(BENCH, f"memory with {nodes:,} nodes and {pods:,} pods", metrics)


@contextmanager
def _ours(*arguments: str, directory: Path | None = None) -> Iterator[Server]:
    """`volcano up` with a data directory: every acknowledged write is on disk."""
    with tempfile.TemporaryDirectory() as made:
        home = directory or Path(made)
        kubeconfig = home / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        command = [sys.executable, "-m", "volcano.cmd.volcano", "up", "--no-local-node"]
        command += ["--data-dir", str(home / "data"), "--kubeconfig", str(kubeconfig), *arguments]
        began = time.perf_counter()
        with open(home / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_up(process, home)
            (home / "started").write_text(str(time.perf_counter() - began))
            yield Server("ours", kubeconfig, process.pid)
        finally:
            process.terminate()
            process.wait()


def _wait_up(process: "subprocess.Popen[bytes]", home: Path) -> None:
    """Waits until the process reports that it is up, when every component has listed the cluster."""
    deadline = time.monotonic() + START_WITHIN
    while b" is up after " not in (home / "log").read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"volcano up did not start:\n{(home / 'log').read_text()}")
        time.sleep(0.01)


def _started_in(home: Path) -> float:
    return float((home / "started").read_text())


@contextmanager
def _real() -> Iterator[Server]:
    if build.missing():
        raise RuntimeError(f"not built: {', '.join(build.missing())}; run `make test-k8s` once")
    with tempfile.TemporaryDirectory() as directory:
        running = cluster.start(Path(directory))
        try:
            processes = running.processes
            yield Server("real", running.kubeconfig, processes["kube-apiserver"].pid, processes["etcd"].pid)
        finally:
            running.stop()


def _load(server: Server, verb: str, count: int, connections: int, name: str) -> dict[str, float]:
    return _read(_spawn(server, verb, count, connections, name))


def _spawn(server: Server, verb: str, count: int, connections: int, name: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "bench._load",
        str(server.kubeconfig),
        verb,
        str(count),
        str(connections),
        name,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _read(process: "subprocess.Popen[str]") -> dict[str, float]:
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load process failed with {process.returncode}")
    metrics: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return metrics
