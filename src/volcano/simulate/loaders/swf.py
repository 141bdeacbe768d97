"""SWF: the Standard Workload Format of the Parallel Workloads Archive."""

import re
from pathlib import Path

from volcano.simulate.workload import (
    Attempt,
    Requests,
    SimNode,
    TraceError,
    TraceJob,
    TraceTask,
    Workload,
    by_arrival,
)

FIELDS = 18
HEADER = re.compile(r";\s*(MaxNodes|MaxProcs)\s*:\s*(\d+)")
COMPLETED, CANCELLED = 1, 5
PARTIAL = frozenset((2, 3, 4))  # parts of a job that was checkpointed; the whole job has a line of its own
KIB = 1024.0


def read_jobs(path: Path) -> Workload:
    """Jobs whose pods are as large as a node of the machine, or one processor where its nodes are not known."""
    jobs: list[TraceJob] = []
    header: dict[str, int] = {}
    partial = 0
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line, text in enumerate(file, 1):
                if text.startswith(";"):
                    if found := HEADER.match(text):
                        header[found.group(1)] = int(found.group(2))
                elif fields := text.split():
                    values = _values(path, line, fields)
                    if values[10] in PARTIAL:
                        partial += 1
                    elif (job := _job(path, line, values, _per_node(header))) is not None:
                        jobs.append(job)
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    notes = (f"{partial} lines about parts of jobs were left out",) if partial else ()
    return Workload(by_arrival(jobs), _nodes(header), notes=notes)


def _values(path: Path, line: int, fields: list[str]) -> list[float]:
    if len(fields) != FIELDS:
        raise TraceError(path, f"{len(fields)} fields; a job in SWF has {FIELDS}", line)
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise TraceError(path, f"fields must be numbers: {error}", line) from None


def _job(path: Path, line: int, values: list[float], per_node: int) -> TraceJob | None:
    """A job; None for one that used no processors."""
    number, submitted, wait, run = values[:4]
    processors = int(values[7] if values[7] > 0 else values[4])
    if submitted < 0:
        raise TraceError(path, f"submit time is {submitted:g}; it must be 0 or more", line)
    if processors <= 0:
        return None
    kib = values[9] if values[9] > 0 else max(values[6], 0.0)
    each = min(per_node, processors)
    pods = -(-processors // each)
    task = TraceTask(Requests(cpu=float(each), memory=kib * KIB * each), pods)
    ran = run > 0
    return TraceJob(
        f"job-{number:.0f}",
        submitted,
        (task,),
        (Attempt(run if ran else 1.0, values[10] not in (COMPLETED, -1, CANCELLED)),),
        queue=f"queue-{values[14]:.0f}" if values[14] >= 0 else "default",
        user=f"user-{values[11]:.0f}" if values[11] >= 0 else "",
        walltime=values[8] if values[8] > 0 else None,
        longest_wait=None if ran or values[10] != CANCELLED else max(wait, 1.0),
    )


def _per_node(header: dict[str, int]) -> int:
    """Processors of a node."""
    nodes = header.get("MaxNodes", 0)
    return max(header.get("MaxProcs", 0) // nodes, 1) if nodes else 1


def _nodes(header: dict[str, int]) -> tuple[SimNode, ...]:
    """Nodes of the machine, if the header says how many."""
    memory = 1024.0**4  # the format does not say; large enough for any job
    return tuple(
        SimNode(f"node-{number}", float(_per_node(header)), memory)
        for number in range(header.get("MaxNodes", 0))
    )
