"""The expected start of a job as data."""

from volcano.analysis.estimates import Estimate, estimate
from volcano.analysis.explanation.case import Case, Data, shown_name
from volcano.analysis.run_history import RunHistory
from volcano.clock import timestamp
from volcano.scheduler.engine.diagnosis.codes import DiagnosisClass


def is_estimated(case: Case, uid: str) -> bool:
    """Whether an estimate applies to a job: it waits for capacity. Limits of queues are not foreseen."""
    diagnosis = case.diagnoses.get(uid)
    return diagnosis is not None and diagnosis.diagnosis_class is DiagnosisClass.CAPACITY


def estimated(case: Case, uid: str, history: RunHistory) -> Data | None:
    """The interval, its basis, and the jobs whose end it waits for; None when nothing can be claimed."""
    found: Estimate | None = estimate(case.state, case.config, history, case.state.now).get(uid)
    if found is None or found.latest <= case.state.now:  # it does not start now
        return None
    return {
        "earliest": timestamp(found.earliest),
        "latest": timestamp(found.latest),
        "inSeconds": [round(max(each - case.state.now, 0.0)) for each in (found.earliest, found.latest)],
        "basis": found.basis,
        "waitsFor": [shown_name(each) for each in found.waits_for],
    }
