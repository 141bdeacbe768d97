"""How a waiting job starts: changes that would start it now, found within a time, and the interval in which it is
expected to start."""

from volcano.analysis.estimate.estimates import estimate
from volcano.analysis.estimate.foreseen import is_foreseen, is_under_way
from volcano.analysis.estimate.run_history import RunHistory
from volcano.analysis.explain.case import Case, shown_name
from volcano.analysis.explain.explanations import ExpectedStart, VerifiedChange
from volcano.analysis.plan.suggestions import suggest
from volcano.base.clock import timestamp

MOST_RERUNS, LEAST_RERUNS = 24, 2
SECONDS = 1.5  # for the search; a re-run takes about two cycles
CYCLES_PER_RERUN = 2


def reruns_within(case: Case, seconds: float = SECONDS) -> int:
    """Number of re-runs that take about so long here."""
    each = case.cycle_seconds * CYCLES_PER_RERUN
    return MOST_RERUNS if not each else min(max(int(seconds / each), LEAST_RERUNS), MOST_RERUNS)


def suggested(case: Case, uid: str, *, limit: int, reruns: int) -> tuple[VerifiedChange, ...]:
    """At most `limit` verified changes, the cheapest first."""
    return tuple(
        VerifiedChange(
            shown_name(each.sentence()),
            tuple(f"{victim.namespace}/{victim.name}" for victim in each.victims),
            each.cost,
        )
        for each in suggest(case.state, case.config, uid, limit=limit, budget=reruns)
    )


def is_estimated(case: Case, uid: str) -> bool:
    """Whether an estimate applies to a job: it waits for something that is foreseen."""
    diagnosis = case.diagnoses.get(uid)
    return diagnosis is not None and is_foreseen(case.snapshot, diagnosis) and not is_under_way(diagnosis)


def estimated(case: Case, uid: str, history: RunHistory) -> ExpectedStart | None:
    """The interval, its basis, and the jobs whose end it waits for; None when none can be given."""
    now = case.state.now
    found = estimate(case.state, case.config, history, now, case.diagnoses, (uid,)).get(uid)
    if found is None or found.latest <= now:  # it does not start now
        return None
    first, last = (round(max(each - now, 0.0)) for each in (found.earliest, found.latest))
    return ExpectedStart(
        timestamp(found.earliest),
        timestamp(found.latest),
        (first, last),
        found.basis,
        tuple(map(shown_name, found.waits_for)),
    )
