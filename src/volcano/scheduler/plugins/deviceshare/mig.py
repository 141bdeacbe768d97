"""MIG: instances of a card, and the states a card can be in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcano.kube.devices.vgpu import parse_mig_id

Ints = NDArray[np.int64]
NEVER = 1 << 50  # more memory than a card has
UNKNOWN = -2  # a group that the configuration does not have


@dataclass(frozen=True, slots=True)
class Instance:
    """Equal instances of a group."""

    name: str
    memory: int  # MiB
    count: int


class Group(NamedTuple):
    """Instances that a card can be divided into together."""

    name: str
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """The groups that cards of some models can be divided into, in the order to try them."""

    models: tuple[str, ...]
    groups: tuple[Group, ...]


class State(NamedTuple):
    """Instances in use on one card: the group it is divided into, and the positions that are taken."""

    geometry: int
    group: int = -1  # undivided
    taken: frozenset[int] = frozenset()


class Choice(NamedTuple):
    """The instance that a request gets: its memory, group and position, and the state of the card after that."""

    memory: int
    group: str
    position: int
    after: int


NONE = Choice(NEVER, "", -1, 0)


class MigStates:
    """States of cards as numbers, so that they fit in arrays; 0 is a card that is not divided into instances."""

    def __init__(self, geometries: Sequence[Geometry], factor: int) -> None:
        """The `factor` is the number of MiB in one unit of requests."""
        self._geometries = geometries
        self._factor = max(factor, 1)
        self._states: list[State] = [State(0)]
        self._numbers: dict[State, int] = {}
        self._choices: dict[int, list[Choice]] = {}
        self._arrays: dict[int, tuple[Ints, Ints]] = {}

    def geometry_of(self, card_type: str) -> int:
        """The geometry of a type of card: the first one that names a part of it; 0 when there is none."""
        for number, geometry in enumerate(self._geometries, 1):
            if any(model in card_type for model in geometry.models):
                return number
        return 0

    def empty(self, geometry: int) -> int:
        """The state of an unused card; 0 for a card without geometry."""
        return self._number(State(geometry)) if geometry else 0

    def taken(self, state: int, share: str) -> int:
        """The state of a card after an instance, `uuid[group-position]`, was taken."""
        geometry, group, taken = self._states[state]
        name, position = self._read(share)
        names = [each.name for each in self._geometries[geometry - 1].groups]
        known = names.index(name) if name in names else UNKNOWN
        if group not in (-1, known):
            known = UNKNOWN  # instances of two groups: the card is being divided anew
        return self._number(State(geometry, known, taken | {position}))

    def freed(self, state: int, share: str) -> int:
        """The state of a card after an instance was given back; an unused card can be divided anew."""
        geometry, group, taken = self._states[state]
        left = taken - {self._read(share)[1]}
        return self._number(State(geometry, group, left) if left else State(geometry))

    def choice(self, need: int, state: int) -> Choice:
        """The instance for a request: the smallest sufficient one, of the group in use or else the first that fits."""
        choices = self._choices.setdefault(need, [NONE])
        while len(choices) <= state:
            choices.append(self._choose(need, self._states[len(choices)]))
        return choices[state]

    def lookup(self, need: int, states: Ints) -> tuple[Ints, Ints]:
        """Memory that a request takes of cards in these states, and their states after that."""
        highest = int(states.max(initial=0))
        known = self._arrays.get(need)
        if known is None or len(known[0]) <= highest:
            self.choice(need, highest)
            choices = self._choices[need]
            memory = np.array([each.memory for each in choices], dtype=np.int64)
            after = np.array([each.after for each in choices], dtype=np.int64)
            known = self._arrays[need] = (memory, after)
        return known[0][states], known[1][states]

    def _choose(self, need: int, state: State) -> Choice:
        if state.group == UNKNOWN:
            return NONE
        groups = self._geometries[state.geometry - 1].groups
        for number, group in enumerate(groups):
            if state.group not in (-1, number):
                continue
            starts = np.cumsum([0, *(instance.count for instance in group.instances)]).tolist()
            order = sorted(range(len(group.instances)), key=lambda i: group.instances[i].memory)
            for i in order:
                instance = group.instances[i]
                if instance.memory < need * self._factor:
                    continue
                for position in range(starts[i], starts[i] + instance.count):
                    if position not in state.taken:
                        after = State(state.geometry, number, state.taken | {position})
                        memory = instance.memory // self._factor
                        return Choice(memory, group.name, position, self._number(after))
        return NONE

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    def _read(self, share: str) -> tuple[str, int]:
        try:
            return parse_mig_id(share) or ("", -1)
        except ValueError:
            return "", -1
