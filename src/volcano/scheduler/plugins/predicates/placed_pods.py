"""Placed pods: counts of matching pods per node and topology domain, updated as tasks are placed and evicted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcano.kube.api.selectors import LabelSelector, Operator, Requirement
from volcano.model.resources import Mask
from volcano.model.status import Status
from volcano.model.task import PodTerm, Shape, Task
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates.labels import Codes, LabelColumns

Counts = NDArray[np.float64]


class PodSelector(NamedTuple):
    """Selects pods by labels and namespace; `not_terminating` excludes those being deleted."""

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None
    not_terminating: bool = False


def selector_of(term: PodTerm) -> PodSelector:
    """Returns the selector of a pod (anti-)affinity term."""
    return PodSelector(term.selector, term.namespaces, term.namespace_selector)


def indexed_requirement(selector: LabelSelector) -> Requirement | None:
    """Returns a requirement that fixes the values of one label; pods and counts are indexed by it."""
    return next((each for each in selector.requirements if each.operator is Operator.IN), None)


class DomainCounts:
    """Counts per value of one label, over the counted nodes; the last element is always 0, for nodes without it."""

    __slots__ = ("codes", "counted_nodes", "counts")

    def __init__(self, codes: Codes, values: int, counted_nodes: Mask | None, per_node: Counts) -> None:
        self.codes = codes
        self.counted_nodes = counted_nodes
        counted = codes >= 0 if counted_nodes is None else (codes >= 0) & counted_nodes
        self.counts: Counts = np.bincount(
            codes[counted], weights=per_node[counted], minlength=values + 1
        ).astype(float)

    def add(self, row: int, by: int) -> None:
        code = self.codes[row]
        if code >= 0 and (self.counted_nodes is None or self.counted_nodes[row]):
            self.counts[code] += by

    def per_node(self, rows: NDArray[np.intp]) -> Counts:
        """Returns the number of pods in the domain of each node."""
        near: Counts = self.counts[self.codes[rows]]
        return near


class PodCounts:
    """The number of matching pods on each node and, by label, in each domain."""

    def __init__(self, nodes: int, matches: Callable[[Task], bool]) -> None:
        self.matches = matches
        self.per_node: Counts = np.zeros(nodes)
        self._domains: dict[tuple[str, int], DomainCounts] = {}

    def domains(self, labels: LabelColumns, key: str, counted_nodes: Mask | None = None) -> DomainCounts:
        """Returns the counts by one label; `counted_nodes` restricts them to some nodes and is cached by identity."""
        found = self._domains.get((key, id(counted_nodes)))
        if found is None:
            column = labels.column(key)
            found = DomainCounts(column.codes, len(column.code_of), counted_nodes, self.per_node)
            self._domains[(key, id(counted_nodes))] = found
        return found

    def add(self, row: int, by: int) -> None:
        self.per_node[row] += by
        for domains in self._domains.values():
            domains.add(row, by)


class ExistingTerms:
    """Pod (anti-)affinity terms of placed pods, with counts of their domains."""

    def __init__(self, labels: LabelColumns) -> None:
        self._labels = labels
        self._domains: dict[PodTerm, DomainCounts] = {}
        self._by_label: dict[tuple[str, str], list[PodTerm]] = {}
        self._other: list[PodTerm] = []

    def __bool__(self) -> bool:
        return bool(self._domains)

    def add(self, terms: Iterable[PodTerm], row: int, by: int) -> None:
        for term in terms:
            domains = self._domains.get(term)
            if domains is None:
                domains = self._register(term)
            domains.add(row, by)

    def matching_terms(
        self, task: Task, matches: Callable[[PodSelector, Task], bool]
    ) -> Iterator[tuple[PodTerm, DomainCounts]]:
        """Yields the terms that match a task, with the counts of their domains."""
        if not self._domains:
            return
        candidates = list(self._other)
        for label in task.labels.items():
            candidates += self._by_label.get(label, ())
        for term in dict.fromkeys(candidates):
            if matches(selector_of(term), task):
                yield term, self._domains[term]

    def _register(self, term: PodTerm) -> DomainCounts:
        """Indexes a term by one label that it requires, so that it is evaluated only for pods with that label."""
        column = self._labels.column(term.topology_key)
        nodes = len(self._labels.nodes)
        domains = self._domains[term] = DomainCounts(column.codes, len(column.code_of), None, np.zeros(nodes))
        label = indexed_requirement(term.selector)
        if label is None:
            self._other.append(term)
        else:
            for value in label.values:
                self._by_label.setdefault((label.key, value), []).append(term)
        return domains


class PlacedPods:
    """Counts of placed pods in this cycle; nothing is counted before it is needed."""

    def __init__(self, session: Session, labels: LabelColumns) -> None:
        self._ledger = session.ledger
        self._namespaces = session.snapshot.namespaces
        self._rows = len(session.snapshot.nodes)
        self._counts: dict[object, PodCounts] = {}
        self._by_label: dict[tuple[str, str], list[PodCounts]] = {}  # counts of pods with that label
        self._other: list[PodCounts] = []  # all other counts
        self._pods: dict[
            str, dict[str, dict[str, tuple[Task, int]]]
        ] = {}  # label → value → uid → pod and row
        self._terms: tuple[ExistingTerms, ExistingTerms] | None = None
        self._has_terms: dict[Shape, bool] = {}
        self.labels = labels

    # -- queries ---------------------------------------------------------------------------------------------

    def counts_of(self, *selectors: PodSelector) -> PodCounts:
        """Returns the counts of placed pods that all `selectors` match."""
        found = self._counts.get(selectors)
        if found is None:
            found = PodCounts(
                self._rows, lambda task: all(self.matches(selector, task) for selector in selectors)
            )
            self._register_counts(selectors, found, indexed_requirement(selectors[0].selector))
        return found

    def counts_where(self, key: object, matches: Callable[[Task], bool]) -> PodCounts:
        """Returns the counts of placed pods with a property; `key` identifies the property."""
        found = self._counts.get(key)
        if found is None:
            found = PodCounts(self._rows, matches)
            self._register_counts(key, found, None)
        return found

    def _register_counts(self, key: object, counts: PodCounts, label: Requirement | None) -> None:
        """Counts the pods already placed, and indexes the counts for later updates."""
        self._counts[key] = counts
        if label is None:
            self._other.append(counts)
            present: Iterable[tuple[Task, int]] = self.all_pods()
        else:
            pods = self._labelled(label.key)
            present = [pod for value in sorted(label.values) for pod in pods.get(value, {}).values()]
            for value in label.values:
                self._by_label.setdefault((label.key, value), []).append(counts)
        for task, row in present:
            if counts.matches(task):
                counts.per_node[row] += 1

    def _labelled(self, key: str) -> dict[str, dict[str, tuple[Task, int]]]:
        """Returns the placed pods that have a label, by its value."""
        if key not in self._pods:
            pods: dict[str, dict[str, tuple[Task, int]]] = {}
            for task, row in self.all_pods():
                value = task.labels.get(key)
                if value is not None:
                    pods.setdefault(value, {})[task.uid] = (task, row)
            self._pods[key] = pods
        return self._pods[key]

    @property
    def anti_affinity(self) -> ExistingTerms:
        """Required anti-affinity terms of placed pods."""
        return self._existing_terms()[0]

    @property
    def preferred(self) -> ExistingTerms:
        """Preferred terms of placed pods, affinity with positive and anti-affinity with negative weight."""
        return self._existing_terms()[1]

    def matches(self, selector: PodSelector, task: Task) -> bool:
        """Reports whether a selector matches a pod."""
        if selector.not_terminating and task.status is Status.RELEASING:
            return False
        if task.namespace not in selector.namespaces:
            namespaces = selector.namespace_selector
            if namespaces is None or not namespaces.matches(self._namespaces.get(task.namespace, {})):
                return False
        return selector.selector.matches(task.labels)

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Adds placed tasks of one shape; registers the undo."""
        if self._counts or self._terms is not None:
            self._update(tasks, rows, 1)
        self._ledger.record_undo(lambda: self._update(tasks, rows, -1))

    def remove(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Removes tasks of one shape that are to be evicted; registers the undo."""
        if self._counts or self._terms is not None:
            self._update(tasks, rows, -1)
        self._ledger.record_undo(lambda: self._update(tasks, rows, 1))

    def _update(self, tasks: Sequence[Task], rows: Sequence[int], by: int) -> None:
        if self._counts:
            for task, row in zip(tasks, rows, strict=True):
                self._update_pod(task, row, by)
        if self._terms is not None and self._shape_has_terms(tasks[0].shape):
            for row in rows:
                self._update_terms(tasks[0].shape, row, by)

    def _shape_has_terms(self, shape: Shape) -> bool:
        known = self._has_terms.get(shape)
        if known is None:
            known = self._has_terms[shape] = shape.has_pod_terms
        return known

    def _update_pod(self, task: Task, row: int, by: int) -> None:
        for key, pods in self._pods.items():
            value = task.labels.get(key)
            if value is not None:
                if by > 0:
                    pods.setdefault(value, {})[task.uid] = (task, row)
                else:
                    pods[value].pop(task.uid, None)
        for counts in self._other:
            if counts.matches(task):
                counts.add(row, by)
        for label in task.labels.items():
            for counts in self._by_label.get(label, ()):
                if counts.matches(task):
                    counts.add(row, by)

    # -- counting --------------------------------------------------------------------------------------------

    def all_pods(self) -> Iterator[tuple[Task, int]]:
        """Yields the pods on all nodes, including those placed and without those evicted in this cycle."""
        yield from self._pods_on(range(self._rows))

    def _pods_on(self, rows: Iterable[int]) -> Iterator[tuple[Task, int]]:
        ledger = self._ledger
        for row in rows:
            for task in ledger.tasks_on(row):
                if not (ledger.changed(task) and ledger.status(task) is Status.RELEASING):
                    yield task, row

    def _existing_terms(self) -> tuple[ExistingTerms, ExistingTerms]:
        if self._terms is None:
            self._terms = (ExistingTerms(self.labels), ExistingTerms(self.labels))
            plain: set[Shape] = set()
            # Only pods placed in this cycle can have terms where none of those in the snapshot has any.
            rows = range(self._rows) if self._ledger.snapshot.pod_terms else sorted(self._ledger.placed_rows)
            for task, row in self._pods_on(rows):
                if task.shape in plain:
                    continue
                if task.shape.has_pod_terms:
                    self._update_terms(task.shape, row, 1)
                else:
                    plain.add(task.shape)
        return self._terms

    def _update_terms(self, shape: Shape, row: int, by: int) -> None:
        assert self._terms is not None
        anti_affinity, preferred = self._terms
        constraints = shape.constraints
        anti_affinity.add(constraints.required_apart, row, by)
        preferred.add(constraints.preferred_near, row, by)
        preferred.add((negated(term) for term in constraints.preferred_apart), row, by)


def negated(term: PodTerm) -> PodTerm:
    """Returns the term with the opposite weight."""
    return term._replace(weight=-term.weight)
