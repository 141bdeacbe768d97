"""One cycle as a pure function: the same snapshot and configuration give the same outcome."""

from collections.abc import Callable

from volcano.model.snapshot import Snapshot
from volcano.scheduler.closing import decisions
from volcano.scheduler.config import Config
from volcano.scheduler.session import Outcome, Session

Stopwatch = Callable[[], float]


def schedule(snapshot: Snapshot, config: Config, stopwatch: Stopwatch | None = None) -> Outcome:
    """Runs the actions and says what is to be written. No clock but the one handed in, no network, no globals."""
    timings: dict[str, float] = {}
    watch = stopwatch or (lambda: 0.0)
    started = watch()
    session = Session(snapshot, config)
    timings["open"] = watch() - started
    for name, action in zip(config.actions, config.steps, strict=True):
        begun = watch()
        action(session)
        timings[f"action:{name}"] = watch() - begun
    decided = tuple(decisions(session))
    verdicts, memory = session.final_verdicts(), session.close()
    timings["total"] = watch() - started
    return Outcome(decided, verdicts, memory, dict(session.faults), timings, session.readings())
