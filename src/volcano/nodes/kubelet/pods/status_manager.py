"""Writes a pod's status when it has changed, one write at a time, and takes the pod away when all is over."""

import asyncio
from typing import Protocol

from volcano.kube.client import Options, PatchType
from volcano.kube.errors import ApiError, Conflict, NotFound
from volcano.kube.kinds import POD
from volcano.kube.manifest import Manifest, key_of, uid_of
from volcano.log import Log
from volcano.nodes.kubelet.pods.context import Surroundings
from volcano.nodes.kubelet.pods.lifecycle import Containers, Record
from volcano.nodes.kubelet.pods.status import status_of

log = Log("agent")

FIRST_RETRY, LONGEST_RETRY = 0.2, 10.0
# Lists that a strategic patch merges by address: ours are whole.
WHOLE_LISTS = ("podIPs", "hostIPs")
PASSING = ("reason", "message")
STARTING = ("ContainerCreating", "PodInitializing")


class Subject(Protocol):
    """Whose status it is."""

    pod: Manifest
    record: Record
    containers: Containers

    def see(self, pod: Manifest) -> None: ...


class Report:
    """The status of one pod. Changes that come while a write is under way go into one write after it."""

    def __init__(self, around: Surroundings, subject: Subject) -> None:
        self._around = around
        self._subject = subject
        self._wanted: Manifest = {}
        self._written: object = _essence(subject.pod.get("status") or {})
        self._remove = False
        self._removed = False
        self._urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def update(self, *, remove: bool) -> None:
        """Works the status out afresh and sees to its being written; with `remove`, to the pod's going after that."""
        subject, around = self._subject, self._around
        now = around.clock.now().wall
        self._wanted = status_of(subject.pod, subject.containers, subject.record, now, around.runtime_name)
        subject.record.phase = self._wanted["phase"]
        self._remove = remove
        if remove or not _is_passing(self._wanted):
            self._urgent.set()
        if self._has_work() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write(), name=f"status of {key_of(subject.pod)}")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _has_work(self) -> bool:
        return self._differs() or (self._remove and not self._removed)

    def _differs(self) -> bool:
        if _essence(self._wanted) != self._written:
            return True
        shown = self._subject.pod.get("status") or {}
        return _verdicts(self._wanted) - _verdicts(shown) != set()  # somebody else has written over ours

    async def _write(self) -> None:
        pause = FIRST_RETRY
        while self._has_work():
            await self._linger()
            try:
                if self._differs():
                    await self._patch()
                else:
                    await self._delete()
                pause = FIRST_RETRY
            except (NotFound, Conflict) as error:
                # It is gone, or a namesake has taken its place: the watch will say so.
                log.debug("pod gone while writing", pod=str(key_of(self._subject.pod)), reason=error.message)
                return
            except ApiError as error:
                log.info("status not written", pod=str(key_of(self._subject.pod)), reason=error.message)
                await self._around.clock.sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY)

    async def _linger(self) -> None:
        """Waits a moment for something better to say."""
        delay = self._around.settings.report_delay
        if not delay or self._urgent.is_set():
            return
        waiting = asyncio.create_task(self._urgent.wait())
        alarm = asyncio.create_task(self._around.clock.sleep(delay))
        try:
            await asyncio.wait((waiting, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            alarm.cancel()

    async def _patch(self) -> None:
        pod, wanted = self._subject.pod, self._wanted
        patch = {"metadata": {"uid": uid_of(pod)}, "status": _patched(wanted, pod.get("status") or {})}
        options = Options(patch_type=PatchType.STRATEGIC)
        result = await self._around.client.patch(
            POD, key_of(pod), patch, subresource="status", options=options
        )
        self._written = _essence(wanted)
        self._subject.see(result)

    async def _delete(self) -> None:
        pod = self._subject.pod
        options = Options(grace_seconds=0, uid=uid_of(pod))
        await self._around.client.delete(POD, key_of(pod), options=options)
        self._removed = True


def _is_passing(status: Manifest) -> bool:
    """Whether a status says no more than that the pod is being started."""
    entries = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return status["phase"] == "Pending" and all(
        entry["state"].get("waiting", {}).get("reason") in STARTING for entry in entries
    )


def _patched(wanted: Manifest, shown: Manifest) -> Manifest:
    """The change that makes a status say what we want, and leaves alone what is not ours."""
    patch = dict(wanted)
    for field in PASSING:
        if field not in wanted and shown.get(field):
            patch[field] = None
    for field in WHOLE_LISTS:
        if shown.get(field) and shown[field] != wanted.get(field):
            patch[field] = [{"$patch": "replace"}, *wanted.get(field, ())]
    return patch


def _essence(status: Manifest) -> object:
    """What of a status is worth a write: everything but the times of conditions, and what is not there."""
    conditions = {
        condition["type"]: (
            condition["status"],
            condition.get("reason") or "",
            condition.get("message") or "",
        )
        for condition in status.get("conditions") or ()
    }
    rest = {name: _bare(value) for name, value in status.items() if name not in ("conditions", "qosClass")}
    return conditions, rest


def _bare(value: object) -> object:
    if isinstance(value, dict):
        return {name: _bare(each) for name, each in value.items() if each is not None}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _verdicts(status: Manifest) -> set[tuple[str, str]]:
    found = {(condition["type"], condition["status"]) for condition in status.get("conditions") or ()}
    return found | {("phase", status.get("phase", ""))}
