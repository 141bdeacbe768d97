"""Free CPUs of every node in a cycle.

Nodes with the same layout, policy and free CPUs are in the same state. What a request can get is computed once per
state and looked up for all nodes at once.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcano.kube.api import names
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.assignment import NONE, POLICIES, STATIC, Assignment, assign
from volcano.kube.devices.numa.decision import parse_decision, take_decided
from volcano.kube.devices.numa.layout import CpuLayout, take
from volcano.kube.devices.numa.topology import NumaTopology
from volcano.model.resources import Mask
from volcano.model.snapshot import Snapshot
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.ledger_view import LedgerView
from volcano.scheduler.engine.node_table import Rows
from volcano.scheduler.plugins.numa_aware.unconfirmed import ListedCpus, Remembered

Requests = tuple[int, ...]  # whole CPUs of each container
UNCHECKED = 0  # state of the nodes that do not decide
ADMITTED = -1


def is_checked(topology: NumaTopology) -> bool:
    """Whether the node assigns CPUs to pods under a topology policy."""
    return (
        topology.cpu_manager == STATIC
        and topology.policy in POLICIES
        and topology.policy != NONE
        and bool(topology.layout.cpus)
        and topology.allocatable is not None
    )


class State(NamedTuple):
    layout: CpuLayout
    policy: str
    free: int


class Taken(NamedTuple):
    """CPUs taken in this cycle; those in `idle` were free at once, the others are still held by pods being deleted."""

    task: Task
    cpus: int
    idle: int


class Outcomes:
    """For one request and every state: the container that is refused, and the number of NUMA nodes spanned."""

    __slots__ = ("refused", "spanned")

    def __init__(self) -> None:
        self.refused: NDArray[np.int16] = np.full(1, ADMITTED, dtype=np.int16)  # of UNCHECKED
        self.spanned: NDArray[np.int16] = np.zeros(1, dtype=np.int16)

    def extend(self, states: Iterable[State], requests: Requests) -> None:
        found = [assign(state.layout, state.policy, state.free, requests) for state in states]
        spanned = [
            len(state.layout.numa_nodes_of(each.all_cpus)) for state, each in zip(states, found, strict=True)
        ]
        self.refused = np.append(self.refused, np.array([each.refused for each in found], dtype=np.int16))
        self.spanned = np.append(self.spanned, np.array(spanned, dtype=np.int16))


class FreeCpus:
    """Free CPUs by row: `idle` ones, and `later` ones, which include those of pods that are being deleted."""

    def __init__(self, snapshot: Snapshot, remembered: Remembered) -> None:
        self._snapshot = snapshot
        self._states: list[State] = []  # number 1 is the first: 0 is UNCHECKED
        self._number_of: dict[State, int] = {}
        self._outcomes: dict[Requests, Outcomes] = {}
        self._idle: dict[int, int] = {}  # by row
        self._later: dict[int, int] = {}
        self._held: dict[int, dict[str, int]] = {}  # by row and uid: CPUs of the pods on the node
        self._taken: dict[str, tuple[int, Taken]] = {}  # by uid: row and CPUs
        self._idle_state = np.zeros(len(snapshot.nodes), dtype=np.intp)
        self._later_state = np.zeros(len(snapshot.nodes), dtype=np.intp)
        for name, topology in snapshot.numa_topologies.items():
            row = snapshot.row_of.get(name)
            if row is not None and is_checked(topology):
                self._count(row, topology, remembered)

    # -- queries ---------------------------------------------------------------------------------------------

    def refused_later(self, requests: Requests, rows: Rows) -> NDArray[np.int16]:
        """By row, the container that is refused even once pods being deleted are gone; ADMITTED for none."""
        refused: NDArray[np.int16] = self._outcome(requests).refused[self._later_state[rows]]
        return refused

    def waiting(self, requests: Requests, rows: Rows) -> Mask:
        """Rows that admit the request only once pods being deleted are gone."""
        refused = self._outcome(requests).refused
        waiting: Mask = (refused[self._idle_state[rows]] != ADMITTED) & (
            refused[self._later_state[rows]] == ADMITTED
        )
        return waiting

    def spanned(self, requests: Requests, rows: Rows) -> NDArray[np.int16]:
        """By row, the number of NUMA nodes of the CPUs that the request gets."""
        outcome = self._outcome(requests)
        idle, later = self._idle_state[rows], self._later_state[rows]
        state = np.where(outcome.refused[idle] == ADMITTED, idle, later)
        spanned: NDArray[np.int16] = outcome.spanned[state]
        return spanned

    # -- changes ---------------------------------------------------------------------------------------------

    def take(self, task: Task, row: int, requests: Requests) -> Assignment | None:
        """Takes CPUs for a task, idle ones if possible; None on a node that does not decide."""
        if row not in self._idle:
            return None
        layout, policy, _ = self._states[self._later_state[row] - 1]
        for free in (self._idle[row], self._later[row]):
            assignment = assign(layout, policy, free, requests)
            if assignment.admitted:
                break
        else:
            return assignment
        cpus = assignment.all_cpus
        self._taken[task.uid] = row, Taken(task, cpus, cpus & self._idle[row])
        self._set(row, self._idle[row] & ~cpus, self._later[row] & ~cpus)
        return assignment

    def give_back(self, task: Task, row: int) -> None:
        """Undoes `take`."""
        found = self._taken.pop(task.uid, None)
        if found is not None:
            self._set(row, self._idle[row] | found[1].idle, self._later[row] | found[1].cpus)

    def free(self, task: Task, row: int) -> Callable[[], None]:
        """Frees the CPUs of a task that is evicted or no longer placed; returns the undo."""
        if row not in self._idle:
            return _nothing
        idle, later, found = self._idle[row], self._later[row], self._taken.get(task.uid)
        if found is not None:
            self.give_back(task, row)
        else:
            self._set(row, idle, later | self._held[row].get(task.uid, 0))

        def undo() -> None:
            self._set(row, idle, later)
            if found is not None:
                self._taken[task.uid] = found

        return undo

    def placed(self, ledger: LedgerView) -> dict[str, list[str]]:
        """Node and CPUs of the tasks whose placement is committed, by uid."""
        return {
            uid: [self._snapshot.nodes[row].name, cpusets.text_of(taken.cpus)]
            for uid, (row, taken) in self._taken.items()
            if ledger.is_committed(taken.task)
        }

    # -- states ----------------------------------------------------------------------------------------------

    def _outcome(self, requests: Requests) -> Outcomes:
        outcome = self._outcomes.get(requests)
        if outcome is None:
            outcome = self._outcomes[requests] = Outcomes()
        known = len(outcome.refused) - 1
        if known < len(self._states):
            outcome.extend(self._states[known:], requests)
        return outcome

    def _set(self, row: int, idle: int, later: int) -> None:
        layout, policy, _ = self._states[self._later_state[row] - 1]
        self._idle[row], self._later[row] = idle, later
        self._idle_state[row] = self._number(State(layout, policy, idle))
        self._later_state[row] = self._number(State(layout, policy, later))

    def _number(self, state: State) -> int:
        number = self._number_of.get(state)
        if number is None:
            self._states.append(state)
            number = self._number_of[state] = len(self._states)
        return number

    # -- the beginning of the cycle --------------------------------------------------------------------------

    def _count(self, row: int, topology: NumaTopology, remembered: Remembered) -> None:
        layout, listed = topology.layout, ListedCpus(topology)
        held: dict[str, int] = {}
        unlisted: list[Task] = []
        leaving = cpusets.union(pod.all_cpus for pod in topology.pods)
        for task in self._snapshot.tasks_on[row].values():
            cpus = listed.of(task) if topology.pods else None
            if cpus is not None:
                held[task.uid] = cpus
                if task.status is not Status.RELEASING:
                    leaving &= ~cpus
            elif task.shape.numa is not None and any(task.shape.numa.cpus):
                unlisted.append(task)
        assert topology.allocatable is not None
        idle = topology.allocatable & ~topology.reserved
        for task in sorted(unlisted, key=lambda each: (each.uid not in remembered, each.scheduled, each.uid)):
            cpus = held[task.uid] = _predicted(task, topology, idle, remembered)
            idle &= ~cpus
            if task.status is Status.RELEASING:
                leaving |= cpus
        # Pods that are listed and do not exist any more are about to be removed from the list.
        self._held[row] = held
        self._later_state[row] = self._number(State(layout, topology.policy, idle))
        self._set(row, idle, idle | leaving & layout.cpus & ~topology.reserved)


def _predicted(task: Task, topology: NumaTopology, free: int, remembered: Remembered) -> int:
    """CPUs that a pod gets which the node does not list yet: those chosen for it, or similar ones if they are taken."""
    layout, request = topology.layout, task.shape.numa
    assert request is not None
    kept = remembered.get(task.uid)
    if kept is not None:
        cpus = cpusets.parse(kept[1])
        if not cpus & ~free:
            return cpus
    decided = parse_decision(task.annotations.get(names.NUMA_DECISION, ""))
    if decided:
        return take_decided(layout, free, decided)
    assignment = assign(layout, topology.policy, free, request.cpus)
    if assignment.admitted:
        return assignment.all_cpus
    return take(layout, free, min(sum(request.cpus), free.bit_count()))


def _nothing() -> None:
    return None
