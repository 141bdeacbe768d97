"""Columns of the screens of `vcctl top`, and their widths."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.cli.printing.bars import Gauge, bar
from volcano.cli.printing.colours import style_of
from volcano.cli.top.view import JOBS, NODES, PODS, QUEUES, Place
from volcano.kube.api.duration import human_duration
from volcano.views.amounts import Amounts, resource_names, short_name, shown
from volcano.views.board import Board
from volcano.views.devices import GpuFigures
from volcano.views.jobs import JobRow
from volcano.views.nodes import NodeRow
from volcano.views.queues import QueueShare

# Pieces of text with styles: a line or a cell.
Pieces = list[tuple[str, str]]

GAP = 2
NARROWEST_BAR, WIDEST_BAR = 7, 36
CHOSEN = "▶ "
GIB = 1 << 30
ROOMY = 100  # columns of a terminal with space for a bar beside each job


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a screen; the one without a width takes the remaining space."""

    header: str
    cell: Callable[[Any], Pieces]
    width: int = 0
    right: bool = False


def columns_of(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    make = {QUEUES: _queue_columns, JOBS: _job_columns, PODS: _pod_columns, NODES: _node_columns}[place.level]
    return make(board, place, found, width)


def _queue_columns(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    indented = place.order == "tree"
    name = max((len(_indented(queue, indented)) for queue in found), default=5)
    state = max((len(queue.state) for queue in found), default=0)
    state = max(state, len("STATE"))
    columns = [
        Column("QUEUE", lambda queue: [(_indented(queue, indented), "")], max(min(name, width // 3), 5)),
        Column("STATE", lambda queue: [(queue.state, style_of(queue.state))], state),
        Column("WEIGHT", lambda queue: _plain(queue.weight), 6, right=True),
        Column("RUN", lambda queue: _count(board.running(queue.name), "green"), 3, right=True),
        Column("WAIT", lambda queue: _count(board.waiting(queue.name), "yellow"), 4, right=True),
    ]
    left = width - len(CHOSEN) - sum(column.width + GAP for column in columns)
    names = resource_names(board.total)[: max(left // (NARROWEST_BAR + GAP), 1)]
    size = min(max(left // len(names) - GAP, 0), WIDEST_BAR)
    return columns + [_bar_column(board, resource, size) for resource in names]


def _indented(queue: QueueShare, indented: bool) -> str:
    return "  " * queue.depth + queue.name if indented else queue.name


def _bar_column(board: Board, resource: str, size: int) -> Column:
    total = board.total.get(resource, 0.0)

    def cell(queue: QueueShare) -> Pieces:
        gauge = Gauge(
            queue.allocated.get(resource, 0.0), total, queue.guarantee.get(resource),
            None if queue.parent == "" and queue.computed else queue.deserved.get(resource),
            queue.capability.get(resource),
        )  # fmt: skip
        return bar(gauge, size)

    name, amount = short_name(resource).upper(), shown(resource, total)
    headers = (f"{name} of {amount}", f"{name} {amount}", name)
    return Column(next((header for header in headers if len(header) <= size), name), cell, size)


def _job_columns(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    roomy = width >= ROOMY

    def age(job: JobRow) -> Pieces:
        return _plain(human_duration(board.now - job.created))

    def share(job: JobRow) -> Pieces:
        part = job.dominant(board.total)
        return [*(bar(Gauge(part, 1.0), 10) if roomy else []), (f"{part:5.0%}", "")]

    return [
        Column(
            "JOB", lambda job: [(job.key.name, "dim" if job.grouped_only else "")], _fit(found, "name", width)
        ),
        Column("NAMESPACE", lambda job: _plain(job.key.namespace), _fit(found, "namespace", width)),
        Column("PHASE", lambda job: [(job.phase, style_of(job.phase))], 11),
        Column("READY", lambda job: _plain(f"{job.ready}/{job.wanted}"), 7, right=True),
        Column("MIN", lambda job: _plain(job.minimum), 4, right=True),
        Column("SHARE", share, 15 if roomy else 5),
        Column("AGE", age, 6, right=True),
        *_amount_columns(board, lambda job: job.holds, width - 85),
        Column("WAITS FOR", lambda job: [(job.waits_for, "yellow")]),
    ]


def _pod_columns(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    return [
        Column("POD", lambda pod: _plain(pod.key.name), _fit(found, "name", width)),
        Column("TASK", lambda pod: _plain(pod.task), _longest("TASK", (pod.task for pod in found))),
        Column("STATUS", lambda pod: [(pod.status, style_of(pod.status))], 17),
        Column("NODE", lambda pod: _plain(pod.node or "–"), _longest("NODE", (pod.node for pod in found))),
        Column("RESTARTS", lambda pod: _count(pod.restarts, "yellow"), 8, right=True),
        Column("AGE", lambda pod: _plain(human_duration(board.now - pod.created)), 6, right=True),
        *_amount_columns(board, lambda pod: pod.requests, width - 70),
    ]


def _node_columns(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    status = max((len(node.status) for node in found), default=6)
    columns = [
        Column("NODE", lambda node: _plain(node.key.name), _fit(found, "name", width)),
        Column("STATUS", lambda node: [(node.status, style_of(node.status))], max(status, 6)),
        Column("PODS", lambda node: _count(node.pods, "green"), 4, right=True),
        Column("AGE", lambda node: _plain(human_duration(board.now - node.created)), 6, right=True),
    ]
    if board.gpus:
        columns.append(Column("GPU LOAD", lambda node: _plain(gpu_text(node.gpus)), 17))
    left = width - len(CHOSEN) - sum(column.width + GAP for column in columns)
    names = resource_names(board.total)[: max(left // (2 * NARROWEST_BAR + GAP), 1)]
    size = min(max(left // len(names) - GAP, 0), WIDEST_BAR)
    return columns + [_node_usage(resource, size) for resource in names]


def _node_usage(resource: str, size: int) -> Column:
    """Bar and numbers of one resource of a node."""

    def cell(node: NodeRow) -> Pieces:
        used, most = node.used.get(resource, 0.0), node.allocatable.get(resource, 0.0)
        figures = f" {shown(resource, used)}/{shown(resource, most)}"
        return [*bar(Gauge(used, most), max(size - len(figures), 0)), (figures, "")] if most else _plain("–")

    return Column(short_name(resource).upper(), cell, size)


def gpu_text(gpus: Sequence[GpuFigures]) -> str:
    """Average load and memory of the GPUs of a node, such as `97%  1.0/140 GiB`."""
    if not gpus:
        return "–"
    loads = [each.utilization for each in gpus if each.utilization is not None]
    load = f"{sum(loads) / len(loads):.0%}" if loads else "–"
    used, memory = (
        sum(values) / GIB for values in zip(*((e.memory_used, e.memory) for e in gpus), strict=True)
    )
    return f"{load:>4} {used:.1f}/{memory:.0f}Gi"


def _amount_columns(board: Board, of: Callable[[Any], Amounts], room: int) -> list[Column]:
    """One column of numbers per resource that fits."""

    def column(resource: str) -> Column:
        def cell(row: Any) -> Pieces:
            amount = of(row).get(resource, 0.0)
            return _plain(shown(resource, amount) if amount else "–")

        return Column(short_name(resource).upper(), cell, 8, right=True)

    return [column(resource) for resource in resource_names(board.total)[: max(room // 10, 0)]]


def _fit(found: Sequence[Any], part: str, width: int) -> int:
    """Width of the longest name, at most a third of the screen."""
    longest = max((len(getattr(row.key, part)) for row in found), default=0)
    return max(min(longest, width // 3), len(part))


def _longest(header: str, values: Iterable[str]) -> int:
    """Width of the longest value; a header is never truncated."""
    return max([len(header), *map(len, values)])


def _plain(value: object) -> Pieces:
    return [(str(value), "")]


def _count(value: int, style: str) -> Pieces:
    return [(str(value), style if value else "dim")]


def clipped(line: Pieces, width: int) -> Pieces:
    """Line truncated to a width."""
    cut: Pieces = []
    for text, style in line:
        if width <= 0:
            break
        cut.append((text[:width], style))
        width -= len(text)
    return cut
