"""Reasons: why no domain takes a job or sub-group: the domains examined, the best of them, and what it lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volcano.model.resources import PODS, STEP, shown
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.diagnosis import Amount, Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.domain_table import Numbers
from volcano.scheduler.engine.topology.cycle import TopologyCycle
from volcano.scheduler.engine.topology.demand import Limit
from volcano.scheduler.engine.topology.rooms import Room

STAGE = "topology"
HOLDS = "job holds {}"
RESTART = "RestartJob would move it"
MOST_PROBLEMS = 3  # HyperNodes with problems that are named


@dataclass(frozen=True, slots=True)
class Shortage:
    """Resources that the best domain lacks."""

    text: str
    resource: str = ""
    need: float = 0.0
    have: float = 0.0
    code: Code = Code.TOPOLOGY_FULL


def no_room(
    session: TopologyCycle,
    queue: str,
    tasks: Mapping[Shape, Sequence[Task]],
    wanted: int,
    limit: Limit | None,
    examined: Numbers,
    held: int | None,
) -> Shortage:
    """`0/40 hypernodes of tier ≤ 1 have room: rack-7 has room for 6 of 8 pods; nvidia.com/gpu short by 16`."""
    topology = session.topology
    if held is not None and limit is not None and not len(examined):
        domain = topology.view.domains[held]
        where = topology.view.shown(held)
        text = f"of tier {domain.tier}, above the highest tier {limit.tier} that it allows"
        return Shortage(f"{HOLDS.format(where)} {text}; {RESTART}", code=Code.TOPOLOGY_LIMIT)
    if limit is not None and not len(examined):
        return Shortage(
            f"there is no hypernode of tier ≤ {limit.tier} in the domain of the job" + _left_out(session),
            code=Code.UNKNOWN_TIER,
        )
    room = topology.rooms.total(tasks, queue, pipelined=True)
    best = _best(session, queue, tasks, room, examined)
    lacks = _lacks(session, queue, tasks, wanted, best, int(room[best]))
    where = topology.view.shown(best)
    fitting = f"{where} has room for {min(int(room[best]), wanted)} of {wanted} pods{lacks.text}"
    if held is not None:
        text = f"{HOLDS.format(topology.view.shown(held))}; {fitting}"
    elif len(examined) == 1 and best == topology.view.root:
        text = fitting
    else:
        tier = f" of tier ≤ {limit.tier}" if limit is not None and limit.hard else ""
        text = f"0/{len(examined)} hypernodes{tier} have room: {fitting}"
    code = lacks.code
    if code is Code.TOPOLOGY_FULL and not _enough_if_empty(session, queue, tasks, wanted, examined):
        code = Code.TOPOLOGY_LIMIT
    return Shortage(text + _left_out(session), lacks.resource, lacks.need, lacks.have, code)


def diagnosis(job: str, found: Shortage) -> Diagnosis:
    amounts = (Amount(found.resource, found.need, found.have),) if found.resource else ()
    return Diagnosis(
        job,
        STAGE,
        found.text,
        "",
        found.resource,
        found.need,
        found.have,
        code=found.code,
        amounts=amounts,
    )


def _enough_if_empty(
    session: TopologyCycle, queue: str, tasks: Mapping[Shape, Sequence[Task]], wanted: int, examined: Numbers
) -> bool:
    """Whether one of the domains could take the tasks if its nodes were empty, each shape as if alone."""
    found = np.zeros(len(session.snapshot.topology), dtype=np.intp)
    for alike in tasks.values():
        rooms = session.placer.rooms_if_empty(alike[0], queue)
        found += np.minimum(session.snapshot.topology.sums(rooms), len(alike))
    return bool((found[examined] >= wanted).any())


def _best(
    session: TopologyCycle,
    queue: str,
    tasks: Mapping[Shape, Sequence[Task]],
    room: Numbers,
    examined: Numbers,
) -> int:
    """The domain with the fewest missing pods; of several the one with the most free resources, then the first."""
    fullest = examined[room[examined] == room[examined].max()]
    if len(fullest) == 1:
        return int(fullest[0])
    alike = next(iter(tasks.values()))
    found = session.topology.rooms.of(alike[0], queue, pipelined=True)
    if found is None:
        return int(fullest[0])
    request = alike[0].request
    asked = request > 0
    free = found.free_by_domain()[fullest][:, asked] / request[asked]
    return int(fullest[int(free.min(axis=1).argmax())])


def _lacks(
    session: TopologyCycle,
    queue: str,
    tasks: Mapping[Shape, Sequence[Task]],
    wanted: int,
    best: int,
    total: int,
) -> Shortage:
    """Resources that the best domain lacks for the shape that lacks most of it."""
    placed = session.topology.rooms
    missing: list[tuple[int, Sequence[Task], Room]] = []
    for alike in tasks.values():
        room = placed.of(alike[0], queue, pipelined=True)
        if room is None:
            fit_error = session.placer.fit_error(alike[0], queue)
            return Shortage(f"; {fit_error.sentence().rstrip('.')}", code=fit_error.code)
        missing.append((len(alike) - int(room.in_domain[best]), alike, room))
    _, alike, room = max(missing, key=lambda found: found[0])
    many = min(len(alike), wanted) if len(tasks) == 1 else len(alike)
    request, free = alike[0].request, room.free_by_domain()[best]
    need = request * many
    short = (request > 0) & (need >= free + STEP)
    short[PODS] = short[PODS] and not short[:PODS].any() and not short[PODS + 1 :].any()
    if short.any():
        column = int(np.where(short, free / np.maximum(need, STEP), np.inf).argmin())
        name = session.resources.names[column]
        amount = shown(name, need.item(column) - free.item(column))
        return Shortage(f"; {name} short by {amount}", name, need.item(column), free.item(column))
    rows = session.topology.view.rows_of(best)
    excluded = int((~room.passed[rows]).sum())
    if excluded:
        return Shortage(f"; {excluded} of its {len(rows)} nodes are excluded by predicates")
    if total >= wanted:
        return Shortage("; constraints between pods exclude the rest")
    return Shortage("; its free resources are split over too many nodes")


def _left_out(session: TopologyCycle) -> str:
    """`; left out of the tree: s4 (Cycle)`, when HyperNodes have problems."""
    problems = list(session.topology.view.tree.problems.values())
    if not problems:
        return ""
    names = ", ".join(f"{found.hypernode} ({found.reason})" for found in problems[:MOST_PROBLEMS])
    more = f" and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
    return f"; HyperNodes that are not ready: {names}{more}"
