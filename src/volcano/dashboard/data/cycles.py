"""Cycles of the scheduler and their decisions as cells of tables."""

from collections import Counter
from urllib.parse import quote

from volcano.analysis.explain.case import shown_name
from volcano.scheduler.history.queries import OneCycle
from volcano.scheduler.history.records import Placed


def cycle_address(number: int) -> str:
    return f"/scheduler/cycles/{number}"


def cycle_link(number: int) -> dict[str, str]:
    return {"text": str(number), "href": cycle_address(number)}


def job_address(job: str) -> str:
    """Address of the page of a job that is given as namespace/name, or by its PodGroup."""
    return f"/jobs/{quote(shown_name(job))}" if "/" in job else ""


def job_link(job: str) -> dict[str, str]:
    return {"text": shown_name(job), "href": job_address(job)}


def nodes_text(placed: Placed) -> str:
    """`n1 (2), n2`: the nodes of the pods of a job."""
    counts = sorted(Counter(placed.pods.values()).items())
    return ", ".join(f"{node} ({count})" if count > 1 else node for node, count in counts)


def codes_text(answer: OneCycle) -> str:
    """Jobs that wait at the end of the cycle by code, the most frequent first."""
    codes = Counter(each.code for each in answer.diagnoses)
    return ", ".join(f"{code} {count}" for code, count in codes.most_common())
