"""Loaders of traces, by format."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from volcano.kube.api import quantity
from volcano.nodes.pools import PoolError, parse_pool
from volcano.simulate.loaders import helios, openb, pai, philly, saved_cluster, slurm, swf, workload_file
from volcano.simulate.workload import SimNode, TraceError, Workload

Loader = Callable[[Path], Workload]

LOADERS: dict[str, Loader] = {
    "openb": openb.read_jobs,
    "swf": swf.read_jobs,
    "slurm": slurm.read_jobs,
    "philly": philly.read_jobs,
    "helios": helios.read_helios,
    "acme": helios.read_acme,
    "pai": pai.read_jobs,
}
FORMATS = (*LOADERS, "yaml", "snapshot")
DEFAULT_RUN_TIME = 3600.0
NODE_FILES = (
    (openb.NODE_COLUMNS, openb.read_nodes),
    (pai.MACHINE_COLUMNS, pai.read_nodes),
    (philly.MACHINE_COLUMNS, philly.read_nodes),
)
GPU = "nvidia.com/gpu"


def load(path: Path, format_name: str, seed: int = 0, run_time: float = DEFAULT_RUN_TIME) -> Workload:
    """Reads a trace. Raises TraceError with file and line."""
    if format_name == "yaml":
        return workload_file.read_workload(path, seed)
    if format_name == "snapshot":
        try:
            data = path.read_bytes()
        except OSError as error:
            raise TraceError(path, error.strerror or str(error)) from None
        return saved_cluster.read_snapshot(data, str(path), run_time)
    workload = LOADERS[format_name](path)
    if not workload.jobs:
        raise TraceError(path, "there is no job in this file")
    return workload


def load_nodes(text: str) -> tuple[SimNode, ...]:
    """Nodes of a CSV file (openb, PAI or Philly), a workload file, or `COUNT:SHAPE` such as 100:cpu=32,memory=128Gi."""
    path = Path(text)
    if not path.exists() and text.partition(":")[0].isdigit():
        return pool_nodes(text)
    if path.suffix in (".yaml", ".yml"):
        return workload_file.read_workload(path).nodes
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            header = [name.strip() for name in file.readline().split(",")]
    except OSError as error:
        raise TraceError(
            path, f"{error.strerror}; --nodes takes a file or COUNT:SHAPE such as 100:cpu=32,memory=128Gi"
        ) from None
    for columns, read in NODE_FILES:
        if set(columns[:2]) <= set(header):
            return read(path)
    if len(header) == len(pai.MACHINE_COLUMNS):
        return pai.read_nodes(path)  # without a header
    raise TraceError(
        path, f"columns {', '.join(header)} are not known; expected {', '.join(openb.NODE_COLUMNS)}", 1
    )


def pool_nodes(text: str, prefix: str = "") -> tuple[SimNode, ...]:
    """Nodes of `COUNT:SHAPE`, where the shape is that of `volcano up --node`."""
    number, _, shape = text.partition(":")
    try:
        pool = parse_pool(shape, count=int(number), name=prefix)
    except (PoolError, ValueError) as error:
        raise TraceError("--nodes", str(error)) from None
    amounts = dict(pool.resources)
    model = pool.labels.get("model", "")
    gpus = int(quantity.units(amounts.pop(GPU, "0")))
    cpu, memory = quantity.milli(amounts.pop("cpu")) / 1000, quantity.units(amounts.pop("memory"))
    pods = int(quantity.units(amounts.pop("pods")))
    node = SimNode(
        pool.name, cpu, memory, gpus, model, pods, dict(pool.labels), tuple(sorted(amounts.items()))
    )
    return tuple(replace(node, name=f"{pool.name}-{index}") for index in range(pool.count))
