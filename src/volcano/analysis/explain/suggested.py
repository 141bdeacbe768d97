"""Changes that would start a job now, as data, found within a time."""

from volcano.analysis.explain.case import Case, Data, shown_name
from volcano.analysis.plan.suggestions import suggest

MOST_RERUNS, LEAST_RERUNS = 24, 2
SECONDS = 1.5  # for the search; a re-run takes about two cycles
CYCLES_PER_RERUN = 2


def reruns_within(case: Case, seconds: float = SECONDS) -> int:
    """Number of re-runs that take about so long here."""
    each = case.cycle_seconds * CYCLES_PER_RERUN
    return MOST_RERUNS if not each else min(max(int(seconds / each), LEAST_RERUNS), MOST_RERUNS)


def suggested(case: Case, uid: str, *, limit: int, reruns: int) -> list[Data]:
    """At most `limit` verified changes, the cheapest first."""
    return [
        {
            "change": shown_name(each.sentence()),
            "victims": [f"{victim.namespace}/{victim.name}" for victim in each.victims],
            "cost": each.cost,
        }
        for each in suggest(case.state, case.config, uid, limit=limit, budget=reruns)
    ]
