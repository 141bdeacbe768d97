"""Facts about one kind of device: cards of nodes, demands of pods, shares that pods hold."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from volcano.model.node import Node
from volcano.model.task import Shape, Task

UNLIMITED = 1 << 40
BINPACK, SPREAD = "binpack", "spread"


def whole(amounts: Mapping[str, float], name: str, most: int = UNLIMITED) -> int:
    """A limit or capacity in whole units; arrays cannot hold more than `most`, and no card has as much."""
    return min(round(amounts.get(name, 0.0) / 1000), most)


class Card(NamedTuple):
    """One card of a node; its index is its position."""

    uuid: str
    memory: int  # in the unit of requests
    split: int = UNLIMITED  # how many shares it can be divided into
    cores: int = 100
    type: str = ""
    healthy: bool = True
    mode: str = ""
    geometry: int = 0  # of MIG instances; 0 when it is not divided into instances
    network: int = -1  # cards with the same number are connected


class Part(NamedTuple):
    """Demand of one container: shares of different cards."""

    number: int = 1
    memory: int = 0  # of each card
    percent: int = 0  # of each card's memory, where it is not 0
    cores: int = 0  # of each card
    alone: bool = False  # only unused cards
    all_cores: int = 0  # cores of a card for this request, if not those of the card


@dataclass(frozen=True)
class Demand:
    """Demand of a pod for one kind. Demands are compared by identity: one for each shape."""

    parts: tuple[Part, ...]
    distinct: bool = False  # whether containers may not share a card
    connected: bool = False  # whether cards of the largest connected group go first
    spread_group: bool = False  # whether pods of one PodGroup may not share a card
    impossible: str = ""  # why no node can provide it

    @property
    def single(self) -> bool:
        """Whether it is one share of one card."""
        return len(self.parts) == 1 and self.parts[0].number == 1


class Share(NamedTuple):
    """A part of a card that a pod holds; `uuid` may name a MIG instance."""

    uuid: str
    memory: int
    cores: int


class Kind(ABC):
    """One kind of device: its names and text formats."""

    name: str  # as Volcano calls it
    resource: str  # that nodes with such cards report
    noun = "card"
    unit = "MiB"
    lock = ""  # annotation of nodes that locks them, if any
    policy = ""  # order of cards: BINPACK, SPREAD or other
    highest_first = False  # order of cards without a policy

    @abstractmethod
    def demand(self, shape: Shape) -> Demand | None:
        """Demand of the pods of a shape for this kind; None for nothing."""

    @abstractmethod
    def cards(self, node: Node) -> tuple[Card, ...]:
        """The cards of a node; none when it does not offer this kind, or when its registration is malformed."""

    @abstractmethod
    def shares(self, task: Task) -> Sequence[Share]:
        """Shares that a pod holds, by its annotations."""

    @abstractmethod
    def annotations(
        self, task: Task, node: Node, picked: Sequence[Sequence[Share]], now: float
    ) -> Mapping[str, str]:
        """Annotations that tell the device plugin what was assigned to each container."""

    def excluded(self, shape: Shape, card: Card) -> str:
        """Why pods of a shape may not use a card whatever is placed there; "" when they may."""
        return "" if card.healthy else "unhealthy"

    def names_cards(self, shape: Shape) -> bool:
        """Whether `excluded` depends on the uuid of a card."""
        return False

    def handing_out(self, task: Task) -> float:
        """When the device plugin began to hand out what was assigned to a pod; 0 when it is done."""
        return 0.0
