"""Philly: `cluster_job_log`, deep learning jobs with their attempts (Microsoft, 2017)."""

from pathlib import Path
from typing import Any

import msgspec

from volcano.simulate.loaders.rows import Row, read_rows
from volcano.simulate.workload import (
    GIB,
    Attempt,
    Requests,
    SimNode,
    TraceError,
    TraceJob,
    TraceTask,
    Workload,
    by_arrival,
)

CPU_PER_GPU, MEMORY_PER_GPU = 4.0, 50 * GIB  # the trace has no requests for CPU and memory
MACHINE_COLUMNS = ("machineId", "number of GPUs", "single GPU mem")


def read_jobs(path: Path) -> Workload:
    """Jobs with one pod per server of their last attempt; every attempt but the last has failed."""
    try:
        entries = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    except msgspec.DecodeError as error:
        raise TraceError(path, f"not JSON: {error}") from None
    if not isinstance(entries, list):
        raise TraceError(path, "a list of jobs is expected")
    jobs = []
    left_out = 0
    for number, entry in enumerate(entries, 1):
        job = _job(path, number, entry)
        left_out += job is None
        jobs += [job] if job is not None else []
    notes = (f"{left_out} jobs without a complete attempt were left out",) if left_out else ()
    return Workload(by_arrival(jobs), notes=notes)


def read_nodes(path: Path) -> tuple[SimNode, ...]:
    """`cluster_machine_list`."""
    nodes = []
    for row in read_rows(path, MACHINE_COLUMNS):
        gpus = row.whole("number of GPUs")
        model = f"gpu-{row.text('single GPU mem').replace(' ', '')}"
        cpu, memory = max(gpus, 1) * CPU_PER_GPU, max(gpus, 1) * MEMORY_PER_GPU
        nodes.append(SimNode(row.text("machineId"), cpu, memory, gpus, model if gpus else ""))
    return tuple(nodes)


def _job(path: Path, number: int, entry: Any) -> TraceJob | None:
    """A job; None when none of its attempts has a start, an end and servers."""
    where = f"{path}: job {number}"
    if not isinstance(entry, dict) or not isinstance(entry.get("attempts"), list):
        raise TraceError(where, "an object with a list `attempts` is expected")
    row = Row(path, 0, {key: str(entry.get(key) or "") for key in ("jobid", "vc", "user", "submitted_time")})
    complete = []
    for attempt in entry["attempts"]:
        times = [_moment(row, attempt.get(key)) for key in ("start_time", "end_time")]
        if None not in times and attempt.get("detail"):
            complete.append((max(float(times[1] or 0) - float(times[0] or 0), 1.0), attempt["detail"]))
    submitted = _moment(row, entry.get("submitted_time"))
    if not complete or submitted is None or not row.text("jobid"):
        return None
    final = entry.get("status") == "Failed"
    runs = tuple(
        Attempt(seconds, final or index + 1 < len(complete)) for index, (seconds, _) in enumerate(complete)
    )
    return TraceJob(
        row.text("jobid"),
        submitted,
        _tasks(complete[-1][1]),
        runs,
        queue=row.text("vc") or "default",
        user=row.text("user"),
    )


def _moment(row: Row, text: Any) -> float | None:
    return None if text in (None, "None", "") else row.parse_moment(str(text), "time")


def _tasks(detail: list[Any]) -> tuple[TraceTask, ...]:
    """One task per number of cards; a pod per server."""
    replicas: dict[int, int] = {}
    for server in detail:
        cards = len(server.get("gpus") or ())
        replicas[cards] = replicas.get(cards, 0) + 1
    return tuple(
        TraceTask(
            Requests(cpu=max(cards, 1) * CPU_PER_GPU, memory=max(cards, 1) * MEMORY_PER_GPU, gpus=cards),
            count,
            role=f"gpu-{cards}" if len(replicas) > 1 else "",
        )
        for cards, count in sorted(replicas.items(), reverse=True)
    )
