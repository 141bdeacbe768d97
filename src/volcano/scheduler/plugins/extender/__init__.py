"""extender: delegates hooks to an HTTP server."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from volcano.base.log import Log
from volcano.model.job import Job
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.task import Task
from volcano.scheduler.engine.answers import ABSTAIN, Abstain, EvictionContext, RejectedNodes, Vote
from volcano.scheduler.engine.arguments import Argument, Arguments, Type
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.extender.payloads import (
    job_info,
    node_info,
    queue_info,
    session_info,
    task_info,
)
from volcano.scheduler.plugins.extender.port import HttpPort, NoPort, Port

__all__ = ["Extender", "HttpPort"]

log = Log("extender")

VERBS = (
    "onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable", "reclaimable", "queueOverused",
    "jobEnqueueable", "jobEnqueued", "jobReady", "allocateFunc", "deallocateFunc",
)  # fmt: skip
UNRESOLVABLE = 3  # response code for nodes that evictions would not make feasible


class ExtenderFailed(Exception):
    """The extender gave no usable response."""


class Extender(Plugin):
    """A hook without a configured verb is not delegated. With `extender.ignorable` errors are ignored."""

    session: Session
    depends_on_time: ClassVar = True
    arguments: ClassVar = (
        Argument("extender.urlPrefix", Type.TEXT),
        Argument("extender.httpTimeout", Type.DURATION),
        *(Argument(f"extender.{verb}Verb", Type.TEXT) for verb in VERBS),
        Argument("extender.ignorable", Type.BOOLEAN),
        Argument("extender.managedResources", Type.LIST),
    )

    def open(self, arguments: Arguments) -> None:
        self.port: Port = self.session.config.ports.get("extender") or NoPort()
        self.prefix = arguments.text("extender.urlPrefix").rstrip("/")
        self.timeout = arguments.duration("extender.httpTimeout", 1.0)
        self.ignorable = arguments.boolean("extender.ignorable", False)
        self.verbs = {verb: text for verb in VERBS if (text := arguments.text(f"extender.{verb}Verb"))}
        self.managed = self.resources.mask(arguments.strings("extender.managedResources"))
        self.manages_some = bool(arguments.value("extender.managedResources"))
        if "onSessionOpen" in self.verbs:
            opened = self._try("onSessionOpen", session_info(self.snapshot)) is not None
            if not opened and not self.ignorable:
                self.verbs = {}

    def close(self) -> None:
        if "onSessionClose" in self.verbs:
            self._try("onSessionClose", {})

    # -- calls
    # ------------------------------------------------------------------------------------------------------

    def _call(self, verb: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the extender's response. Raises ExtenderFailed."""
        url = f"{self.prefix}/{self.verbs[verb]}"
        try:
            response = self.port.post(url, msgspec.json.encode(payload, order="deterministic"), self.timeout)
            return msgspec.json.decode(response, type=dict[str, Any]) if response.strip() else {}
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("extender failed", verb=verb, url=url, error=str(error))
            raise ExtenderFailed(f"extender {url}: {error}") from error

    def _try(self, verb: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the extender's response; None on an error."""
        try:
            return self._call(verb, payload)
        except ExtenderFailed:
            return None

    def _manages(self, task: Task) -> bool:
        """Reports whether the task requests a resource the extender manages; it manages all if none is configured."""
        return not self.manages_some or bool((task.request[self.managed] > 0).any())

    # -- nodes ------------------------------------------------------------------------------------------------------

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> list[RejectedNodes] | None:
        if "predicate" not in self.verbs or not self._manages(task):
            return None
        rejected: dict[tuple[str, bool], list[int]] = {}
        info = task_info(task, self.resources)
        for place, node in enumerate(nodes.facts):
            try:
                response = self._call("predicate", {"task": info, "node": node_info(node, {}, {})})
                message, code = str(response.get("status") or ""), response.get("code", 0)
            except ExtenderFailed as error:
                message, code = ("", 0) if self.ignorable else (str(error), UNRESOLVABLE)
            if message:
                rejected.setdefault((message, code != UNRESOLVABLE), []).append(place)
        return [
            RejectedNodes(np.isin(np.arange(len(nodes)), places), message, resolvable)
            for (message, resolvable), places in rejected.items()
        ]

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        if "prioritize" not in self.verbs or not self._manages(task):
            return None
        infos = [node_info(node, {}, {}) for node in nodes.facts]
        response = self._try("prioritize", {"task": task_info(task, self.resources), "nodes": infos})
        if response is None and not self.ignorable:
            raise ExtenderFailed(f"the extender did not say which node is best for {task.key}")
        scores = (response or {}).get("nodeScore") or {}
        return np.array([float(scores.get(name, 0.0)) for name in nodes.names])

    # -- jobs and queues --------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> Vote | Rejection:
        if "jobEnqueueable" not in self.verbs:
            return Vote.ABSTAIN
        response = self._try("jobEnqueueable", {"job": job_info(job, self.resources)})
        if response is None:
            return (
                Vote.PERMIT
                if self.ignorable
                else Rejection("the extender cannot be reached", Code.PLUGIN_FAILED)
            )
        return _vote(response.get("status", 0))

    def job_enqueued(self, job: Job) -> None:
        if "jobEnqueued" in self.verbs:
            self._try("jobEnqueued", {"job": job_info(job, self.resources)})

    def job_short(self, job: Job) -> int:
        if "jobReady" not in self.verbs:
            return 0
        response = self._try("jobReady", {"job": job_info(job, self.resources)})
        # parity: without a response the job is ready, unless errors are ignored
        ready = not self.ignorable if response is None else bool(response.get("status"))
        return 0 if ready else 1

    def overused(self, queue: Queue) -> bool:
        if "queueOverused" not in self.verbs:
            return False
        response = self._try("queueOverused", {"queue": queue_info(queue)})
        return not self.ignorable if response is None else bool(response.get("overused"))

    # -- victims ----------------------------------------------------------------------------------------------------

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        return self._victims("preemptable", context, candidates)

    def reclaimable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task] | Abstain:
        return self._victims("reclaimable", context, candidates)

    def _victims(
        self, verb: str, context: EvictionContext, candidates: Sequence[Task]
    ) -> Sequence[Task] | Abstain:
        if verb not in self.verbs or not self._manages(context.task):
            return ABSTAIN
        evictees = [task_info(task, self.resources) for task in candidates]
        response = self._try(verb, {"evictor": task_info(context.task, self.resources), "evictees": evictees})
        if response is None:
            return []
        if _vote(response.get("status", 0)) is Vote.ABSTAIN:
            return ABSTAIN
        named = {victim.get("UID") for victim in response.get("victims") or () if isinstance(victim, dict)}
        return [task for task in candidates if task.uid in named]

    # -- notifications
    # ----------------------------------------------------------------------------------------------

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._notify("allocateFunc", tasks)
        if "deallocateFunc" in self.verbs:
            self.ledger.record_undo(lambda: self._notify("deallocateFunc", tasks))

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._notify("deallocateFunc", tasks)
        if "allocateFunc" in self.verbs:
            self.ledger.record_undo(lambda: self._notify("allocateFunc", tasks))

    def _notify(self, verb: str, tasks: Sequence[Task]) -> None:
        for task in tasks if verb in self.verbs else ():
            if self._manages(task):
                self._try(verb, {"task": task_info(task, self.resources)})


def _vote(status: Any) -> Vote:
    """Converts a number to a vote; any other value abstains."""
    return Vote(status) if status in (-1, 0, 1) else Vote.ABSTAIN
