"""The list of jobs: rows with user and reason code, filters and groups."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from volcano.dashboard.objects import Objects
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import (
    Key,
    Manifest,
    annotations_of,
    condition_of,
    controller_of,
    key_of,
    uid_of,
)
from volcano.kube.api.names import USER
from volcano.services.jobs import ENDED, RESUME, SUSPEND, SUSPENDED
from volcano.views.jobs import WAITING, JobRow

NO_USER, NO_REASON = "(no user)", "(no reason)"


@dataclass(frozen=True, slots=True)
class JobItem:
    """One job of the list, or a PodGroup that no Volcano job owns."""

    row: JobRow
    user: str
    code: str  # why it waits: a code such as QueueShare; "" when it does not wait
    queues: tuple[str, ...]  # its queue, below the queues above it
    owner: str = ""  # of a PodGroup without a Job: "ReplicaSet web-5d8f"

    @property
    def key(self) -> Key:
        return self.row.key

    @property
    def identity(self) -> str:
        """Unique among jobs and PodGroups."""
        return f"{self.row.key} (PodGroup)" if self.row.grouped_only else str(self.row.key)

    @property
    def address(self) -> str:
        return address_of(self.row.key)

    @property
    def waits(self) -> bool:
        return self.row.phase in WAITING

    def accepts(self, action: str) -> bool:
        """Whether an action makes sense now: only a Job that waits or runs is suspended, for example."""
        if self.row.grouped_only:
            return False
        phase = self.row.phase
        if action == SUSPEND:
            return phase not in ENDED and phase not in SUSPENDED
        return phase in SUSPENDED if action == RESUME else True


def address_of(key: Key) -> str:
    """Address of the page of a job."""
    return f"/jobs/{key.namespace}/{key.name}"


def job_items(objects: Objects) -> tuple[JobItem, ...]:
    """All jobs, ordered by namespace and name."""
    paths = {share.name: share.path for share in objects.board.queues}
    owned, bare = {}, {}
    for group in objects.of(POD_GROUP):
        owner = controller_of(group)
        bare[key_of(group)] = group
        if owner is not None:
            owned[str(owner.get("uid"))] = group
    jobs = {key_of(job): job for job in objects.of(JOB)}
    found = []
    for row in objects.board.jobs:
        manifest = (bare if row.grouped_only else jobs)[row.key]
        mine = manifest if row.grouped_only else owned.get(uid_of(manifest))
        code = _code(mine) if mine is not None and row.phase in WAITING else ""
        queues = paths.get(row.queue, (row.queue,))
        of = _owner(manifest) if row.grouped_only else ""
        found.append(JobItem(row, annotations_of(manifest).get(USER, ""), code, queues, of))
    return tuple(found)


def _owner(group: Manifest) -> str:
    owner = controller_of(group)
    return f"{owner.get('kind', '')} {owner.get('name', '')}".strip() if owner is not None else ""


def _code(group: Manifest) -> str:
    """Reason of the Unschedulable condition, which is a code of the diagnosis."""
    blocked = condition_of(group, "Unschedulable")
    if blocked is None or blocked.get("status") != "True":
        return ""
    return str(blocked.get("reason") or "")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are shown. Every field is a name in the address of the page; "" accepts every job."""

    text: str = ""  # in name, namespace, queue, user or message
    queue: str = ""  # or one below it
    user: str = ""
    namespace: str = ""
    phase: str = ""
    reason: str = ""

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "JobFilter":
        return cls(**{field.name: query.get(field.name, "").strip() for field in fields(cls)})

    def query(self) -> dict[str, str]:
        """Values for the address, "" for those that are not set."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_value(self, name: str, value: str) -> "JobFilter":
        return replace(self, **{name: value})

    @property
    def is_set(self) -> bool:
        return self != JobFilter()

    def chosen(self, items: Iterable[JobItem]) -> list[JobItem]:
        text = self.text.lower()
        return [item for item in items if self._accepts(item) and (not text or _mentions(item, text))]

    def _accepts(self, item: JobItem) -> bool:
        return (
            (not self.queue or self.queue in item.queues)
            and self.user in ("", item.user or NO_USER)
            and self.namespace in ("", item.key.namespace)
            and self.phase in ("", item.row.phase)
            and self.reason in ("", item.code or NO_REASON)
        )


def _mentions(item: JobItem, text: str) -> bool:
    row = item.row
    searched = (row.key.name, row.key.namespace, row.queue, item.user, item.code, row.waits_for, item.owner)
    return any(text in value.lower() for value in searched)


# What jobs can be grouped by, with the filter that shows one group.
GROUPS: Mapping[str, Callable[[JobItem], str]] = {
    "queue": lambda item: item.row.queue,
    "user": lambda item: item.user or NO_USER,
    "phase": lambda item: item.row.phase,
    "reason": lambda item: item.code or NO_REASON,
    "namespace": lambda item: item.key.namespace,
}
GROUP_LABELS = {
    "queue": "Queue",
    "user": "User",
    "phase": "State",
    "reason": "Reason",
    "namespace": "Namespace",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs with the same queue, user, phase or reason."""

    name: str
    jobs: int
    phases: tuple[tuple[str, int], ...]  # most frequent first


def grouped(items: Iterable[JobItem], by: str) -> list[Group]:
    """Groups, the largest first."""
    group_of = GROUPS[by]
    phases: dict[str, Counter[str]] = {}
    for item in items:
        phases.setdefault(group_of(item), Counter())[item.row.phase] += 1
    found = [Group(name, counts.total(), tuple(counts.most_common())) for name, counts in phases.items()]
    return sorted(found, key=lambda group: (-group.jobs, group.name))


def choices(objects: Objects) -> dict[str, tuple[str, ...]]:
    """Values that each filter can have, ordered by name; queues also without jobs of their own."""
    items = objects.get(job_items)
    found = {name: tuple(sorted({value(item) for item in items})) for name, value in GROUPS.items()}
    queues = {name for item in items for name in item.queues}
    return {**found, "queue": tuple(sorted(queues | {share.name for share in objects.board.queues}))}


def keys_for(action: str, items: Iterable[JobItem], selected: Sequence[str]) -> list[Key]:
    """Keys of the selected jobs that an action applies to; `selected` has their identities."""
    wanted = set(selected)
    return [item.key for item in items if item.identity in wanted and item.accepts(action)]
