"""GPUs shared by memory, or assigned by number, without a register: nodes report totals, cards are numbered."""

from collections.abc import Mapping, Sequence

from volcano.kube.devices import gpushare
from volcano.model.node import Node
from volcano.model.task import Shape, Task
from volcano.scheduler.plugins.deviceshare.facts import Card, Demand, Kind, Part, Share, whole

MOST_CARDS = 1024  # of a node; more is a mistake


class GpuShareKind(Kind):
    """Cards of equal size; the lowest index goes first."""

    name = "GpuShare"
    noun = "card"

    def __init__(self, *, by_number: bool) -> None:
        self._by_number = by_number
        self.resource = gpushare.NUMBER if by_number else gpushare.MEMORY
        self.lock = "" if by_number else gpushare.LOCK

    def demand(self, shape: Shape) -> Demand | None:
        asked = whole(shape.limits, gpushare.NUMBER if self._by_number else gpushare.MEMORY)
        if not asked:
            return None
        return Demand((Part(number=asked, alone=True) if self._by_number else Part(memory=asked),))

    def cards(self, node: Node) -> tuple[Card, ...]:
        memory, number = (
            whole(node.capacity, gpushare.MEMORY),
            whole(node.capacity, gpushare.NUMBER, MOST_CARDS),
        )
        if not number or not memory:
            return ()
        bad = gpushare.parse_unhealthy(node.annotations.get(gpushare.UNHEALTHY, ""))
        return tuple(Card(str(index), memory // number, healthy=index not in bad) for index in range(number))

    def shares(self, task: Task) -> Sequence[Share]:
        text = task.annotations.get(gpushare.INDEX)
        demand = self.demand(task.shape) if text else None
        if text is None or demand is None:
            return ()
        try:
            cards = gpushare.parse_index(text)
        except ValueError:
            return ()
        return [Share(str(card), demand.parts[0].memory, 0) for card in cards]

    def annotations(
        self, task: Task, node: Node, picked: Sequence[Sequence[Share]], now: float
    ) -> Mapping[str, str]:
        cards = sorted(int(share.uuid) for shares in picked for share in shares)
        return {gpushare.INDEX: gpushare.format_index(cards), gpushare.TIME: str(int(now * 1e9))}

    def handing_out(self, task: Task) -> float:
        notes = task.annotations
        if gpushare.INDEX not in notes or notes.get(gpushare.ASSIGNED) == "true" or not self.lock:
            return 0.0
        return (
            (int(notes.get(gpushare.TIME, "0") or 0) / 1e9)
            if notes.get(gpushare.TIME, "0").isdecimal()
            else 1.0
        )
