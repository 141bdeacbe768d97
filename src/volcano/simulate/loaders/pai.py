"""PAI 2020: `pai_task_table.csv` of Alibaba's cluster-trace-gpu-v2020, with `pai_job_table.csv` beside it."""

from pathlib import Path

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

TASK_COLUMNS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
MACHINE_COLUMNS = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
PERCENT = 100.0
DEFAULT_CPU = 6.0  # cores, where a task has no plan


def read_jobs(path: Path) -> Workload:
    """Jobs with a task per role; a job runs from its first start to its last end."""
    submitted, users = _submissions(path.with_name("pai_job_table.csv"))
    tasks: dict[str, list[Row]] = {}
    for row in read_rows(path, TASK_COLUMNS, columns=_columns(path, TASK_COLUMNS)):
        tasks.setdefault(row.text("job_name") or row.fail("job_name is empty"), []).append(row)
    jobs = []
    left_out = 0
    for name, rows in tasks.items():
        job = _job(name, rows, submitted.get(name), users.get(name, ""))
        left_out += job is None
        jobs += [job] if job is not None else []
    notes = (f"{left_out} jobs without a start and an end were left out",) if left_out else ()
    return Workload(by_arrival(jobs), notes=notes)


def read_nodes(path: Path) -> tuple[SimNode, ...]:
    """`pai_machine_spec.csv`."""
    return tuple(
        SimNode(
            row.text("machine"),
            row.number("cap_cpu"),
            row.number("cap_mem") * GIB,
            row.whole("cap_gpu"),
            row.text("gpu_type") if row.whole("cap_gpu") else "",
        )
        for row in read_rows(path, MACHINE_COLUMNS, columns=_columns(path, MACHINE_COLUMNS))
    )


def _columns(path: Path, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The published files have no header; one that was added is read."""
    try:
        with path.open() as file:
            first = file.readline()
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    return () if columns[0] in first.split(",")[0] else columns


def _submissions(path: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Time of submission and user by job."""
    if not path.exists():
        return {}, {}
    times: dict[str, float] = {}
    users: dict[str, str] = {}
    for row in read_rows(path, JOB_COLUMNS, columns=_columns(path, JOB_COLUMNS)):
        users[row.text("job_name")] = row.text("user")
        if row.has("start_time"):
            times[row.text("job_name")] = row.number("start_time")
    return times, users


def _job(name: str, rows: list[Row], submitted: float | None, user: str) -> TraceJob | None:
    timed = [row for row in rows if row.has("start_time") and row.has("end_time")]
    if not timed:
        return None
    start = min(row.number("start_time") for row in timed)
    end = max(row.number("end_time") for row in timed)
    failed = any(row.text("status") == "Failed" for row in rows)
    return TraceJob(
        name,
        start if submitted is None else min(submitted, start),
        tuple(_task(row) for row in rows),
        (Attempt(max(end - start, 1.0), failed),),
        user=user,
    )


def _task(row: Row) -> TraceTask:
    percent = row.number("plan_gpu", 0.0)
    gpus = -(-int(percent) // 100) if percent >= PERCENT else int(percent > 0)
    share = percent / PERCENT if 0 < percent < PERCENT else 1.0
    model = row.text("gpu_type")
    requests = Requests(
        cpu=row.number("plan_cpu", DEFAULT_CPU * PERCENT) / PERCENT,
        memory=row.number("plan_mem", 0.0) * GIB,
        gpus=gpus,
        gpu_share=share,
        gpu_models=(model,) if gpus and model not in ("", "CPU") else (),
    )
    return TraceTask(requests, max(row.whole("inst_num", 1), 1), role=row.text("task_name"))
