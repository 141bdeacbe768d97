"""Watches jobs until they end, for `volcano run`: live progress and the final result."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from volcano.base.clock import Clock, parse_timestamp
from volcano.base.workqueue import Waker
from volcano.embedded.reasons import exit_code, failure_reason, waiting_reason
from volcano.embedded.workloads import end_of, owners_between, workload_of
from volcano.kube.api.kinds import BATCH_JOB, JOB, JOB_FLOW, POD, POD_GROUP, Kind
from volcano.kube.api.manifest import Key, Manifest, condition_of, key_of, owners_of, uid_of
from volcano.kube.client.protocol import Client, Event, EventType, Watch
from volcano.kube.informers.indexer import Indexer
from volcano.kube.informers.reflector import Reflector, each_event

TRACKED: tuple[Kind, ...] = (JOB, BATCH_JOB, JOB_FLOW, POD)
SUCCESSFUL = ("Completed", "Succeeded", "Succeed")
UNSUCCESSFUL = ("Failed", "Aborted", "Terminated")
ENDED = (*SUCCESSFUL, *UNSUCCESSFUL)
REFRESH = 0.25
LEVELS = 3  # objects between a workload and its pods: a TrainJob's JobSet and Job, and one more


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """The progress of one tracked object."""

    kind: str
    namespace: str
    name: str
    phase: str
    pods: Mapping[str, int]
    queue: str
    nodes: int
    seconds: float
    over: bool
    good: bool
    remark: str = ""
    exit_code: int = 0  # of the first failed container

    def as_json(self) -> Manifest:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "phase": self.phase,
            "pods": dict(self.pods),
            "queue": self.queue,
            "nodes": self.nodes,
            "seconds": round(self.seconds, 1),
            "completed": self.good and self.phase in SUCCESSFUL,
            **({"remark": self.remark} if self.remark else {}),
            **({"exitCode": self.exit_code} if self.exit_code else {}),
        }


class ProgressWatcher:
    """Watches objects and their pods until each has ended, or never will."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        targets: Sequence[tuple[Kind, Manifest]],
        on_pod: Callable[[Manifest], None] = lambda pod: None,
        served: Iterable[Kind] = (),
    ) -> None:
        """`on_pod` is called with every pod of a target whenever it changes. `served` are the kinds of the cluster,
        to find the pods of workloads that own them through other objects."""
        self._client = client
        self._on_pod = on_pod
        self._clock = clock
        self._targets = [(kind, key_of(manifest)) for kind, manifest in targets if is_tracked(kind)]
        custom = {kind for kind, _ in self._targets if kind not in TRACKED}
        self._between = [JOB, BATCH_JOB, *owners_between(custom, served)]
        self._watched = dict.fromkeys([*TRACKED, POD_GROUP, *custom, *self._between])
        self._index = Indexer()
        for kind in (POD, POD_GROUP, *self._between):
            self._index.add_controller_index(kind)
        self._waker = Waker(clock)
        self._deleted: dict[tuple[Kind, Key], Manifest] = {}  # as they were when they were deleted

    async def follow(self, *, timeout: float, console: Console, quiet: bool) -> list[ProgressRow]:
        """Shows a live table on a terminal, otherwise a line per change; returns the final rows."""
        reflectors = [
            Reflector(self._client, Watch(kind), each_event(self._handle), self._clock)
            for kind in self._watched
        ]
        tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        try:
            for reflector in reflectors:
                await reflector.synced.wait()
            return await self._watch(timeout, console, quiet=quiet)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, timeout: float, console: Console, *, quiet: bool) -> list[ProgressRow]:
        deadline = self._clock.now().monotonic + timeout
        seen: dict[Key, str] = {}
        live = (
            Live(console=console, refresh_per_second=8, transient=True)
            if console.is_terminal and not quiet
            else None
        )
        if live is not None:
            live.start()
        try:
            while True:
                self._waker.clear()
                rows = self.rows()
                if live is not None:
                    live.update(table_of(rows))
                elif not quiet:
                    _print_changes(console, rows, seen)
                if all(row.over for row in rows) or self._clock.now().monotonic >= deadline:
                    return rows
                await self._waker.wait(self._clock.now().monotonic + REFRESH)
        finally:
            self._waker.close()
            if live is not None:
                live.stop()

    def _handle(self, event: Event) -> None:
        if event.type is EventType.DELETED and (event.kind, key_of(event.object)) in self._targets:
            self._deleted[event.kind, key_of(event.object)] = event.object
        if event.type is not EventType.BOOKMARK and self._index.apply(event):
            self._waker.wake()

    def rows(self) -> list[ProgressRow]:
        return [self._row(kind, key) for kind, key in self._targets]

    def _row(self, kind: Kind, key: Key) -> ProgressRow:
        manifest = self._index.get(kind, key) or self._deleted_at_its_end(kind, key)
        if manifest is None:
            remark = "deleted before it was done"
            return ProgressRow(
                kind.kind,
                key.namespace,
                key.name,
                "Gone",
                {},
                "",
                0,
                0.0,
                over=True,
                good=False,
                remark=remark,
            )
        pods = self._pods(kind, manifest)
        for pod in pods:
            self._on_pod(pod)
        counts = Counter((pod.get("status") or {}).get("phase", "Pending") for pod in pods)
        phase = _phase(kind, manifest)
        endless = phase == "Running" and never_ends(kind, manifest)
        begun = parse_timestamp(manifest["metadata"]["creationTimestamp"])
        remark = "runs on: it never ends by itself" if endless else self._reason(kind, manifest, pods, phase)
        return ProgressRow(
            kind.kind,
            key.namespace,
            key.name,
            phase,
            counts,
            str((manifest.get("spec") or {}).get("queue", "")),
            len({pod["spec"].get("nodeName") for pod in pods if pod["spec"].get("nodeName")}),
            max((_ended(kind, manifest, phase) or self._clock.now().wall) - begun, 0.0),
            over=phase in SUCCESSFUL or phase in UNSUCCESSFUL or endless,
            good=phase in SUCCESSFUL or endless,
            remark=remark,
            exit_code=0 if phase in SUCCESSFUL or endless else exit_code(pods),
        )

    def _deleted_at_its_end(self, kind: Kind, key: Key) -> Manifest | None:
        """With a TTL of zero, a job is deleted as soon as it ends."""
        last = self._deleted.get((kind, key))
        return last if last is not None and _phase(kind, last) in ENDED else None

    def _pods(self, kind: Kind, manifest: Manifest) -> list[Manifest]:
        if kind == POD:
            return [manifest]
        return list(self._pods_below(manifest, LEVELS if workload_of(kind) or kind == JOB_FLOW else 0))

    def _pods_below(self, owner: Manifest, levels: int) -> Iterator[Manifest]:
        """Pods that an object controls, itself or through at most `levels` other objects, pods among them."""
        for pod in self._index.owned(POD, owner):
            yield pod
            if levels:
                yield from self._pods_below(pod, levels - 1)
        for kind in self._between if levels else ():
            for child in self._index.owned(kind, owner):
                yield from self._pods_below(child, levels - 1)

    def _reason(self, kind: Kind, manifest: Manifest, pods: Sequence[Manifest], phase: str) -> str:
        if phase in SUCCESSFUL:
            return ""
        if phase in UNSUCCESSFUL:
            return failure_reason(manifest, pods)
        waiting = phase in ("Pending", "Restarting") and kind != POD
        return waiting_reason(pods, self._index.owned(POD_GROUP, manifest) if waiting else ())


def never_ends(kind: Kind, manifest: Manifest) -> bool:
    """Whether pods restart forever and nothing else ends the object."""
    spec = manifest.get("spec") or {}
    if kind != JOB:
        return kind == POD and bool(spec.get("restartPolicy", "Always") == "Always")
    tasks = spec.get("tasks") or ()
    endless = [task for task in tasks if _restarts_always(task)]
    if not endless:
        return False
    ending = [task for task in tasks if not _restarts_always(task)]
    if any(
        _completes(policy)
        for task in ending
        for policy in (*(task.get("policies") or ()), *(spec.get("policies") or ()))
    ):
        return False
    enough = spec.get("minSuccess")
    return enough is None or enough > sum(task.get("replicas", 0) for task in ending)


def _restarts_always(task: Mapping[str, Any]) -> bool:
    pod = (task.get("template") or {}).get("spec") or {}
    return bool(pod.get("restartPolicy", "Always") == "Always")


def _completes(policy: Mapping[str, Any]) -> bool:
    events = {policy.get("event"), *(policy.get("events") or ())}
    return policy.get("action") == "CompleteJob" and bool(events & {"TaskCompleted", "*"})


def _phase(kind: Kind, manifest: Manifest) -> str:
    status = manifest.get("status") or {}
    if kind in (JOB, JOB_FLOW):
        return str((status.get("state") or {}).get("phase") or "Pending")
    if kind == POD:
        return str(status.get("phase") or "Pending")
    if (workload := workload_of(kind)) is not None:
        return workload.phase(status)
    for condition, phase in (("Complete", "Completed"), ("Failed", "Failed")):
        found = condition_of(manifest, condition)
        if found is not None and found.get("status") == "True":
            return phase
    return "Running" if status.get("active") else "Pending"


def _ended(kind: Kind, manifest: Manifest, phase: str) -> float | None:
    """The end time; None while it has not ended, or when its status does not tell."""
    if phase not in ENDED:
        return None
    status = manifest.get("status") or {}
    if kind == POD:
        states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
        moments = [state["terminated"].get("finishedAt") for state in states if state.get("terminated")]
    elif kind == BATCH_JOB:
        failed = condition_of(manifest, "Failed") or {}
        moments = [status.get("completionTime") or failed.get("lastTransitionTime")]
    elif workload_of(kind) is not None:
        moments = [end_of(manifest)]
    else:
        moments = [(status.get("state") or {}).get("lastTransitionTime")]
    return max((parse_timestamp(moment) for moment in moments if moment), default=None)


def table_of(rows: Iterable[ProgressRow]) -> Table:
    """The rows as a table for terminals."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("KIND", "NAMESPACE", "NAME", "STATUS", "PODS", "NODES", "QUEUE", "TIME", "REMARK"):
        table.add_column(name, overflow="fold" if name == "REMARK" else "ellipsis", no_wrap=name != "REMARK")
    for row in rows:
        colour = (
            "green" if row.good else "red" if row.over else "yellow" if row.phase == "Pending" else "cyan"
        )
        pods = ", ".join(f"{count} {phase.lower()}" for phase, count in sorted(row.pods.items()))
        seconds = f"{row.seconds:.0f}s" if not math.isinf(row.seconds) else ""
        phase = f"[{colour}]{row.phase}[/]"
        cells = (
            row.kind,
            row.namespace,
            row.name,
            phase,
            pods,
            str(row.nodes),
            row.queue,
            seconds,
            escape(row.remark),
        )
        table.add_row(*cells)
    return table


def _print_changes(console: Console, rows: Sequence[ProgressRow], seen: dict[Key, str]) -> None:
    for row in rows:
        key, text = Key(row.namespace, row.name), f"{row.phase} {row.remark}".strip()
        if seen.get(key) != text:
            seen[key] = text
            line = f"{row.kind.lower()} {key}: {text}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def is_tracked(kind: Kind) -> bool:
    """Whether objects of a kind come to an end."""
    return kind in TRACKED or workload_of(kind) is not None


def tracked(
    applied: Iterable[Manifest], kinds: Mapping[tuple[str, str], Kind]
) -> list[tuple[Kind, Manifest]]:
    """The applied objects that come to an end: jobs, and pods without an owner."""
    found = []
    for manifest in applied:
        kind = kinds.get((manifest["apiVersion"], manifest["kind"]))
        if kind is not None and is_tracked(kind) and uid_of(manifest) and not list(owners_of(manifest)):
            found.append((kind, manifest))
    return found
