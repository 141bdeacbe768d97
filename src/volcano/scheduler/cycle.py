"""Scheduling cycle as a pure function: the same snapshot and configuration give the same outcome."""

import asyncio
import math
from functools import partial

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.faults import FailedHooks, HookError
from volcano.scheduler.engine.plugin_loader import Action
from volcano.scheduler.engine.session import Outcome, Session
from volcano.scheduler.engine.timings import Stopwatch, Timings
from volcano.scheduler.report.decisions import decisions
from volcano.scheduler.report.low_priority import record_low_priority
from volcano.scheduler.report.waiting import final_diagnoses

log = Log("cycle")

# A cycle with at most so many tasks to place and nodes takes a few milliseconds: it needs no thread.
INLINE_TASKS, INLINE_NODES = 64, 256


def schedule(
    snapshot: Snapshot, config: Config, stopwatch: Stopwatch | None = None, *, record_scores: bool = False
) -> Outcome:
    """Runs the actions on a snapshot. Reads no clock but the given stopwatch and does no I/O.
    When a hook that concerns no single job fails, the cycle is run again without it. With `record_scores`, the outcome
    has the scores of nodes."""
    failed_hooks = FailedHooks()
    while True:
        try:
            return _run(snapshot, config, Timings(stopwatch), failed_hooks, record_scores)
        except HookError as error:
            if (error.plugin, error.hook) in failed_hooks:
                raise  # a hook that was disabled was called again
            log.error(
                "hook failed, cycle restarted without it", plugin=error.plugin, hook=error.hook, error=error
            )
            failed_hooks.add(error)


async def decide(snapshot: Snapshot, config: Config, clock: Clock, *, record_scores: bool) -> Outcome:
    """Runs a cycle in a thread of its own, or at once where that costs more than the cycle itself."""

    def stopwatch() -> float:
        return clock.now().monotonic

    run = partial(schedule, snapshot, config, stopwatch, record_scores=record_scores)
    active = [snapshot.jobs[uid] for uid in snapshot.active[:INLINE_TASKS] if uid in snapshot.jobs]
    pending = sum(len(job.tasks) for job in active)
    if max(pending, len(snapshot.active)) <= INLINE_TASKS and len(snapshot.nodes) <= INLINE_NODES:
        return run()
    return await asyncio.to_thread(run)


def _run(
    snapshot: Snapshot, config: Config, timings: Timings, failed_hooks: FailedHooks, record_scores: bool
) -> Outcome:
    with timings.measure("cycle"):
        with timings.measure("open"):
            session = Session(snapshot, config, timings, failed_hooks, record_scores=record_scores)
        for name, action in zip(config.actions, config.steps, strict=True):
            if not session.may_run(name):
                continue
            with timings.measure("action", name):
                _act(session, name, action)
        record_low_priority(session)
        decided = tuple(decisions(session))
        diagnoses = final_diagnoses(session)
        session.close()
    return Outcome(
        decided,
        diagnoses,
        {name: kept.state for name, kept in session.memory.items()},
        min((kept.due for kept in session.memory.values() if kept.due is not None), default=math.inf),
        dict(session.faults),
        timings.spent,
        tuple(session.samples),
        tuple(session.errors),
        session.scores.placed() if session.scores is not None else (),
    )


def _act(session: Session, name: str, action: Action) -> None:
    """Runs one action; if it fails, its changes so far are kept and the next action runs."""
    try:
        action(session)
    except HookError:
        raise
    except Exception as error:  # a bug in one action must not stop the others
        session.record_error(f"action {name} failed: {type(error).__name__}: {error}")
