"""Screens of `vcctl top` as lines of styled text, computed from board and view only."""

from collections.abc import Callable, Sequence
from typing import Any

from volcano.base.clock import timestamp
from volcano.cli.printing.bars import LEGEND, STYLES, Gauge, bar
from volcano.cli.top.columns import CHOSEN, GAP, NARROWEST_BAR, Column, Pieces, clipped, columns_of
from volcano.cli.top.view import JOBS, NODES, PODS, QUEUES, Place, View, position, window
from volcano.views.amounts import resource_names, short_name, shown
from volcano.views.board import Board
from volcano.views.jobs import WAITING, JobRow
from volcano.views.nodes import NodeRow
from volcano.views.pods import PodRow
from volcano.views.queues import QueueShare

KEYS = "↑↓ move  ⏎ open  ⎋ back  s sort  / filter  n nodes  ? help  q quit"
JOB_KEYS = "↑↓ move  ⏎ pods  ⎋ back  p suspend  r resume  d delete  n nodes  ? help  q quit"
HELP_LINES = (
    ("↑ ↓  j k", "move; Page Up, Page Down, Home and End too"),
    ("⏎  →  l", "open the jobs of a queue, the pods of a job"),
    ("⎋  ←  h", "go back; clear a filter first"),
    ("s", "change the order"),
    ("/", "filter rows; ⏎ keeps the filter, ⎋ clears it"),
    ("n", "nodes with their pods and used resources; again: back"),
    ("p", "suspend the selected job, after confirmation"),
    ("r", "resume the selected job"),
    ("d", "delete the selected job, after confirmation"),
    ("?", "this help; any key closes it"),
    ("q", "quit"),
)


def identities(board: Board, place: Place) -> list[str]:
    """Identities of the rows of a screen, in display order."""
    return [_identity(row) for row in rows(board, place)]


def rows(board: Board, place: Place) -> list[Any]:
    """Rows of a screen after filter and sort."""
    found: Sequence[Any]
    if place.level == QUEUES:
        found = board.queues
    elif place.level == JOBS:
        found = board.jobs_in(place.queue)
    elif place.level == NODES:
        found = board.node_rows()
    else:
        found = board.pods_of(place.job)
    wanted = place.pattern.lower()
    kept = [row for row in found if wanted in _text(row).lower()]
    return kept if place.order == "tree" else sorted(kept, key=_order(board, place))


def render(board: Board, view: View, source: str, width: int, height: int, message: str = "") -> list[Pieces]:
    """Renders a screen: `height` lines, none longer than `width`."""
    if view.helping:
        return _help(width, height)
    place, shown_rows = view.place, rows(board, view.place)
    names = [_identity(row) for row in shown_rows]
    chosen = position(place.selected, names)
    head = [*_summary(board, source, width, message), *_path(view), []]
    columns = columns_of(board, place, shown_rows, width)
    foot = [[], *_detail(board, place, shown_rows[chosen] if shown_rows else None), _keys(view, width)]
    room = max(height - len(head) - len(foot) - 1, 1)
    body = [_headers(columns, width)]
    for index in window(chosen, len(shown_rows), room):
        body.append(_line(columns, shown_rows[index], width, marked=index == chosen))
    if not shown_rows:
        body.append([(f"  {_emptiness(board, place)}", "dim")])
    body += [[] for _ in range(room + 1 - len(body))]
    return [clipped(line, width) for line in (*head, *body, *foot)][:height]


def _emptiness(board: Board, place: Place) -> str:
    """Message for an empty screen."""
    if place.pattern:
        return f"nothing matches {place.pattern!r}"
    waits = next((job.waits_for for job in board.jobs if place.level == PODS and job.key == place.job), "")
    return f"no pods yet: {waits}" if waits else f"no {place.level} here"


# header and footer


def _summary(board: Board, source: str, width: int, message: str) -> list[Pieces]:
    running = sum(job.phase == "Running" for job in board.jobs)
    waiting = sum(job.phase in WAITING for job in board.jobs)
    first: Pieces = [
        ("volcano top", "bold"),
        (f"  {timestamp(board.now)[11:19]}  ", "dim"),
        (f"{running} job{'' if running == 1 else 's'} running", "green" if running else ""),
        ("  ", ""),
        (f"{waiting} waiting", "yellow" if waiting else ""),
        (f"  {board.nodes} node{'' if board.nodes == 1 else 's'}", ""),
        (f"  {source}", "dim"),
    ]
    return [first, _totals(board, width), *([[(message, "bold red")]] if message else [])]


def _totals(board: Board, width: int) -> Pieces:
    """Cluster use by resource; bars take the space that numbers leave."""
    figures = {
        name: f" {shown(name, board.used.get(name, 0.0))}/{shown(name, board.total.get(name, 0.0))}"
        for name in resource_names(board.total)
    }
    written = sum(len(short_name(name)) + 1 + len(text) + GAP for name, text in figures.items())
    size = min(max((width - written) // len(figures), NARROWEST_BAR // 2), 16)
    line: Pieces = []
    for name, text in figures.items():
        gauge = Gauge(board.used.get(name, 0.0), board.total.get(name, 0.0))
        line += [(f"{short_name(name)} ", "bold"), *bar(gauge, size), (text + " " * GAP, "")]
    return line


def _path(view: View) -> list[Pieces]:
    steps = [_step(place) for place in view.places]
    line: Pieces = [("", ""), (" › ".join(steps), "bold cyan")]
    place = view.place
    line.append((f"   by {place.order}", "dim"))
    if view.typing or place.pattern:
        line += [
            ("   filter: ", "dim"),
            (place.pattern, "bold yellow"),
            ("▏" if view.typing else "", "bold yellow"),
        ]
    return [[], line]


def _step(place: Place) -> str:
    if place.level == JOBS and place.queue:
        return f"queue {place.queue}"
    return f"job {place.job}" if place.level == PODS else place.level


def _help(width: int, height: int) -> list[Pieces]:
    lines: list[Pieces] = [[("vcctl top: keys", "bold")], []]
    lines += [[(f"  {keys:<10}", "bold cyan"), (text, "")] for keys, text in HELP_LINES]
    lines += [[], [(f"  {LEGEND}", "dim")]]
    lines += [[] for _ in range(height - len(lines))]
    return [clipped(line, width) for line in lines][:height]


def _detail(board: Board, place: Place, row: Any) -> list[Pieces]:
    """Two lines about the selected row."""
    if isinstance(row, QueueShare):
        return [_amounts_line(board, row), [(LEGEND, "dim")]]
    if isinstance(row, JobRow):
        waits = f"waits: {row.waits_for}" if row.waits_for else ""
        return [[(f"{row.key}", "bold"), (f"  queue {row.queue}", "")], [(waits, "yellow")]]
    if isinstance(row, PodRow):
        asked = ", ".join(
            f"{short_name(name)} {shown(name, amount)}" for name, amount in row.requests.items()
        )
        return [[(f"{row.key}", "bold")], [(f"requests {asked or 'nothing'}", "")]]
    if isinstance(row, NodeRow):
        free = ", ".join(
            f"{short_name(name)} {shown(name, row.allocatable[name] - row.used.get(name, 0.0))}"
            for name in resource_names(board.total)
            if name in row.allocatable
        )
        return [[(row.key.name, "bold"), (f"  {row.status}", "")], [(f"free: {free}", "")]]
    return [[], []]


def _amounts_line(board: Board, queue: QueueShare) -> Pieces:
    line: Pieces = [(queue.name, "bold"), ("  ", "")]
    for resource in resource_names(board.total):
        line.append((f"{short_name(resource)} {shown(resource, queue.allocated.get(resource, 0.0))}", "bold"))
        for mark, values in (("[", queue.guarantee), ("|", queue.deserved), ("]", queue.capability)):
            if resource in values:
                line += [(f" {mark}", STYLES[mark]), (shown(resource, values[resource]), "")]
        line.append(("   ", ""))
    return line


def _keys(view: View, width: int) -> Pieces:
    """Keys of the screen, or the question that waits for an answer."""
    if view.asking is not None:
        question = f"{view.asking.action} job {view.asking.job}? y: yes, any other key: no"
        return [(question.ljust(width)[:width], "bold yellow reverse")]
    keys = JOB_KEYS if view.place.level == JOBS and len(JOB_KEYS) <= width else KEYS
    return [(keys.ljust(width)[:width], "reverse")]


# rows


def _identity(row: Any) -> str:
    return row.name if isinstance(row, QueueShare) else str(row.key)


def _text(row: Any) -> str:
    """Text that a filter is applied to."""
    if isinstance(row, QueueShare):
        return f"{row.name} {row.state}"
    if isinstance(row, JobRow):
        return f"{row.key} {row.queue} {row.phase}"
    if isinstance(row, NodeRow):
        return f"{row.key.name} {row.status}"
    return f"{row.key} {row.task} {row.status} {row.node}"


def _order(board: Board, place: Place) -> Callable[[Any], Any]:
    orders: dict[tuple[str, str], Callable[[Any], Any]] = {
        (QUEUES, "share"): lambda queue: (-queue.share(board.total), queue.name),
        (QUEUES, "waiting"): lambda queue: (-board.waiting(queue.name), queue.name),
        (QUEUES, "name"): lambda queue: queue.name,
        (JOBS, "name"): lambda job: job.key,
        (JOBS, "share"): lambda job: (-job.dominant(board.total), job.key),
        (JOBS, "phase"): lambda job: (job.phase, job.key),
        (JOBS, "age"): lambda job: (-job.created, job.key),
        (PODS, "name"): lambda pod: (pod.task, pod.index, pod.key),
        (PODS, "node"): lambda pod: (pod.node, pod.task, pod.index),
        (PODS, "status"): lambda pod: (pod.status, pod.task, pod.index),
        (PODS, "age"): lambda pod: (-pod.created, pod.task, pod.index),
        (NODES, "name"): lambda node: node.key,
        (NODES, "used"): lambda node: (-node.dominant(), node.key),
        (NODES, "status"): lambda node: (node.status, node.key),
        (NODES, "pods"): lambda node: (-node.pods, node.key),
    }
    return orders[place.level, place.order]


def _headers(columns: Sequence[Column], width: int) -> Pieces:
    line: Pieces = [(" " * len(CHOSEN), "")]
    for column in columns:
        size = column.width or len(column.header)
        text = column.header[:size]
        line.append(((text.rjust(size) if column.right else text.ljust(size)) + " " * GAP, "bold"))
    return line


def _line(columns: Sequence[Column], row: Any, width: int, *, marked: bool) -> Pieces:
    line: Pieces = [(CHOSEN if marked else " " * len(CHOSEN), "bold cyan")]
    for column in columns:
        cell = column.cell(row)
        length = sum(len(text) for text, _ in cell)
        if column.width and length > column.width:
            cell = [*clipped(cell, column.width - 1), ("…", "dim")]
            length = column.width
        padding = " " * (column.width - length) if column.width else ""
        if column.right:
            line += [(padding, ""), *cell, (" " * GAP, "")]
        else:
            line += [*cell, (padding + " " * GAP, "")]
    if marked:
        return [(text, f"bold {style}".strip()) for text, style in line]
    return line
