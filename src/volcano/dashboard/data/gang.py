"""One job with its pods: the grid of its gang, by task."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from volcano.dashboard.data.jobs import JobItem, job_items
from volcano.dashboard.objects import Objects
from volcano.kube.api.fields import items, number
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest, controller_of, key_of, uid_of
from volcano.views.pods import OF_GROUP, OF_JOB, PodRow, pod_row

MISSING = "Not created"


@dataclass(frozen=True, slots=True)
class Cell:
    """One pod of the grid, or a replica that has no pod yet."""

    index: int
    pod: str  # its name; "" without a pod
    status: str
    node: str = ""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a job with a cell for each replica."""

    name: str
    replicas: int
    minimum: int
    cells: tuple[Cell, ...]

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """Number of cells by status, most frequent first."""
        return tuple(Counter(cell.status for cell in self.cells).most_common())


@dataclass(frozen=True, slots=True)
class JobView:
    """One job with what belongs to it."""

    item: JobItem
    manifest: Manifest  # the Job, or the PodGroup when there is none
    group: Manifest | None
    pods: tuple[Manifest, ...]  # ordered by task and index
    rows: tuple[PodRow, ...]  # of the pods


def job_view(objects: Objects, key: Key, before: JobView | None = None) -> JobView | None:
    """A job by name, or a PodGroup without a Job; None when neither exists or may be listed.

    What was computed `before` is kept for pods that have not changed; if none has, `pods` is the same tuple.
    """
    found = [item for item in objects.get(job_items) if item.key == key]
    if not found:
        return None
    item = min(found, key=lambda each: each.row.grouped_only)
    home = (OF_GROUP if item.row.grouped_only else OF_JOB, key)
    pods, rows = _pods(objects.board.members.get(home, ()), before)
    if item.row.grouped_only:
        group = next((each for each in objects.of(POD_GROUP) if key_of(each) == key), None)
        return JobView(item, group or {"metadata": {}}, group, pods, rows)
    job = next(each for each in objects.of(JOB) if key_of(each) == key)
    group = next((each for each in objects.of(POD_GROUP) if _owned_by(each, uid_of(job))), None)
    return JobView(item, job, group, pods, rows)


def _pods(
    members: Sequence[Manifest], before: JobView | None
) -> tuple[tuple[Manifest, ...], tuple[PodRow, ...]]:
    """Pods and their rows, ordered by task and index. The informer keeps the object of a pod that has not changed."""
    known = (
        {id(pod): row for pod, row in zip(before.pods, before.rows, strict=True)}
        if before is not None
        else {}
    )
    if before is not None and len(members) == len(known) and all(id(pod) in known for pod in members):
        return before.pods, before.rows
    found = [(known.get(id(pod)) or pod_row(pod), pod) for pod in members]
    found.sort(key=lambda each: (each[0].task, each[0].index, each[0].key.name))
    return tuple(pod for _, pod in found), tuple(row for row, _ in found)


def _owned_by(group: Manifest, uid: str) -> bool:
    owner = controller_of(group)
    return owner is not None and owner.get("uid") == uid


def tasks(view: JobView) -> tuple[Task, ...]:
    """Tasks in the order of the Job, each with its replicas; pods without a task are one task without a name."""
    by_task: dict[str, list[PodRow]] = {}
    for row in view.rows:
        by_task.setdefault(row.task, []).append(row)
    found = []
    for index, task in enumerate(items(view.manifest, "spec", "tasks")):
        name = str(task.get("name") or f"default{index}")
        replicas = number(task, "replicas")
        minimum = number(task, "minAvailable") if task.get("minAvailable") is not None else replicas
        found.append(Task(name, replicas, minimum, _cells(by_task.pop(name, ()), replicas)))
    for name, rows in by_task.items():  # of PodGroups without a Job, and of tasks that were removed
        found.append(Task(name, len(rows), 0, tuple(map(_cell, range(len(rows)), rows))))
    return tuple(found)


def _cells(rows: Sequence[PodRow], replicas: int) -> tuple[Cell, ...]:
    placed = {row.index: row for row in rows}
    indices = sorted({*range(replicas), *placed})
    return tuple(
        _cell(index, placed[index]) if index in placed else Cell(index, "", MISSING) for index in indices
    )


def _cell(index: int, row: PodRow) -> Cell:
    return Cell(index, row.key.name, row.status, row.node, row.restarts)
