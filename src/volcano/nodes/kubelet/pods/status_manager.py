"""Status manager: writes a pod's status when it changes, and deletes the pod when it has terminated."""

import asyncio
from typing import Protocol

from volcano.base.log import Log
from volcano.base.workqueue import Backoff, Waker
from volcano.kube.api.errors import ApiError, Conflict, NotFound
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, key_of, uid_of
from volcano.kube.client.protocol import Options, PatchType
from volcano.nodes.kubelet.pods.context import PodWorkerContext
from volcano.nodes.kubelet.pods.lifecycle import Containers, PodState
from volcano.nodes.kubelet.pods.status import status_of

log = Log("kubelet")

BACKOFF = Backoff(first=0.2, longest=10.0)
# A strategic patch would merge these lists by address: they are replaced.
REPLACED_LISTS = ("podIPs", "hostIPs")
CLEARED_FIELDS = ("reason", "message")
STARTING = ("ContainerCreating", "PodInitializing")


class StatusSource(Protocol):
    """The pod whose status is written, as its worker has it."""

    pod: Manifest
    pod_state: PodState
    containers: Containers

    def update_pod(self, pod: Manifest) -> None: ...


class StatusManager:
    """Writes the status of one pod, one write at a time. Changes during a write are combined into the next one."""

    def __init__(self, context: PodWorkerContext, source: StatusSource) -> None:
        self._context = context
        self._source = source
        self._wanted: Manifest = {}
        self._written: object = _comparable(source.pod.get("status") or {})
        self._remove = False
        self._removed = False
        self._urgent = False
        self._waker = Waker(context.clock)
        self._task: asyncio.Task[None] | None = None

    def update(self, *, remove: bool) -> None:
        """Computes the status and starts writing it if it changed; with `remove`, the pod is deleted afterwards."""
        source, context = self._source, self._context
        now = context.clock.now().wall
        self._wanted = status_of(source.pod, source.containers, source.pod_state, now, context.runtime_name)
        source.pod_state.phase = self._wanted["phase"]
        self._remove = remove
        if remove or not _is_transient(self._wanted):
            self._urgent = True
            self._waker.wake()
        if self._has_work() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write(), name=f"status of {key_of(source.pod)}")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _has_work(self) -> bool:
        return self._differs() or (self._remove and not self._removed)

    def _differs(self) -> bool:
        if _comparable(self._wanted) != self._written:
            return True
        shown = self._source.pod.get("status") or {}
        return (
            _condition_statuses(self._wanted) - _condition_statuses(shown) != set()
        )  # overwritten by another client

    async def _write(self) -> None:
        failures = 0
        while self._has_work():
            await self._debounce()
            try:
                if self._differs():
                    await self._patch()
                else:
                    await self._delete()
                failures = 0
            except (NotFound, Conflict) as error:
                # Deleted, or replaced by another pod of the same name: the watch reports it.
                log.debug(
                    "pod not found, status dropped", pod=str(key_of(self._source.pod)), reason=error.message
                )
                return
            except ApiError as error:
                log.info(
                    "pod status update failed, retrying",
                    pod=str(key_of(self._source.pod)),
                    reason=error.message,
                )
                await self._context.clock.sleep(BACKOFF.delay(failures))
                failures += 1

    async def _debounce(self) -> None:
        """Holds back a status that only reports a pod as starting: the next one mostly replaces it."""
        delay = self._context.options.status_delay
        if not delay or self._urgent:
            return
        self._waker.clear()
        try:
            await self._waker.wait(self._context.clock.now().monotonic + delay)
        finally:
            self._waker.close()

    async def _patch(self) -> None:
        pod, wanted = self._source.pod, self._wanted
        patch = {"metadata": {"uid": uid_of(pod)}, "status": _patched(wanted, pod.get("status") or {})}
        options = Options(patch_type=PatchType.STRATEGIC)
        result = await self._context.client.patch(
            POD, key_of(pod), patch, subresource="status", options=options
        )
        self._written = _comparable(wanted)
        self._source.update_pod(result)

    async def _delete(self) -> None:
        pod = self._source.pod
        options = Options(grace_seconds=0, uid=uid_of(pod))
        await self._context.client.delete(POD, key_of(pod), options=options)
        self._removed = True


def _is_transient(status: Manifest) -> bool:
    """Whether a status only reports that the pod is starting."""
    entries = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return status["phase"] == "Pending" and all(
        entry["state"].get("waiting", {}).get("reason") in STARTING for entry in entries
    )


def _patched(wanted: Manifest, shown: Manifest) -> Manifest:
    """The patch from the current status to the wanted one, without fields that others own."""
    patch = dict(wanted)
    for field in CLEARED_FIELDS:
        if field not in wanted and shown.get(field):
            patch[field] = None
    for field in REPLACED_LISTS:
        if shown.get(field) and shown[field] != wanted.get(field):
            patch[field] = [{"$patch": "replace"}, *wanted.get(field, ())]
    return patch


def _comparable(status: Manifest) -> object:
    """The parts of a status whose change is worth a write: all but condition times and null values."""
    conditions = {
        condition.get("type", ""): (
            condition.get("status", ""),
            condition.get("reason") or "",
            condition.get("message") or "",
        )
        for condition in status.get("conditions") or ()
    }
    rest = {
        name: _without_nulls(value)
        for name, value in status.items()
        if name not in ("conditions", "qosClass")
    }
    return conditions, rest


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _condition_statuses(status: Manifest) -> set[tuple[str, str]]:
    found = {
        (condition.get("type", ""), condition.get("status", ""))
        for condition in status.get("conditions") or ()
    }
    return found | {("phase", status.get("phase", ""))}
