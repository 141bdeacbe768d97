"""Reasons why cards do not suffice: what would be needed, and what each card lacks."""

from collections import Counter
from collections.abc import Iterator

from volcano.model.resources import Mask
from volcano.model.task import Shape
from volcano.scheduler.plugins.deviceshare.card_table import Rows, Usage
from volcano.scheduler.plugins.deviceshare.choice import part_needs
from volcano.scheduler.plugins.deviceshare.facts import Demand, Kind, Part
from volcano.scheduler.plugins.deviceshare.placements import Placements

UUID, MODE = "excluded by UUID", "in mode "


def reason(
    placements: Placements,
    demand: Demand,
    shape: Shape,
    rows: Rows,
    usage: Usage,
    closed: Mask | None = None,
    why_closed: str = "",
) -> str:
    """One sentence for these rows together: `no GPU has 12000 MiB free: 2 too little memory, 1 unhealthy`.

    `closed` are cards that a rule closes to the pod. A pod with several containers is described by the first of them
    that no node has cards for, or else by the last: it finds what the others left.
    """
    kind = placements.kind
    part = demand.parts[-1]
    counts: Counter[str] = Counter()
    for each in demand.parts:
        counts = Counter(_lacking(placements, each, shape, rows, usage, closed, why_closed))
        part = each
        if not counts[""]:
            break
    fitting = counts.pop("", 0)
    total = fitting + counts.total()
    detail = ", ".join(f"{count} {what}" for what, count in sorted(counts.items(), key=lambda item: -item[1]))
    if not total:
        return f"node(s) had no registered {kind.noun}"
    if counts[UUID] == total:
        return f"no GPU matches UUID constraints: {detail}"
    if not fitting and len(counts) == 1 and detail.partition(" ")[2].startswith(MODE) and shape.devices:
        wanted = (
            next(iter(shape.devices.annotations.values()), "") if len(shape.devices.annotations) == 1 else ""
        )
        mode = detail.partition(MODE)[2]
        if wanted:
            return f"pod required sharing mode {wanted} is not the same as the node mode {mode}: {detail}"
    if fitting:
        detail = f"{fitting} suitable, {detail}" if detail else f"{fitting} suitable"
    return f"{_head(kind, part, several=len(demand.parts) > 1)}: {detail}"


def _head(kind: Kind, part: Part, *, several: bool) -> str:
    """Requirement that cards have to meet, as text."""
    memory = (
        f"{part.percent}% of its memory"
        if part.percent
        else f"{part.memory} {kind.unit}"
        if part.memory
        else ""
    )
    cores = f"{part.cores}% of its cores" if part.cores and not part.alone else ""
    free = " and ".join(filter(None, (memory, cores)))
    offered = f"has {free} free" if free else "is unused"
    if part.alone and free:
        offered = f"with {free} is unused"
    if part.number > 1:
        offered = (
            offered.replace("has ", "have ", 1).replace("is unused", "are unused").replace("its", "their")
        )
    count = f"fewer than {part.number} {kind.noun}s" if part.number > 1 else f"no {kind.noun}"
    return f"{count} {offered}" + (" for every container" if several else "")


def _lacking(
    placements: Placements,
    part: Part,
    shape: Shape,
    rows: Rows,
    usage: Usage,
    closed: Mask | None,
    why_closed: str,
) -> Iterator[str]:
    """For each card of these rows the first thing it lacks; "" for a card that fits."""
    table, kind = placements.table, placements.kind
    capacity, view = table.capacity.at(rows), usage.at(rows)
    need = part_needs(table, capacity, view, part)
    for line, row in enumerate(rows.tolist()):
        for column, card in enumerate(table.cards[row]):
            free = card.memory - int(view.memory[line, column])
            cores = (part.all_cores or card.cores) - int(view.cores[line, column])
            if excluded := kind.excluded(shape, card):
                yield excluded
            elif closed is not None and closed[line, column]:
                yield why_closed
            elif view.users[line, column] >= card.split:
                yield "shared as often as allowed"
            elif part.alone and view.users[line, column]:
                yield "in use"
            elif card.geometry and need[line, column] > card.memory:
                yield "without a free MIG instance of that size"
            elif free < need[line, column]:
                yield "too little memory"
            elif cores < part.cores or (not part.cores and cores <= 0):
                yield "too few cores"
            else:
                yield ""
