"""`vcctl top` for pipes and files: the rows as tables or as data."""

from volcano.cli.printing.output import render
from volcano.cli.printing.tables import Column
from volcano.cli.quantities import amount_columns
from volcano.cli.session import Session
from volcano.cli.top.columns import GIB
from volcano.cli.top.feed import listed
from volcano.kube.api.duration import human_duration
from volcano.kube.api.manifest import Manifest
from volcano.views.board import Board, board
from volcano.views.devices import GpuFigures
from volcano.views.queues import queue_data


async def run(session: Session, namespace: str, output: str) -> int:
    """Prints queues and jobs."""
    picture, limited = await listed(session, namespace)
    seen = board(picture)
    if output:
        session.write(render(output, as_data(seen)))
        return 0
    for line in limited:
        session.warn(line)
    if seen.queues or not seen.jobs:
        session.table(queue_columns(seen), seen.queues)
    if seen.queues and seen.jobs:
        session.write()
    if seen.jobs:
        session.table(job_columns(seen), seen.jobs)
    if seen.gpus:
        session.write()
        session.table(gpu_columns(), seen.gpus)
    return 0


def queue_columns(seen: Board) -> list[Column]:
    """Columns of queues: state, and allocated and deserved per resource."""
    return [
        Column("Queue", lambda queue: "  " * queue.depth + queue.name),
        Column("State", lambda queue: queue.state, coloured=True, spare=1),
        Column("Weight", lambda queue: str(queue.weight), spare=2),
        Column("Share", lambda queue: f"{queue.share(seen.total):.0%}"),
        *amount_columns(seen.total),
        Column("Running", lambda queue: str(seen.running(queue.name))),
        Column("Waiting", lambda queue: str(seen.waiting(queue.name))),
    ]


def job_columns(seen: Board) -> list[Column]:
    """Columns of jobs: gang, share and reason for waiting."""
    return [
        Column("Job", lambda job: job.key.name),
        Column("Namespace", lambda job: job.key.namespace, spare=3),
        Column("Queue", lambda job: job.queue),
        Column("Phase", lambda job: job.phase, coloured=True),
        Column("Ready", lambda job: f"{job.ready}/{job.wanted}"),
        Column("Min", lambda job: str(job.minimum), spare=5),
        Column("Share", lambda job: f"{job.dominant(seen.total):.0%}", spare=4),
        Column("Age", lambda job: human_duration(seen.now - job.created)),
        Column("Waits for", lambda job: job.waits_for, sentence=True),
    ]


def gpu_columns() -> list[Column]:
    """Columns of GPUs of local nodes: load, memory and health."""
    return [
        Column("Node", lambda gpu: gpu.node),
        Column("GPU", lambda gpu: gpu.uuid),
        Column("Name", lambda gpu: gpu.name, spare=2),
        Column("Load", lambda gpu: "" if gpu.utilization is None else f"{gpu.utilization:.0%}"),
        Column("Memory", lambda gpu: f"{gpu.memory_used / GIB:.1f}/{gpu.memory / GIB:.0f}Gi"),
        Column("Celsius", lambda gpu: "" if gpu.temperature is None else f"{gpu.temperature:.0f}", spare=3),
        Column("Watts", lambda gpu: "" if gpu.power is None else f"{gpu.power:.0f}", spare=4),
        Column("Health", lambda gpu: "healthy" if gpu.healthy else "failed", spare=1),
    ]


def as_data(seen: Board) -> Manifest:
    """Rows as plain data; amounts in cores, bytes and devices."""
    return {
        "cluster": {"nodes": seen.nodes, "total": dict(seen.total), "used": dict(seen.used)},
        "queues": [queue_data(queue, seen.total) for queue in seen.queues],
        "jobs": [
            {
                "namespace": job.key.namespace,
                "name": job.key.name,
                "queue": job.queue,
                "phase": job.phase,
                "minAvailable": job.minimum,
                "ready": job.ready,
                "pods": job.wanted,
                "holds": dict(job.holds),
                "share": round(job.dominant(seen.total), 4),
                **({"waitsFor": job.waits_for} if job.waits_for else {}),
            }
            for job in seen.jobs
        ],
        **({"gpus": [_gpu_data(gpu) for gpu in seen.gpus]} if seen.gpus else {}),
    }


def _gpu_data(gpu: GpuFigures) -> Manifest:
    return {
        "node": gpu.node,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "healthy": gpu.healthy,
        "memoryUsed": gpu.memory_used,
        "memory": gpu.memory,
        **({"utilization": gpu.utilization} if gpu.utilization is not None else {}),
        **({"temperature": gpu.temperature} if gpu.temperature is not None else {}),
        **({"power": gpu.power} if gpu.power is not None else {}),
    }
