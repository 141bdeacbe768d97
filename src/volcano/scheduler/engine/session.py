"""Session: one cycle with its plugins opened, the memory it leaves to the next, and its outcome."""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from volcano.base.clock import timestamp
from volcano.model.decisions import Decision, RecordPodEvent, RemoveGate
from volcano.model.queue_reservations import QueueReservation
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.engine.answers import Memory
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.cycle import SKIPPED_JOBS
from volcano.scheduler.engine.diagnosis import Diagnosis
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.faults import OPEN, FailedHooks, Fault, guarded
from volcano.scheduler.engine.nominations import NOMINATIONS
from volcano.scheduler.engine.placement.chosen_scores import ClassScores
from volcano.scheduler.engine.plugin_metrics import MetricSample
from volcano.scheduler.engine.timings import TimingKey, Timings
from volcano.scheduler.engine.topology.cycle import TopologyCycle


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a cycle: decisions, diagnoses of waiting jobs, and the memory of plugins for the next cycle."""

    decisions: tuple[Decision, ...]
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)  # by job
    memory: Mapping[str, Any] = field(default_factory=dict)
    due: float = math.inf  # when the memory asks for a cycle although nothing changes
    faults: Mapping[str, Fault] = field(default_factory=dict)  # jobs skipped because of an error
    timings: Mapping[TimingKey, float] = field(default_factory=dict)
    samples: tuple[MetricSample, ...] = ()
    errors: tuple[str, ...] = ()  # failures of plugins and actions
    scores: tuple[ClassScores, ...] = ()  # of the nodes of pods that were placed, if they are recorded


class Session(TopologyCycle):
    """One cycle. Actions are functions of a session, and plugins access everything through it."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        timings: Timings | None = None,
        failed_hooks: FailedHooks | None = None,
        *,
        record_scores: bool = False,
    ) -> None:
        super().__init__(snapshot, config, timings or Timings(), failed_hooks or FailedHooks(), record_scores)
        self.gates: list[RemoveGate] = []  # to be removed
        self.queue_reservations: dict[str, QueueReservation] = {}  # by job
        self._placement_events: list[tuple[Task, RecordPodEvent]] = []
        self.samples: list[MetricSample] = []
        self.memory: dict[
            str, Memory
        ] = {}  # for the next cycle, by the name of the plugin or the part of the engine
        for plugin, settings in self.policy.settings.items():
            with self.timings.measure("plugin", plugin.name, "OnSessionOpen"):
                guarded(plugin.name, OPEN, plugin.open)(settings.arguments)
        self.skip_failed_jobs()

    @cached_property
    def written_at(self) -> str:
        """Time of the cycle as a timestamp for conditions."""
        return timestamp(self.snapshot.now)

    @property
    def admits(self) -> bool:
        """Whether jobs have to pass the enqueue action before they are scheduled."""
        return "enqueue" in self.config.actions

    @property
    def preempts(self) -> bool:
        """Whether jobs may preempt jobs of lower priority in their queue."""
        return not {"preempt", "gangpreempt"}.isdisjoint(self.config.actions)

    def record_placement_event(self, task: Task, reason: str, message: str) -> None:
        """Records an event about a pod that was placed; it is written if the placement is committed."""
        event = RecordPodEvent(task.uid, task.namespace, task.name, reason, message)
        self._placement_events.append((task, event))

    def placement_events(self) -> Iterator[RecordPodEvent]:
        """Events about the pods that are bound in this cycle."""
        events = {event: None for task, event in self._placement_events if self.ledger.is_committed(task)}
        yield from events

    def may_run(self, action: str) -> bool:
        """Whether an action may run: all plugins that limit it work. Otherwise records the reason for all
        waiting jobs."""
        plugins = ((each.name, each.plugin) for each in self.config.plugins)
        missing = self.failed_hooks.blocking(action, plugins)
        if missing is None:
            return True
        plugin, reason = missing
        for job in self.active_jobs():
            text = f"{action} is not run: {reason}"
            self.diagnoses.record(Diagnosis(job.uid, "plugin", text, plugin, code=Code.PLUGIN_FAILED))
        return False

    def close(self) -> None:
        """Closes the plugins and collects the memory for the next cycle."""
        now = self.snapshot.now
        if missed := self.nominations.missed():
            # Once more for nominations that have just expired: without them, the order is another one.
            is_new = missed != self.snapshot.memory.get(NOMINATIONS)
            self.memory[NOMINATIONS] = Memory(missed, now if is_new else None)
        for plugin in self.policy.plugins:
            try:
                with self.timings.measure("plugin", plugin.name, "OnSessionClose"):
                    plugin.close()
                    kept = plugin.remember()
                    self.samples.extend(plugin.measure())
            except Exception as error:  # a bug in one plugin must not discard the decisions
                self.record_error(f"plugin {plugin.name} failed in close: {type(error).__name__}: {error}")
                continue
            if kept is not None:
                self.memory[plugin.name] = as_memory(plugin.name, kept, now)
        if self.faults:
            retry = min(fault.retry_at for fault in self.faults.values())
            self.memory[SKIPPED_JOBS] = Memory(dict(self.faults), retry)


def as_memory(plugin: str, kept: object, now: float) -> Memory:
    """Memory of a plugin; plugins of earlier versions return the state alone, with its time in it."""
    if isinstance(kept, Memory):
        return kept
    text = f"plugin {plugin} returns {type(kept).__name__} from remember(); return volcano.plugin.Memory"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return Memory(kept, kept.get("due", now) if isinstance(kept, dict) else now)
