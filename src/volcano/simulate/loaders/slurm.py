"""Slurm accounting: `sacct -P` (or `--parsable2`) with a header line."""

import re
from pathlib import Path

from volcano.kube.api.quantity import units
from volcano.simulate.loaders.rows import Row, read_rows
from volcano.simulate.workload import Attempt, Requests, TraceJob, TraceTask, Workload, by_arrival

REQUIRED = ("JobID", "Submit", "State")
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
MEMORY = re.compile(r"([\d.]+)([KMGTP]?)([cn]?)")
NOT_FAILED = ("COMPLETED", "RUNNING", "CANCELLED", "PENDING", "PREEMPTED", "REQUEUED", "SUSPENDED")
GPU = re.compile(r"gres/gpu(?::([^=]+))?")


def read_jobs(path: Path) -> Workload:
    """Jobs without their steps; several rows with the same JobID are attempts of one job that was requeued."""
    attempts: dict[str, list[Row]] = {}
    for row in read_rows(path, REQUIRED, delimiter="|"):
        name = row.text("JobID")
        if not name:
            row.fail("JobID is empty")
        if "." not in name:  # steps have one
            attempts.setdefault(name, []).append(row)
    jobs = [_job(name, rows) for name, rows in attempts.items()]
    return Workload(by_arrival(jobs))


def _job(name: str, rows: list[Row]) -> TraceJob:
    first, last = rows[0], rows[-1]
    submitted = first.moment("Submit")
    if submitted is None:
        first.fail("Submit is empty")
    runs = [(seconds(row), row) for row in rows]
    ran = [(length, row) for length, row in runs if length > 0]
    # Slurm requeues a job that was preempted or lost its node: every attempt but the last one ended early.
    attempts = [
        Attempt(length, index + 1 < len(ran) or _failed(row)) for index, (length, row) in enumerate(ran)
    ]
    pods, requests = _requests(last)
    end = last.moment("End")
    waited = max((end or submitted) - submitted, 1.0)
    return TraceJob(
        name.replace("/", "-"),
        submitted,
        (TraceTask(requests, pods),),
        tuple(attempts) or (Attempt(1.0),),
        queue=last.text("Partition").split(",")[0] or "default",
        user=last.text("User"),
        longest_wait=None if ran or not _state(last).startswith("CANCELLED") else waited,
    )


def _state(row: Row) -> str:
    return row.text("State").upper()


def _failed(row: Row) -> bool:
    return not _state(row).startswith(NOT_FAILED)


def seconds(row: Row) -> float:
    """Run time, from ElapsedRaw, Elapsed, or Start and End."""
    if row.has("ElapsedRaw"):
        return row.number("ElapsedRaw")
    text = row.text("Elapsed")
    if text:
        found = ELAPSED.fullmatch(text)
        if found is None:
            row.fail(f"Elapsed is {text!r}; it should look like 1-02:03:04 or 02:03:04")
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
    start, end = row.moment("Start"), row.moment("End")
    return max(end - start, 0.0) if start is not None and end is not None else 0.0


def _requests(row: Row) -> tuple[int, Requests]:
    """Number of pods, one per node, and what each requests."""
    tres = dict(
        part.split("=", 1)
        for part in (row.text("ReqTRES") or row.text("AllocTRES")).split(",")
        if "=" in part
    )
    nodes = max(int(_amount(row, tres.get("node") or row.text("NNodes") or row.text("ReqNodes") or "1")), 1)
    cpus = _amount(
        row, tres.get("cpu") or row.text("ReqCPUS") or row.text("AllocCPUS") or row.text("NCPUS") or "1"
    )
    gpus, models = 0.0, []
    for name, amount in tres.items():
        if found := GPU.fullmatch(name):
            gpus = max(gpus, _amount(row, amount))  # the total, and again by model
            models += [found.group(1)] if found.group(1) else []
    memory = _memory(row, tres.get("mem") or "", nodes, cpus) or _memory(row, row.text("ReqMem"), nodes, cpus)
    return nodes, Requests(
        cpu=cpus / nodes, memory=memory / nodes, gpus=-(-int(gpus) // nodes), gpu_models=tuple(models)
    )


def _amount(row: Row, text: str) -> float:
    try:
        return float(units(text))
    except ValueError:
        row.fail(f"{text!r} is not a number")


def _memory(row: Row, text: str, nodes: int, cpus: float) -> float:
    """Bytes of the whole job: `4G` in all, `4Gn` per node, `4Gc` per CPU; without a unit in MiB."""
    if not text or text == "0":
        return 0.0
    found = MEMORY.fullmatch(text)
    if found is None:
        row.fail(f"memory is {text!r}; it should look like 4G, 4Gn or 500Mc")
    number, unit, per = found.groups()
    size = float(number) * 1024.0 ** "KMGTP".index(unit or "M") * 1024.0
    return size * {"": 1.0, "n": float(nodes), "c": cpus}[per]
