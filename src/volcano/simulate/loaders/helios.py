"""Helios (SenseTime, 2020) and Acme (Shanghai AI Lab, 2023): job logs of Slurm clusters with GPUs, as CSV."""

from pathlib import Path

from volcano.simulate.loaders.rows import Row, read_rows
from volcano.simulate.workload import GIB, Attempt, Requests, TraceJob, TraceTask, Workload, by_arrival

HELIOS_COLUMNS = (
    "job_id",
    "user",
    "vc",
    "gpu_num",
    "cpu_num",
    "node_num",
    "state",
    "submit_time",
    "duration",
)
ACME_COLUMNS = (
    "job_id",
    "user",
    "node_num",
    "gpu_num",
    "cpu_num",
    "type",
    "state",
    "submit_time",
    "duration",
)
FAILED = frozenset(("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"))
MEMORY_PER_CPU = 2 * GIB  # where the trace has no memory


def read_helios(path: Path) -> Workload:
    """`cluster_log.csv`; the virtual cluster is the queue."""
    return _read(path, HELIOS_COLUMNS, "vc")


def read_acme(path: Path) -> Workload:
    """`trace_seren.csv` or `trace_kalos.csv`; the type of workload is the queue."""
    return _read(path, ACME_COLUMNS, "type")


def _read(path: Path, columns: tuple[str, ...], queue: str) -> Workload:
    jobs = []
    left_out = 0
    for row in read_rows(path, columns):
        if not row.has("submit_time"):
            left_out += 1
            continue
        jobs.append(_job(row, queue))
    notes = (f"{left_out} jobs without a time of submission were left out",) if left_out else ()
    return Workload(by_arrival(jobs), notes=notes)


def _job(row: Row, queue: str) -> TraceJob:
    nodes = max(row.whole("node_num", 1), 1)
    cpus, gpus = row.number("cpu_num", 1.0), row.whole("gpu_num", 0)
    if gpus % nodes and gpus > nodes:
        nodes = next(count for count in range(nodes, gpus + 1) if gpus % count == 0)
    each = -(-gpus // nodes)
    cpu = max(cpus / nodes, 0.1)
    memory = row.number("mem_per_pod_GB", 0.0) * GIB or cpu * MEMORY_PER_CPU
    seconds = row.number("duration", 0.0)
    state = row.text("state").upper()
    submitted = row.moment("submit_time")
    assert submitted is not None  # checked by the caller
    never_ran = seconds <= 0 and state == "CANCELLED"
    return TraceJob(
        row.text("job_id").replace("/", "-") or row.fail("job_id is empty"),
        submitted,
        (TraceTask(Requests(cpu=cpu, memory=memory, gpus=each), nodes),),
        (Attempt(max(seconds, 1.0), state in FAILED),),
        queue=row.text(queue) or "default",
        user=row.text("user"),
        longest_wait=max(row.number("queue", 0.0), 1.0) if never_ran else None,
    )
