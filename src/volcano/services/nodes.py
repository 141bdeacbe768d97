"""Drain of a node: which pods it evicts, and evictions, which respect disruption budgets."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from volcano.base.clock import Clock
from volcano.kube.api.errors import ApiError, NotFound, TooManyRequests
from volcano.kube.api.fields import items
from volcano.kube.api.kinds import NODE, POD
from volcano.kube.api.manifest import Key, Manifest, annotations_of, controller_of, has_ended, key_of, uid_of
from volcano.kube.client.protocol import Client
from volcano.views.pods import job_of

WITHIN = 600.0  # seconds that a drain goes on
PAUSE = 2.0  # seconds between two attempts
PARALLEL = 8
MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What a drain would do to the pods of a node."""

    evicted: tuple[Key, ...]
    daemon: tuple[Key, ...]  # of DaemonSets and static pods: left, since they would come back at once
    unmanaged: tuple[Key, ...]  # without a controller: nothing creates them again
    local_data: tuple[Key, ...]  # with emptyDir volumes, whose contents are lost
    jobs: tuple[str, ...]  # jobs and PodGroups of the evicted pods

    @property
    def is_lossy(self) -> bool:
        """Whether pods or data are lost for good."""
        return bool(self.unmanaged or self.local_data)

    def question(self, node: str) -> str:
        """What the viewer is asked, in sentences."""
        if not self.evicted:
            return f"Cordon node {node}? It has no pods to evict.{self._left()}"
        pods = _count(len(self.evicted), "pod")
        text = f"Cordon node {node} and evict {pods}"
        text += f" of {_count(len(self.jobs), 'job')}: {_listed(self.jobs)}?" if self.jobs else "?"
        text += " PodDisruptionBudgets are respected: an eviction that one forbids is tried again."
        if self.unmanaged:
            text += f" No controller creates these pods again: {_listed(map(str, self.unmanaged))}."
        if self.local_data:
            text += f" The emptyDir volumes of these pods are lost: {_listed(map(str, self.local_data))}."
        return text + self._left()

    def _left(self) -> str:
        return (
            f" {_count(len(self.daemon), 'pod')} of DaemonSets or the node itself stay."
            if self.daemon
            else ""
        )


def plan_drain(pods: Iterable[Manifest]) -> DrainPlan:
    """Plan for all pods of a node. Ended pods are evicted too: their objects go."""
    found = list(pods)
    evicted = [pod for pod in found if not _stays(pod)]
    active = [pod for pod in evicted if not has_ended(pod)]
    return DrainPlan(
        evicted=_keys(evicted),
        daemon=_keys(pod for pod in found if _stays(pod)),
        unmanaged=_keys(pod for pod in active if controller_of(pod) is None),
        local_data=_keys(
            pod for pod in active if any("emptyDir" in volume for volume in items(pod, "spec", "volumes"))
        ),
        jobs=tuple(sorted({job for pod in active if (job := job_of(pod))})),
    )


def _stays(pod: Manifest) -> bool:
    owner = controller_of(pod)
    return MIRROR in annotations_of(pod) or (owner is not None and owner.get("kind") == "DaemonSet")


def _keys(pods: Iterable[Manifest]) -> tuple[Key, ...]:
    return tuple(sorted(map(key_of, pods)))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


def _listed(names: Iterable[str], most: int = 5) -> str:
    found = list(names)
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """How far a drain is. A pod is in one of the groups."""

    total: int
    gone: int = 0
    terminating: int = 0
    blocked: Mapping[Key, str] = field(default_factory=dict)  # a disruption budget forbids the eviction now
    failed: Mapping[Key, str] = field(default_factory=dict)  # not tried again

    @property
    def is_complete(self) -> bool:
        return self.gone == self.total

    def text(self) -> str:
        parts = [f"{self.gone} of {self.total} pods are gone"]
        if self.terminating:
            parts.append(f"{self.terminating} terminating")
        for name, pods in (("waiting", self.blocked), ("failed", self.failed)):
            if pods:
                key, reason = next(iter(sorted(pods.items())))
                parts.append(f"{len(pods)} {name}, such as {key}: {reason}")
        return "; ".join(parts) + ("" if parts[-1].endswith(".") else ".")


async def set_unschedulable(client: Client, node: str, *, unschedulable: bool) -> None:
    """Cordons a node, or makes it schedulable again."""
    await client.patch(NODE, Key("", node), {"spec": {"unschedulable": True if unschedulable else None}})


async def drain(
    client: Client, clock: Clock, node: str, pods: Collection[Key]
) -> AsyncIterator[DrainProgress]:
    """Cordons the node and evicts these pods of it, again and again where a budget forbids it, until all are gone or
    the time is over. Raises ApiError when the node cannot be cordoned."""
    await set_unschedulable(client, node, unschedulable=True)
    running = _Drain(client, node, set(pods))
    deadline = clock.now().monotonic + WITHIN
    while True:
        await running.step()
        progress = running.progress()
        yield progress
        if not running.is_waiting or clock.now().monotonic >= deadline:
            return
        await clock.sleep(PAUSE)


class _Drain:
    """State of a drain."""

    def __init__(self, client: Client, node: str, pods: set[Key]) -> None:
        self._client = client
        self._node = node
        self._total = len(pods)
        self._left = pods  # not known to be gone, and not failed
        self._evicted: dict[Key, str] = {}  # uids
        self._blocked: dict[Key, str] = {}
        self._failed: dict[Key, str] = {}
        self._limit = asyncio.Semaphore(PARALLEL)

    @property
    def is_waiting(self) -> bool:
        return bool(self._left)

    def progress(self) -> DrainProgress:
        return DrainProgress(
            self._total,
            self._total - len(self._left) - len(self._failed),
            len(self._left) - len(self._blocked),
            dict(self._blocked),
            dict(self._failed),
        )

    async def step(self) -> None:
        self._blocked = {}
        await asyncio.gather(*(self._step_of(key) for key in sorted(self._left)))

    async def _step_of(self, key: Key) -> None:
        async with self._limit:
            try:
                await self._evict(key)
            except NotFound:
                self._left.discard(key)
            except TooManyRequests as error:
                self._blocked[key] = error.message
            except ApiError as error:
                self._left.discard(key)
                self._failed[key] = error.message

    async def _evict(self, key: Key) -> None:
        """Evicts a pod, or finds that it is gone: a pod of the same name may be on another node by now."""
        pod = await self._client.get(POD, key)
        uid = uid_of(pod)
        if self._evicted.get(key, uid) != uid or pod["spec"].get("nodeName") != self._node:
            self._left.discard(key)
        elif key not in self._evicted:
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"namespace": key.namespace, "name": key.name},
                "deleteOptions": {"preconditions": {"uid": uid}},
            }
            await self._client.create(POD, eviction, subresource="eviction")
            self._evicted[key] = uid
