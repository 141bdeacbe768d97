"""A small cluster in memory: objects, versions, watch events, owners, and a hand to play scheduler and kubelet."""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from volcano.base.clock import Instant, VirtualClock
from volcano.kube.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from volcano.kube.api.kinds import EVENT, JOB, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of, labels_of, owners_of, uid_of
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.operations import Call, Create, Delete, Get, Operation, Patch, Update
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.controllers.controller import Controller, WorkItem, WorkResult
from volcano.kube.patches.patch import merge_patch


class Crash(Exception):
    """The controller was killed."""


class FakeCluster:
    """Applies operations as an API server would, dispatches events, and runs controllers until all are idle."""

    def __init__(self, *, graceful: bool = True) -> None:
        self.clock = VirtualClock()
        self.graceful = graceful
        self.objects: dict[Kind, dict[Key, Manifest]] = defaultdict(dict)
        self.controllers: list[Controller] = []
        self.pending: list[Event] = []
        self.log: list[Operation] = []
        self.writes_left: int | None = None
        self.refuse: Callable[[Operation], ApiError | None] = lambda operation: None
        self.shuffle: Callable[[list[Event]], list[Event]] = lambda events: events
        self._version = 0
        self._uid = 0
        self.put(QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}})

    # --- the API server

    def now(self) -> Instant:
        return self.clock.now()

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Creates an object as a user would."""
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **copy.deepcopy(manifest)}
        metadata = manifest["metadata"]
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        key = key_of(manifest)
        if key in self.objects[kind]:
            raise AlreadyExists(f'{kind.resource} "{key.name}" already exists')
        self._uid += 1
        metadata["uid"] = f"uid-{self._uid}"
        metadata["creationTimestamp"] = self.now().timestamp()
        metadata["generation"] = 1
        if kind in (POD, JOB):
            manifest["status"] = {"phase": "Pending"} if kind == POD else {}
        return self._store(kind, manifest, EventType.ADDED)

    def change(self, kind: Kind, key: Key, patch: Any, *, subresource: str = "") -> Manifest:
        """Applies a merge patch as a user would."""
        known = self.get(kind, key)
        wanted = (patch.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != known["metadata"]["resourceVersion"]:
            raise Conflict(f'{kind.resource} "{key.name}" has been modified')
        new: Manifest = merge_patch(known, copy.deepcopy(patch))
        if "status" in kind.subresources:
            held = "spec" if subresource == "status" else "status"
            new = {**new, held: known[held]} if held in known else new
        if new == known:
            return copy.deepcopy(known)
        new["metadata"] = dict(new["metadata"])
        if new.get("spec") != known.get("spec"):
            new["metadata"]["generation"] = known["metadata"].get("generation", 0) + 1
        return self._store(kind, new, EventType.MODIFIED)

    def remove(self, kind: Kind, key: Key, *, uid: str = "", now: bool = False) -> Manifest:
        """Deletes an object; a running pod goes gracefully: it is terminating until `reap`."""
        known = self.get(kind, key)
        if uid and uid != uid_of(known):
            raise Conflict(f'{kind.resource} "{key.name}": the uid is not {uid}')
        running = kind == POD and known["status"].get("phase") == "Running" and self.graceful
        if running and not now:
            if "deletionTimestamp" in known["metadata"]:
                return copy.deepcopy(known)
            return self.change(kind, key, {"metadata": {"deletionTimestamp": self.now().timestamp()}})
        del self.objects[kind][key]
        self._version += 1
        gone = {**known, "metadata": {**known["metadata"], "resourceVersion": str(self._version)}}
        self.pending.append(Event(EventType.DELETED, kind, gone))
        return copy.deepcopy(gone)

    def get(self, kind: Kind, key: Key) -> Manifest:
        found = self.objects[kind].get(key)
        if found is None:
            raise NotFound(f'{kind.resource} "{key.name}" not found')
        return found

    def find(self, kind: Kind, name: str, namespace: str = "default") -> Manifest | None:
        return self.objects[kind].get(Key(namespace if kind.namespaced else "", name))

    def _store(self, kind: Kind, manifest: Manifest, event_type: EventType) -> Manifest:
        self._version += 1
        manifest = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self._version)}}
        self.objects[kind][key_of(manifest)] = manifest
        self.pending.append(Event(event_type, kind, copy.deepcopy(manifest)))
        return copy.deepcopy(manifest)

    # --- controllers

    def start(self, controller: Controller) -> None:
        """A controller starts: it lists everything it watches."""
        self.pending.clear()
        for watch in controller.watches:
            for manifest in list(self.objects[watch.kind].values()):
                if _is_watched(watch, manifest):
                    controller.on_event(Event(EventType.ADDED, watch.kind, copy.deepcopy(manifest)))
        self.controllers.append(controller)

    def kill(self) -> None:
        """All controllers are gone, and what they knew."""
        self.controllers.clear()
        self.pending.clear()

    def run(self, *, rounds: int = 200) -> None:
        """Runs controllers until none has anything to do at this moment."""
        for _ in range(rounds):
            self._deliver()
            works = [
                (controller, work) for controller in self.controllers for work in controller.step(self.now())
            ]
            for controller, work in works:
                controller.on_result(self._do(work), self.now())
            if (
                not works
                and not self.pending
                and not any(self._is_due(controller) for controller in self.controllers)
            ):
                return
        raise AssertionError(f"no end of writing: {self.log[-6:]}")

    def advance(self, seconds: float) -> None:
        """Lets time pass, stopping wherever a controller has set itself an alarm."""
        end = self.now().monotonic + seconds
        self.run()
        while self.now().monotonic < end:
            dues = [due for controller in self.controllers if (due := controller.next_due()) is not None]
            target = min([end, *(due for due in dues if due > self.now().monotonic)])
            self.clock.advance(target - self.now().monotonic)
            self.run()

    def _is_due(self, controller: Controller) -> bool:
        due = controller.next_due()
        return due is not None and due <= self.now().monotonic

    def _deliver(self) -> None:
        events, self.pending = self.shuffle(self.pending), []
        for event in events:
            for controller in self.controllers:
                for watch in controller.watches:
                    if watch.kind == event.kind and _is_watched(watch, event.object):
                        controller.on_event(Event(event.type, event.kind, copy.deepcopy(event.object)))

    def _do(self, work: WorkItem) -> WorkResult:
        results: list[Manifest] = []
        first: ApiError | None = None
        grouped = {i: stop for start, stop in work.concurrent for i in range(start, stop)}
        for position, operation in enumerate(work.operations):
            if first is not None and grouped.get(position) != grouped.get(position - 1, -1):
                break
            try:
                results.append(self.perform(operation))
            except ApiError as error:
                first = first or error
                if position not in grouped:
                    break
                results.append(error.status())
        return WorkResult(work, tuple(results), first)

    def perform(self, operation: Operation) -> Manifest:
        """One write by a controller; with `writes_left` set, the controller dies after so many."""
        if self.writes_left is not None and operation.kind != EVENT:
            if self.writes_left == 0:
                raise Crash
            self.writes_left -= 1
        try:
            if (rejection := self.refuse(operation)) is not None:
                raise rejection
            result = self._write(operation)
        except ApiError as error:
            match operation:
                case Create(if_absent=True) if isinstance(error, AlreadyExists):
                    return copy.deepcopy(self.get(operation.kind, operation.key))
                case Create(optional=True):
                    return error.status()
                case Patch(if_present=True) | Delete(if_present=True) | Get() if isinstance(error, NotFound):
                    return {}
            raise
        self.log.append(operation)
        return result

    def _write(self, operation: Operation) -> Manifest:
        match operation:
            case Create():
                return self.put(operation.kind, operation.manifest)
            case Patch():
                return self.change(
                    operation.kind, operation.key, operation.patch, subresource=operation.subresource
                )
            case Delete():
                if operation.kind == JOB:
                    return self.delete_job(operation.key.name, operation.key.namespace)
                return self.remove(operation.kind, operation.key, uid=operation.options.uid)
            case Get():
                return copy.deepcopy(self.get(operation.kind, operation.key))
            case Update() | Call():
                raise AssertionError("no controller here replaces whole objects or calls other servers")

    # --- scheduler, kubelet, garbage collector and user

    def pods(self, job: str = "") -> list[Manifest]:
        return [pod for pod in self.objects[POD].values() if not job or labels_of(pod).get(JOB_NAME) == job]

    def pod_names(self, job: str = "") -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.pods(job))

    def group(self, job: str) -> Manifest | None:
        groups = [g for g in self.objects[POD_GROUP].values() if labels_of(g).get(JOB_NAME) == job]
        assert len(groups) <= 1, f"{job} has {len(groups)} PodGroups"
        return groups[0] if groups else None

    def admit(self, phase: str = "Inqueue") -> None:
        """The scheduler lets every waiting gang in."""
        for key, group in list(self.objects[POD_GROUP].items()):
            if (group.get("status") or {}).get("phase", "Pending") == "Pending":
                self.change(POD_GROUP, key, {"status": {"phase": phase}})
        self.run()

    def set_group(self, job: str, phase: str) -> None:
        group = self.group(job)
        assert group is not None
        self.change(POD_GROUP, key_of(group), {"status": {"phase": phase}})
        self.run()

    def set_pod(self, name: str, phase: str, *, exit_code: int = 0, **status: Any) -> None:
        """A pod changes phase, as its kubelet would say it."""
        container: Manifest = {"name": "main", "ready": phase == "Running", "restartCount": 0}
        if phase in ("Succeeded", "Failed"):
            container["state"] = {"terminated": {"exitCode": exit_code, "finishedAt": self.now().timestamp()}}
        change = {"status": {"phase": phase, "containerStatuses": [container], **status}}
        self.change(POD, Key("default", name), change, subresource="status")

    def start_pods(self, job: str = "") -> None:
        """Every waiting pod starts to run."""
        for pod in self.pods(job):
            if pod["status"]["phase"] == "Pending":
                self.set_pod(pod["metadata"]["name"], "Running")
        self.run()

    def finish(self, *names: str, phase: str = "Succeeded", exit_code: int = 0) -> None:
        for name in names:
            self.set_pod(name, phase, exit_code=exit_code)
        self.run()

    def reap(self) -> None:
        """Terminating pods are gone."""
        for key, pod in list(self.objects[POD].items()):
            if "deletionTimestamp" in pod["metadata"]:
                self.remove(POD, key, now=True)
        self.run()

    def evict(self, name: str) -> None:
        """A user deletes a pod."""
        self.remove(POD, Key("default", name), now=True)
        self.run()

    def remove_pods(self, *names: str) -> None:
        """Pods go with their node while no controller runs."""
        for name in names:
            self.remove(POD, Key("default", name), now=True)

    def settle(self, *, rounds: int = 12) -> None:
        """Scheduler and kubelet do their part until nothing changes."""
        for _ in range(rounds):
            before = self._version
            self.run()
            self.admit()
            self.reap()
            self.start_pods()
            if self._version == before:
                return

    def delete_job(self, name: str, namespace: str = "default") -> Manifest:
        """A job is deleted; what it owns follows, its running pods gracefully."""
        gone = self.remove(JOB, Key(namespace, name))
        for kind, key, _ in list(self._owned_by(uid_of(gone))):
            self.remove(kind, key)
        return gone

    def _owned_by(self, uid: str) -> Iterator[tuple[Kind, Key, Manifest]]:
        for kind, objects in list(self.objects.items()):
            for key, manifest in list(objects.items()):
                if any(owner.get("uid") == uid for owner in owners_of(manifest)):
                    yield kind, key, manifest

    def job(self, name: str) -> Manifest:
        return self.get(JOB, Key("default", name))

    def phase(self, name: str) -> str:
        state = (self.job(name).get("status") or {}).get("state") or {}
        return str(state.get("phase", ""))

    def events(self, reason: str = "") -> list[Manifest]:
        return [event for event in self.objects[EVENT].values() if not reason or event["reason"] == reason]


def _is_watched(watch: Watch, manifest: Manifest) -> bool:
    """Whether a watch by `label`, `!label` or nothing tells of an object."""
    label = watch.labels.removeprefix("!")
    return not label or (label in labels_of(manifest)) != watch.labels.startswith("!")
