"""The expected start of a job as data."""

from volcano.analysis.estimate.estimates import Estimate, estimate
from volcano.analysis.estimate.foreseen import is_foreseen, is_under_way
from volcano.analysis.estimate.run_history import RunHistory
from volcano.analysis.explain.case import Case, Data, shown_name
from volcano.base.clock import timestamp


def is_estimated(case: Case, uid: str) -> bool:
    """Whether an estimate applies to a job: it waits for something that is foreseen."""
    diagnosis = case.diagnoses.get(uid)
    return diagnosis is not None and is_foreseen(case.snapshot, diagnosis) and not is_under_way(diagnosis)


def estimated(case: Case, uid: str, history: RunHistory) -> Data | None:
    """The interval, its basis, and the jobs whose end it waits for; None when none can be given."""
    estimates = estimate(case.state, case.config, history, case.state.now, case.diagnoses, (uid,))
    found: Estimate | None = estimates.get(uid)
    if found is None or found.latest <= case.state.now:  # it does not start now
        return None
    return {
        "earliest": timestamp(found.earliest),
        "latest": timestamp(found.latest),
        "inSeconds": [round(max(each - case.state.now, 0.0)) for each in (found.earliest, found.latest)],
        "basis": found.basis,
        "waitsFor": [shown_name(each) for each in found.waits_for],
    }
