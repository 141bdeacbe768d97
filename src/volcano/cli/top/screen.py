"""The screens of `vcctl top`, as lines of styled text: what is on them follows from the board and the view alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.tables.reading import human_duration
from volcano.cli.colours import style_of
from volcano.cli.top.bars import LEGEND, STYLES, Gauge, bar
from volcano.cli.top.board import WAITING, Board, JobRow, PodRow
from volcano.cli.top.shares import Amounts, QueueShare, resource_names, short_name, shown
from volcano.cli.top.view import JOBS, PODS, QUEUES, Place, View, position, window
from volcano.clock import timestamp

# A line, or a cell of it: pieces of text, each with its style.
Pieces = list[tuple[str, str]]

GAP = 2
NARROWEST_BAR, WIDEST_BAR = 7, 36
KEYS = "↑↓ move  ⏎ open  ⎋ back  s sort  / filter  q quit"
CHOSEN = "▶ "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a screen; the one without a width takes what the others leave."""

    header: str
    cell: Callable[[Any], Pieces]
    width: int = 0
    right: bool = False


def identities(board: Board, place: Place) -> list[str]:
    """What identifies the rows of a screen, in the order shown."""
    return [_identity(row) for row in rows(board, place)]


def rows(board: Board, place: Place) -> list[Any]:
    """The rows of a screen: those of its level that the filter lets through, in the order chosen."""
    found: Sequence[Any]
    if place.level == QUEUES:
        found = board.queues
    elif place.level == JOBS:
        found = board.jobs_in(place.queue)
    else:
        found = board.pods.get(place.job, ())
    wanted = place.pattern.lower()
    kept = [row for row in found if wanted in _text(row).lower()]
    return kept if place.order == "tree" else sorted(kept, key=_order(board, place))


def render(board: Board, view: View, source: str, width: int, height: int, trouble: str = "") -> list[Pieces]:
    """The whole screen: `height` lines, none longer than `width`."""
    place, shown_rows = view.place, rows(board, view.place)
    names = [_identity(row) for row in shown_rows]
    chosen = position(place.selected, names)
    head = [*_summary(board, source, width, trouble), *_path(view), []]
    columns = _columns(board, place, shown_rows, width)
    foot = [[], *_detail(board, place, shown_rows[chosen] if shown_rows else None), _keys(place, width)]
    room = max(height - len(head) - len(foot) - 1, 1)
    body = [_headers(columns, width)]
    for index in window(chosen, len(shown_rows), room):
        body.append(_line(columns, shown_rows[index], width, marked=index == chosen))
    if not shown_rows:
        body.append([(f"  {_emptiness(board, place)}", "dim")])
    body += [[] for _ in range(room + 1 - len(body))]
    return [clipped(line, width) for line in (*head, *body, *foot)][:height]


def _emptiness(board: Board, place: Place) -> str:
    """Why there are no rows."""
    if place.pattern:
        return f"nothing matches {place.pattern!r}"
    waits = next((job.waits_for for job in board.jobs if place.level == PODS and job.key == place.job), "")
    return f"no pods yet: {waits}" if waits else f"no {place.level} here"


def clipped(line: Pieces, width: int) -> Pieces:
    """The line cut to a width."""
    cut: Pieces = []
    for text, style in line:
        if width <= 0:
            break
        cut.append((text[:width], style))
        width -= len(text)
    return cut


# what is above and below the rows


def _summary(board: Board, source: str, width: int, trouble: str) -> list[Pieces]:
    running = sum(job.phase == "Running" for job in board.jobs)
    waiting = sum(job.phase in WAITING for job in board.jobs)
    first: Pieces = [
        ("volcano top", "bold"),
        (f"  {timestamp(board.now)[11:19]}  ", "dim"),
        (f"{running} jobs running", "green" if running else ""),
        ("  ", ""),
        (f"{waiting} waiting", "yellow" if waiting else ""),
        (f"  {board.nodes} nodes", ""),
        (f"  {source}", "dim"),
    ]
    return [first, _totals(board, width), *([[(trouble, "bold red")]] if trouble else [])]


def _totals(board: Board, width: int) -> Pieces:
    """How full the cluster is, by resource; the bars take what the figures leave."""
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
    steps = ["queues"]
    for place in view.places[1:]:
        steps.append(f"queue {place.queue}" if place.level == JOBS else f"job {place.job}")
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


def _detail(board: Board, place: Place, row: Any) -> list[Pieces]:
    """Two lines about the chosen row, in figures."""
    if isinstance(row, QueueShare):
        return [_amounts_line(board, row), [(LEGEND, "dim")]]
    if isinstance(row, JobRow):
        waits = f"waits: {row.waits_for}" if row.waits_for else ""
        return [[(f"{row.key}", "bold"), (f"  queue {row.queue}", "")], [(waits, "yellow")]]
    if isinstance(row, PodRow):
        asked = ", ".join(
            f"{short_name(name)} {shown(name, amount)}" for name, amount in row.requests.items()
        )
        return [[(f"{row.key}", "bold")], [(f"asks for {asked or 'nothing'}", "")]]
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


def _keys(place: Place, width: int) -> Pieces:
    return [(KEYS.ljust(width)[:width], "reverse")]


# rows


def _identity(row: Any) -> str:
    return row.name if isinstance(row, QueueShare) else str(row.key)


def _text(row: Any) -> str:
    """What a filter looks at."""
    if isinstance(row, QueueShare):
        return f"{row.name} {row.state}"
    if isinstance(row, JobRow):
        return f"{row.key} {row.queue} {row.phase}"
    return f"{row.key} {row.task} {row.status} {row.node}"


def _order(board: Board, place: Place) -> Callable[[Any], Any]:
    orders: dict[tuple[str, str], Callable[[Any], Any]] = {
        (QUEUES, "share"): lambda queue: (-queue.share(board.total), queue.name),
        (QUEUES, "waiting"): lambda queue: (-_waiting(board, queue), queue.name),
        (QUEUES, "name"): lambda queue: queue.name,
        (JOBS, "name"): lambda job: job.key,
        (JOBS, "share"): lambda job: (-job.dominant(board.total), job.key),
        (JOBS, "phase"): lambda job: (job.phase, job.key),
        (JOBS, "age"): lambda job: (-job.created, job.key),
        (PODS, "name"): lambda pod: (pod.task, pod.index, pod.key),
        (PODS, "node"): lambda pod: (pod.node, pod.task, pod.index),
        (PODS, "status"): lambda pod: (pod.status, pod.task, pod.index),
        (PODS, "age"): lambda pod: (-pod.created, pod.task, pod.index),
    }
    return orders[place.level, place.order]


def _waiting(board: Board, queue: QueueShare) -> int:
    counts = board.counts.get(queue.name)
    return sum(counts[phase] for phase in WAITING) if counts else 0


def _running(board: Board, queue: QueueShare) -> int:
    counts = board.counts.get(queue.name)
    return counts["Running"] if counts else 0


def _columns(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    make = {QUEUES: _queue_columns, JOBS: _job_columns, PODS: _pod_columns}[place.level]
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
        Column("RUN", lambda queue: _count(_running(board, queue), "green"), 3, right=True),
        Column("WAIT", lambda queue: _count(_waiting(board, queue), "yellow"), 4, right=True),
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
    def age(job: JobRow) -> Pieces:
        return _plain(human_duration(board.now - job.created))

    def share(job: JobRow) -> Pieces:
        part = job.dominant(board.total)
        return [*bar(Gauge(part, 1.0), 10), (f"{part:5.0%}", "")]

    return [
        Column(
            "JOB", lambda job: [(job.key.name, "dim" if job.grouped_only else "")], _fit(found, "name", width)
        ),
        Column("NAMESPACE", lambda job: _plain(job.key.namespace), _fit(found, "namespace", width)),
        Column("PHASE", lambda job: [(job.phase, style_of(job.phase))], 11),
        Column("READY", lambda job: _plain(f"{job.ready}/{job.wanted}"), 7, right=True),
        Column("MIN", lambda job: _plain(job.minimum), 4, right=True),
        Column("SHARE", share, 15),
        Column("AGE", age, 6, right=True),
        *_amount_columns(board, lambda job: job.holds, width - 85),
        Column("WAITS FOR", lambda job: [(job.waits_for, "yellow")]),
    ]


def _pod_columns(board: Board, place: Place, found: Sequence[Any], width: int) -> list[Column]:
    return [
        Column("POD", lambda pod: _plain(pod.key.name), _fit(found, "name", width)),
        Column("TASK", lambda pod: _plain(pod.task), max((len(pod.task) for pod in found), default=4)),
        Column("STATUS", lambda pod: [(pod.status, style_of(pod.status))], 17),
        Column("NODE", lambda pod: _plain(pod.node or "–"), max((len(pod.node) for pod in found), default=4)),
        Column("RESTARTS", lambda pod: _count(pod.restarts, "yellow"), 8, right=True),
        Column("AGE", lambda pod: _plain(human_duration(board.now - pod.created)), 6, right=True),
        *_amount_columns(board, lambda pod: pod.requests, width - 70),
    ]


def _amount_columns(board: Board, of: Callable[[Any], Amounts], room: int) -> list[Column]:
    """A column of figures for each resource that fits."""

    def column(resource: str) -> Column:
        def cell(row: Any) -> Pieces:
            amount = of(row).get(resource, 0.0)
            return _plain(shown(resource, amount) if amount else "–")

        return Column(short_name(resource).upper(), cell, 8, right=True)

    return [column(resource) for resource in resource_names(board.total)[: max(room // 10, 0)]]


def _fit(found: Sequence[Any], part: str, width: int) -> int:
    """As wide as the longest name, within a third of the screen."""
    longest = max((len(getattr(row.key, part)) for row in found), default=0)
    return max(min(longest, width // 3), len(part))


def _plain(value: object) -> Pieces:
    return [(str(value), "")]


def _count(value: int, style: str) -> Pieces:
    return [(str(value), style if value else "dim")]


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
