"""Our programs on a real kube-apiserver, relative to a bare client in the same run.

The ceiling is a bare client that writes what is necessary (job, PodGroup, one status of each, pods,
bindings) while simulated nodes run the pods; then our scheduler, controllers and webhooks (those that the
chart enables) run on a fresh server of the same kind. Needs the control plane that `make test-k8s` builds.
"""

import os
import sys
from collections.abc import Iterator

from bench._kubernetes_run import stage
from bench._kubernetes_shape import Shape
from bench.case import Case
from tests.k8s.control_plane import build

BENCH = "kubernetes"
SHAPES = (
    Shape("one large", jobs=1, members=1000, nodes=100),
    Shape("some", jobs=20, members=50, nodes=100),
    Shape("many", jobs=100, members=50, nodes=1000),
    Shape("singles", jobs=1000, members=1, nodes=100),
    Shape("churn", jobs=300, members=3, nodes=10, finish=True),
    Shape("short", jobs=300, members=3, nodes=10, finish=True, duration="1s"),
    Shape("queues", jobs=100, members=10, nodes=100, queues=5),
)
RATIO = 0.70  # minimum, relative to the ceiling
SCHEDULER_MIB = 300.0  # at 1,000 nodes and 5,000 pods
# Volcano's scheduler for the short jobs, measured on two cores.
SHORT_CPU_S, SHORT_MIB = 5.9, 112.0
OURS = ("scheduler", "controllers")


def cases(scale: float) -> Iterator[Case]:
    """Every load, or those that BENCH_SHAPES names, each BENCH_ROUNDS times."""
    if build.missing():
        names = ", ".join(build.missing())
        print(f"kubernetes: skipped, not built: {names}; `make test-k8s` builds them", file=sys.stderr)
        return
    chosen = os.environ.get("BENCH_SHAPES", "")
    for shape in SHAPES:
        if not chosen or shape.name in chosen.split(","):
            for _ in range(int(os.environ.get("BENCH_ROUNDS", "1"))):
                yield measure(shape.scaled(scale))


def measure(shape: Shape, *, wait_idle: bool = True) -> Case:
    """Measures the ceiling, then our programs."""
    with stage(wait_idle=wait_idle) as bare:
        bare.start_nodes(shape.nodes)
        ceiling = bare.load("bare", shape)
    with stage(wait_idle=wait_idle) as ours:
        ours.start_nodes(shape.nodes)
        ours.start_ours()
        measured = ours.load("submit", shape)
    kept = ("pods_per_s", "p50_s", "p99_s", "apiserver_cpu_s", "etcd_cpu_s", "nodes_cpu_s", "client_cpu_s")
    metrics = {
        "ratio": measured["pods_per_s"] / ceiling["pods_per_s"],
        # Ratio on idle CPUs: CPU time of all programs side by side.
        "cpu_ratio": _work(ceiling) / _work(measured),
        **{f"ceiling_{name}": ceiling[name] for name in kept},
        **{name: measured[name] for name in kept},
        **{f"{name}_cpu_s": measured[f"{name}_cpu_s"] for name in (*OURS, "webhooks")},
        **{f"{name}_mib": measured[f"{name}_mib"] for name in (*OURS, "webhooks", "apiserver")},
        "share_of_apiserver_cpu": sum(measured[f"{name}_cpu_s"] for name in OURS)
        / measured["apiserver_cpu_s"],
        "ceiling_writes_per_pod": ceiling["writes"] / shape.pods,
        "writes_per_pod": measured["writes"] / shape.pods,
    }
    targets = {"min:ratio": RATIO, "max:share_of_apiserver_cpu": 1.0, "max:scheduler_mib": SCHEDULER_MIB}
    if shape.until_end:
        targets = {"max:scheduler_cpu_s": SHORT_CPU_S * shape.jobs / 300, "max:scheduler_mib": SHORT_MIB}
    return Case(BENCH, shape.title, metrics, targets)


def _work(metrics: dict[str, float]) -> float:
    """CPU seconds of all programs."""
    return sum(value for name, value in metrics.items() if name.endswith("_cpu_s"))
