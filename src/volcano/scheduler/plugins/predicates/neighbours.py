"""Neighbours: how many pods of a kind are on each node and in each topology domain, kept up as pods come and go."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcano.kube.selectors import LabelSelector, Operator, Requirement
from volcano.model.resources import Mask
from volcano.model.status import Status
from volcano.model.task import PodTerm, Shape, Task
from volcano.scheduler.plugins.predicates.labels import Codes, LabelColumns

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

Counts = NDArray[np.float64]


class Who(NamedTuple):
    """Which pods are meant: by labels and namespace; `living` leaves out those being deleted."""

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None
    living: bool = False


def who(term: PodTerm) -> Who:
    """The pods that a term of pod (anti-)affinity is about."""
    return Who(term.selector, term.namespaces, term.namespace_selector)


def demanded(selector: LabelSelector) -> Requirement | None:
    """One label that every selected pod has, with its possible values; pods are filed by it."""
    return next((each for each in selector.requirements if each.operator is Operator.IN), None)


class Domains:
    """Counts per value of one label, over the nodes that count; the last entry is always 0, for nodes without it."""

    __slots__ = ("codes", "counting", "counts")

    def __init__(self, codes: Codes, values: int, counting: Mask | None, per_node: Counts) -> None:
        self.codes = codes
        self.counting = counting
        counted = codes >= 0 if counting is None else (codes >= 0) & counting
        self.counts: Counts = np.bincount(
            codes[counted], weights=per_node[counted], minlength=values + 1
        ).astype(float)

    def add(self, row: int, by: int) -> None:
        code = self.codes[row]
        if code >= 0 and (self.counting is None or self.counting[row]):
            self.counts[code] += by

    def per_node(self, rows: NDArray[np.intp]) -> Counts:
        """For each of these nodes, how many pods are in its domain."""
        near: Counts = self.counts[self.codes[rows]]
        return near


class Crowd:
    """The placed pods with one property: how many on each node, and, by label, in each domain."""

    def __init__(self, nodes: int, belongs: Callable[[Task], bool]) -> None:
        self.belongs = belongs
        self.per_node: Counts = np.zeros(nodes)
        self._domains: dict[tuple[str, int], Domains] = {}

    def domains(self, labels: LabelColumns, key: str, counting: Mask | None = None) -> Domains:
        """The counts by one label; `counting` restricts them to some nodes and is told apart by identity."""
        found = self._domains.get((key, id(counting)))
        if found is None:
            column = labels.column(key)
            found = Domains(column.codes, len(column.code_of), counting, self.per_node)
            self._domains[(key, id(counting))] = found
        return found

    def add(self, row: int, by: int) -> None:
        self.per_node[row] += by
        for domains in self._domains.values():
            domains.add(row, by)


class Carriers:
    """The terms that placed pods carry, such as "nobody like that near me", and in which domains they are carried."""

    def __init__(self, labels: LabelColumns) -> None:
        self._labels = labels
        self._domains: dict[PodTerm, Domains] = {}
        self._by_label: dict[tuple[str, str], list[PodTerm]] = {}
        self._general: list[PodTerm] = []

    def __bool__(self) -> bool:
        return bool(self._domains)

    def add(self, terms: Iterable[PodTerm], row: int, by: int) -> None:
        for term in terms:
            domains = self._domains.get(term)
            if domains is None:
                domains = self._register(term)
            domains.add(row, by)

    def about(self, task: Task, matches: Callable[[Who, Task], bool]) -> Iterator[tuple[PodTerm, Domains]]:
        """The carried terms that mean this task, with where they are carried."""
        if not self._domains:
            return
        candidates = list(self._general)
        for label in task.labels.items():
            candidates += self._by_label.get(label, ())
        for term in dict.fromkeys(candidates):
            if matches(who(term), task):
                yield term, self._domains[term]

    def _register(self, term: PodTerm) -> Domains:
        """Files a term under one label it demands, so that it is only looked at for pods that have that label."""
        column = self._labels.column(term.topology_key)
        nodes = len(self._labels.nodes)
        domains = self._domains[term] = Domains(column.codes, len(column.code_of), None, np.zeros(nodes))
        label = demanded(term.selector)
        if label is None:
            self._general.append(term)
        else:
            for value in label.values:
                self._by_label.setdefault((label.key, value), []).append(term)
        return domains


class Neighbours:
    """Everything that is asked about placed pods in this cycle. Nothing is counted before somebody asks."""

    def __init__(self, session: "Session", labels: LabelColumns) -> None:
        self._ledger = session.ledger
        self._namespaces = session.snapshot.namespaces
        self._rows = len(session.snapshot.nodes)
        self._crowds: dict[object, Crowd] = {}
        self._by_label: dict[tuple[str, str], list[Crowd]] = {}  # crowds of pods with that label
        self._general: list[Crowd] = []  # all other crowds
        self._pods: dict[
            str, dict[str, dict[str, tuple[Task, int]]]
        ] = {}  # label → value → uid → pod and row
        self._carriers: tuple[Carriers, Carriers] | None = None
        self._carrying: dict[Shape, bool] = {}
        self.labels = labels

    # -- questions -------------------------------------------------------------------------------------------

    def crowd(self, *kinds: Who) -> Crowd:
        """The placed pods that every one of `kinds` means."""
        found = self._crowds.get(kinds)
        if found is None:
            found = Crowd(self._rows, lambda task: all(self.matches(kind, task) for kind in kinds))
            self._open(kinds, found, demanded(kinds[0].selector))
        return found

    def having(self, key: object, belongs: Callable[[Task], bool]) -> Crowd:
        """The placed pods with a property; `key` stands for the property."""
        found = self._crowds.get(key)
        if found is None:
            found = Crowd(self._rows, belongs)
            self._open(key, found, None)
        return found

    def _open(self, key: object, crowd: Crowd, label: Requirement | None) -> None:
        """Counts who is there already, and files the crowd where those who come and go will find it."""
        self._crowds[key] = crowd
        if label is None:
            self._general.append(crowd)
            present: Iterable[tuple[Task, int]] = self.present()
        else:
            pods = self._labelled(label.key)
            present = [pod for value in sorted(label.values) for pod in pods.get(value, {}).values()]
            for value in label.values:
                self._by_label.setdefault((label.key, value), []).append(crowd)
        for task, row in present:
            if crowd.belongs(task):
                crowd.per_node[row] += 1

    def _labelled(self, key: str) -> dict[str, dict[str, tuple[Task, int]]]:
        """The placed pods that have a label, by its value."""
        if key not in self._pods:
            pods: dict[str, dict[str, tuple[Task, int]]] = {}
            for task, row in self.present():
                value = task.labels.get(key)
                if value is not None:
                    pods.setdefault(value, {})[task.uid] = (task, row)
            self._pods[key] = pods
        return self._pods[key]

    @property
    def repelling(self) -> Carriers:
        """Required anti-affinity terms of placed pods."""
        return self._carried()[0]

    @property
    def preferring(self) -> Carriers:
        """Preferred terms of placed pods, affinity with positive and anti-affinity with negative weight."""
        return self._carried()[1]

    def matches(self, kind: Who, task: Task) -> bool:
        """Whether a pod is one of those meant."""
        if kind.living and task.status is Status.RELEASING:
            return False
        if task.namespace not in kind.namespaces:
            selector = kind.namespace_selector
            if selector is None or not selector.matches(self._namespaces.get(task.namespace, {})):
                return False
        return kind.selector.matches(task.labels)

    # -- changes ---------------------------------------------------------------------------------------------

    def come(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one shape were placed; the ledger will take it back if it undoes that."""
        if self._crowds or self._carriers is not None:
            self._move(tasks, rows, 1)
        self._ledger.record_undo(lambda: self._move(tasks, rows, -1))

    def go(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one shape are to be evicted, and count no more."""
        if self._crowds or self._carriers is not None:
            self._move(tasks, rows, -1)
        self._ledger.record_undo(lambda: self._move(tasks, rows, 1))

    def _move(self, tasks: Sequence[Task], rows: Sequence[int], by: int) -> None:
        if self._crowds:
            for task, row in zip(tasks, rows, strict=True):
                self._move_one(task, row, by)
        if self._carriers is not None and self._carries(tasks[0].shape):
            for row in rows:
                self._carry(tasks[0].shape, row, by)

    def _carries(self, shape: Shape) -> bool:
        known = self._carrying.get(shape)
        if known is None:
            known = self._carrying[shape] = carries(shape)
        return known

    def _move_one(self, task: Task, row: int, by: int) -> None:
        for key, pods in self._pods.items():
            value = task.labels.get(key)
            if value is not None:
                if by > 0:
                    pods.setdefault(value, {})[task.uid] = (task, row)
                else:
                    pods[value].pop(task.uid, None)
        for crowd in self._general:
            if crowd.belongs(task):
                crowd.add(row, by)
        for label in task.labels.items():
            for crowd in self._by_label.get(label, ()):
                if crowd.belongs(task):
                    crowd.add(row, by)

    # -- counting what is there ------------------------------------------------------------------------------

    def present(self) -> Iterator[tuple[Task, int]]:
        """Every pod on a node, or put there in this cycle, that this cycle does not evict."""
        ledger = self._ledger
        for row in range(self._rows):
            for task in ledger.tasks_on(row):
                if not (ledger.changed(task) and ledger.status(task) is Status.RELEASING):
                    yield task, row

    def _carried(self) -> tuple[Carriers, Carriers]:
        if self._carriers is None:
            self._carriers = (Carriers(self.labels), Carriers(self.labels))
            plain: set[Shape] = set()
            for task, row in self.present():
                if task.shape in plain:
                    continue
                if carries(task.shape):
                    self._carry(task.shape, row, 1)
                else:
                    plain.add(task.shape)
        return self._carriers

    def _carry(self, shape: Shape, row: int, by: int) -> None:
        assert self._carriers is not None
        repelling, preferring = self._carriers
        constraints = shape.constraints
        repelling.add(constraints.required_apart, row, by)
        preferring.add(constraints.preferred_near, row, by)
        preferring.add((reversed_weight(term) for term in constraints.preferred_apart), row, by)


def carries(shape: Shape) -> bool:
    """Whether pods of a shape have terms that concern the pods that come after them."""
    constraints = shape.constraints
    return bool(constraints.required_apart or constraints.preferred_near or constraints.preferred_apart)


def reversed_weight(term: PodTerm) -> PodTerm:
    """A term whose nearness is held against a node."""
    return term._replace(weight=-term.weight)
