"""Choice of cards for one demand on one node: the same as `choice.pick`, which is faster for many nodes."""

from collections.abc import Sequence
from typing import NamedTuple

from volcano.kube.devices.vgpu import mig_id
from volcano.scheduler.plugins.deviceshare.card_table import CardTable, Usage
from volcano.scheduler.plugins.deviceshare.facts import BINPACK, SPREAD, Card, Demand, Part, Share


class PickedOne(NamedTuple):
    """Shares of each part, and the sum of the percentages of memory in use on the cards."""

    shares: list[list[Share]]
    score: float


class View:
    """Usage of the cards of one node, as lists."""

    __slots__ = ("cores", "memory", "state", "users")

    def __init__(self, usage: Usage, row: int) -> None:
        self.memory: list[int]
        self.cores: list[int]
        self.users: list[int]
        self.state: list[int]
        self.memory, self.cores, self.users, self.state = usage.cells[:, row].tolist()


def pick_one(
    table: CardTable, usages: Sequence[Usage], row: int, demand: Demand, allowed: list[bool]
) -> PickedOne | None:
    """Chooses cards; None when they do not suffice. A card has to fit in every usage; the first gives the order."""
    if demand.single and len(usages) == 1 and not table.has_instances:
        return _pick_share(table, usages[0], row, demand.parts[0], allowed)
    cards = table.cards[row]
    views = [View(usage, row) for usage in usages]
    first = views[0]
    shares: list[list[Share]] = []
    score = 0.0
    for part in demand.parts:
        fits = [i for i, card in enumerate(cards) if allowed[i] and _fits(table, card, i, part, views)]
        if len(fits) < part.number:
            return None
        keys = _keys(table, cards, fits, demand, first)
        if part.number == 1:
            chosen = [max(fits, key=keys.__getitem__)]
        else:
            chosen = sorted(fits, key=lambda i: (-keys[i], i))[: part.number]
        if demand.distinct:
            allowed = [may and i not in chosen for i, may in enumerate(allowed)]
        shares.append([_take(table, cards[i], i, part, views) for i in chosen])
        score += sum(100.0 * first.memory[i] / max(cards[i].memory, 1) for i in chosen)
    return PickedOne(shares, score)


def _pick_share(
    table: CardTable, usage: Usage, row: int, part: Part, allowed: list[bool]
) -> PickedOne | None:
    """The most frequent case, one share of a card without instances, in one loop."""
    limits = table.limits[row]
    memory, cores, users, _ = usage.cells[:, row].tolist()
    wanted, alone, percent, all_cores = part.cores, part.alone, part.percent, part.all_cores
    policy, highest = table.kind.policy, table.kind.highest_first
    need = part.memory
    best, best_key, best_need, i = -1, 0, 0, -1
    for may, (total, split, own_cores), used, busy, sharing in zip(
        allowed, limits, memory, cores, users, strict=False
    ):
        i += 1
        if not may or sharing >= split or (sharing and alone):
            continue
        if percent:
            need = total * percent // 100
        most = all_cores or own_cores
        if total - used < need or busy + wanted > most or (not wanted and busy >= most and not alone):
            continue
        key = used if policy == BINPACK else -sharing if policy == SPREAD else i if highest else -i
        if best < 0 or key > best_key:
            best, best_key, best_need = i, key, need
    if best < 0:
        return None
    score = 100.0 * (memory[best] + best_need) / max(limits[best][0], 1)
    return PickedOne([[Share(table.cards[row][best].uuid, best_need, wanted)]], score)


def _need(card: Card, part: Part) -> int:
    return card.memory * part.percent // 100 if part.percent else part.memory


def _fits(table: CardTable, card: Card, i: int, part: Part, views: Sequence[View]) -> bool:
    all_cores = part.all_cores or card.cores
    plain = need = _need(card, part)
    for view in views:
        if card.geometry:
            need = table.states.choice(plain, view.state[i]).memory
        users = view.users[i]
        if (
            users >= card.split
            or card.memory - view.memory[i] < need
            or view.cores[i] + part.cores > all_cores
        ):
            return False
        if users if part.alone else not part.cores and view.cores[i] >= all_cores:
            return False
    return True


def _keys(
    table: CardTable, cards: Sequence[Card], fits: Sequence[int], demand: Demand, view: View
) -> list[int] | dict[int, int]:
    """Keys of cards; the highest goes first, then the lower index."""
    kind, keys = table.kind, view.memory
    if kind.policy == SPREAD:
        keys = [-users for users in view.users]
    elif kind.policy != BINPACK:
        keys = list(range(len(cards))) if kind.highest_first else list(range(0, -len(cards), -1))
    if not demand.connected:
        return keys
    networks = [cards[i].network for i in fits]
    return {
        i: keys[i] + (networks.count(cards[i].network) << 45 if cards[i].network >= 0 else 0) for i in fits
    }


def _take(table: CardTable, card: Card, i: int, part: Part, views: Sequence[View]) -> Share:
    uuid, plain = card.uuid, _need(card, part)
    taken = plain
    for number, view in enumerate(views):
        need = plain
        if card.geometry:
            choice = table.states.choice(plain, view.state[i])
            need, view.state[i] = choice.memory, choice.after
            if number == 0:
                uuid = mig_id(card.uuid, choice.group, choice.position)
        if number == 0:
            taken = need
        view.memory[i] += need
        view.cores[i] += part.cores
        view.users[i] += 1
    return Share(uuid, taken, part.cores)
