"""openb: nodes and pods of a GPU cluster with shared cards (Alibaba, 2023)."""

from pathlib import Path

from volcano.simulate.loaders.rows import Row, read_rows
from volcano.simulate.workload import (
    MIB,
    Attempt,
    Requests,
    SimNode,
    TraceJob,
    TraceTask,
    Workload,
    by_arrival,
)

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
WHOLE = 1000  # gpu_milli of a whole card


def read_nodes(path: Path) -> tuple[SimNode, ...]:
    """Nodes; further columns become labels."""
    nodes = []
    seen: set[str] = set()
    for row in read_rows(path, NODE_COLUMNS):
        name = row.text("sn") or row.fail("sn, the name of the node, is empty")
        if name in seen:
            row.fail(f"node {name!r} is listed twice")
        seen.add(name)
        labels = {k: v for k, v in row.values.items() if k not in NODE_COLUMNS and v and k != "None"}
        nodes.append(
            SimNode(
                name,
                row.number("cpu_milli") / 1000,
                row.number("memory_mib") * MIB,
                row.whole("gpu"),
                row.text("model"),
                labels=labels,
            )
        )
    return tuple(nodes)


def read_jobs(path: Path) -> Workload:
    """Every pod is a job of its own. It runs from its scheduled time to its deletion."""
    jobs = [_job(row) for row in read_rows(path, POD_COLUMNS)]
    waiting = sum(job.longest_wait is not None for job in jobs)
    notes = (f"{waiting} pods were never scheduled in the trace: they are withdrawn if they wait as long",)
    return Workload(by_arrival(jobs), notes=notes if waiting else ())


def requests_of(row: Row) -> Requests:
    gpus, milli = row.whole("num_gpu"), row.whole("gpu_milli")
    if gpus and not 0 < milli <= WHOLE:
        row.fail(f"gpu_milli is {milli}; it must be from 1 to {WHOLE}")
    if gpus > 1 and milli != WHOLE:
        row.fail(f"gpu_milli is {milli} with {gpus} cards; only one card can be shared")
    models = tuple(sorted({model for model in row.text("gpu_spec").split("|") if model}))
    return Requests(
        cpu=row.number("cpu_milli") / 1000,
        memory=row.number("memory_mib") * MIB,
        gpus=gpus,
        gpu_share=milli / WHOLE if gpus else 1.0,
        gpu_models=models if gpus else (),
    )


def _job(row: Row) -> TraceJob:
    created, deleted = row.number("creation_time"), row.number("deletion_time")
    if deleted < created:
        row.fail(f"deletion_time {deleted:g} is before creation_time {created:g}")
    ran = row.has("scheduled_time")
    began = row.number("scheduled_time") if ran else created
    return TraceJob(
        row.text("name") or row.fail("name is empty"),
        created,
        (TraceTask(requests_of(row)),),
        (Attempt(max(deleted - began, 1.0), row.text("pod_phase") == "Failed"),),
        user=row.text("qos"),
        longest_wait=None if ran else max(deleted - created, 1.0),
    )
