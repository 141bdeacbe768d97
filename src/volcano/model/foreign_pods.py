"""PodGroups whose pods another scheduler places: it keeps their status, and two would write against each other."""

from collections.abc import Collection

from volcano.model.task import Task


class ForeignPods:
    """The pods of other schedulers, by the PodGroup they are in."""

    def __init__(self, ours: Collection[str]) -> None:
        self._ours = ours
        self._pods: dict[str, dict[str, None]] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._pods

    def see(self, task: Task, changed: dict[str, None], *, gone: bool) -> None:
        """Takes in one pod; a PodGroup that got its first, or lost its last, is put among the changed."""
        if not task.job or task.scheduler in self._ours:
            return
        before = task.job in self._pods
        pods = self._pods.setdefault(task.job, {})
        if gone:
            pods.pop(task.uid, None)
        else:
            pods[task.uid] = None
        if not pods:
            del self._pods[task.job]
        if before is not bool(pods):
            changed[task.job] = None
