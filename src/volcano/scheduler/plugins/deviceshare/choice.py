"""Choice of cards for one demand on many nodes at once: always those that come first in the order of the policy."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volcano.model.resources import Mask, Vector
from volcano.scheduler.plugins.deviceshare.card_table import Capacity, CardTable, Rows, Usage
from volcano.scheduler.plugins.deviceshare.facts import BINPACK, SPREAD, UNLIMITED, Demand, Part
from volcano.scheduler.plugins.deviceshare.mig import Ints

LAST = -(1 << 60)  # key of cards that do not fit


class Picked(NamedTuple):
    """Cards chosen on each row: whether there were enough, and by part the cards, their memory and the node's score."""

    enough: Mask  # (rows,)
    cards: list[Ints]  # (rows, number) for each part
    memory: list[Ints]  # as cards: what is taken of each
    score: Vector  # (rows,): sum over the cards of the part of its memory in use, in percent


class Needs(NamedTuple):
    """Need of a part on each card: memory, and the state of MIG after that."""

    memory: Ints
    after: Ints | None


def pick(table: CardTable, usages: Sequence[Usage], rows: Rows, demand: Demand, allowed: Mask) -> Picked:
    """Chooses cards for a demand on each row; a card has to fit in every usage, the first of which gives the order.

    `allowed` has one element for each of the rows and cards. Only full choices are valid, see `enough`.
    """
    capacity, views = table.capacity.at(rows), [usage.at(rows) for usage in usages]
    enough = np.ones(len(rows), dtype=np.bool_)
    cards: list[Ints] = []
    memory: list[Ints] = []
    score = np.zeros(len(rows))
    lines = np.arange(len(rows))[:, None]
    for part in demand.parts:
        if part.number > table.width:
            return Picked(np.zeros(len(rows), dtype=np.bool_), cards, memory, score)
        needs = [_needs(table, capacity, view, part) for view in views]
        fits = allowed.copy()
        for view, need in zip(views, needs, strict=True):
            fits &= fitting(capacity, view, part, need.memory)
        chosen = _first(_keys(table, capacity, views[0], demand, fits), fits, part.number)
        enough &= fits.sum(axis=1) >= part.number
        taken = needs[0].memory[lines, chosen]
        for view, need in zip(views, needs, strict=True):
            view.memory[lines, chosen] += need.memory[lines, chosen]
            view.cores[lines, chosen] += part.cores
            view.users[lines, chosen] += 1
            if need.after is not None:
                view.state[lines, chosen] = need.after[lines, chosen]
        if demand.distinct:
            allowed = allowed.copy()
            allowed[lines, chosen] = False
        cards.append(chosen)
        memory.append(taken)
        score += _filled(views[0].memory[lines, chosen], capacity.memory[lines, chosen]).sum(axis=1)
    return Picked(enough, cards, memory, score)


def fitting(capacity: Capacity, usage: Usage, part: Part, need: Ints) -> Mask:
    """Cards with room for one more share."""
    fits = (usage.users < capacity.split) & (capacity.memory - usage.memory >= need)
    all_cores = part.all_cores or capacity.cores
    fits &= usage.cores + part.cores <= all_cores
    if part.alone:
        fits &= usage.users == 0
    elif not part.cores:
        fits &= usage.cores < all_cores
    found: Mask = fits
    return found


def copies(table: CardTable, usages: Sequence[Usage], rows: Rows, demand: Demand, allowed: Mask) -> Ints:
    """How many times a single share fits on each card of each row. Not for cards that are divided into instances."""
    part, capacity = demand.parts[0], table.capacity.at(rows)
    count = np.where(allowed, UNLIMITED, 0)
    need = _memory_need(capacity, part)
    for usage in usages:
        view = usage.at(rows)
        fits = fitting(capacity, view, part, need)
        most = np.minimum(capacity.split - view.users, (capacity.memory - view.memory) // np.maximum(need, 1))
        if part.alone:
            most = np.minimum(most, 1)
        elif part.cores:
            most = np.minimum(most, ((part.all_cores or capacity.cores) - view.cores) // part.cores)
        count = np.minimum(count, np.where(fits, most, 0))
    found: Ints = count
    return found


def score_of_copy(
    table: CardTable, usage: Usage, rows: Rows, demand: Demand, room: Ints, copy: Ints
) -> Vector:
    """Score of the card that the copy with this number gets on each row, when `room` copies fit on each card."""
    capacity, view = table.capacity.at(rows), usage.at(rows)
    key = np.where(room > 0, view.memory, LAST)
    order = np.argsort(-key, axis=1, kind="stable")
    sorted_room = np.take_along_axis(room, order, axis=1)
    ends = np.cumsum(sorted_room, axis=1)
    at = np.minimum((ends <= copy[:, None]).sum(axis=1), table.width - 1)
    lines = np.arange(len(rows))
    card = order[lines, at]
    earlier = copy - (ends[lines, at] - sorted_room[lines, at])
    need = np.broadcast_to(_memory_need(capacity, demand.parts[0]), key.shape)[lines, card]
    used = view.memory[lines, card] + (earlier + 1) * need
    fits = ends[:, -1] > copy
    found: Vector = np.where(fits, _filled(used, capacity.memory[lines, card]), 0.0)
    return found


def _memory_need(capacity: Capacity, part: Part) -> Ints:
    if part.percent:
        found: Ints = capacity.memory * part.percent // 100
        return found
    return np.full_like(capacity.memory, part.memory)


def _needs(table: CardTable, capacity: Capacity, view: Usage, part: Part) -> Needs:
    need = _memory_need(capacity, part)
    if not table.has_instances or not view.state.any():
        return Needs(need, None)
    divided = view.state > 0
    memory, after = need.copy(), view.state.copy()
    for each in np.unique(need[divided]).tolist():
        same = divided & (need == each)
        memory[same], after[same] = table.states.lookup(each, view.state[same])
    return Needs(memory, after)


def part_needs(table: CardTable, capacity: Capacity, view: Usage, part: Part) -> Ints:
    """Memory that a part takes of each card; more than the card has where no MIG instance suffices."""
    return _needs(table, capacity, view, part).memory


def _keys(table: CardTable, capacity: Capacity, view: Usage, demand: Demand, fits: Mask) -> Ints:
    """Keys of cards; the highest goes first, then the lower index."""
    kind = table.kind
    if kind.policy == BINPACK:
        key = view.memory
    elif kind.policy == SPREAD:
        key = -view.users
    else:
        key = capacity.index if kind.highest_first else -capacity.index
    if demand.connected and (capacity.network >= 0).any():
        known = fits & (capacity.network >= 0)
        same = capacity.network[:, :, None] == capacity.network[:, None, :]
        size = (same & known[:, None, :]).sum(axis=2) * known
        key = key + size * (1 << 45)
    found: Ints = key
    return found


def _first(keys: Ints, fits: Mask, number: int) -> Ints:
    """The cards that go first, (rows, number)."""
    sorting = np.where(fits, keys, LAST)
    one = number == 1
    found: Ints = (
        sorting.argmax(axis=1)[:, None] if one else np.argsort(-sorting, axis=1, kind="stable")[:, :number]
    )
    return found


def _filled(used: Ints, total: Ints) -> Vector:
    found: Vector = 100.0 * used / np.maximum(total, 1)
    return found


def largest_network(capacity: Capacity, allowed: Mask) -> Vector:
    """Part of a node's cards that belong to its largest group of connected ones."""
    known = allowed & (capacity.network >= 0)
    same = (
        (capacity.network[:, :, None] == capacity.network[:, None, :]) & known[:, None, :] & known[:, :, None]
    )
    most = same.sum(axis=2).max(axis=1, initial=0)
    found: Vector = most / np.maximum((capacity.memory > 0).sum(axis=1), 1)
    return found
