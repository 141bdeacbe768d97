"""A queue whose budget is used up: new jobs wait with the reason, admitted ones go on."""

from typing import Any

import pytest

from tests.builders import job, node, queue
from tests.scenario import schedule
from volcano.kube.api.manifest import Manifest

MESSAGE = "the budget nvidia.com/gpu=100h/month is used up; a new period begins 2027-02-01T00:00:00Z"


def exhausted(name: str, action: str = "block", status: str = "True", **fields: Any) -> Manifest:
    found = queue(name, annotations={"volcano.sh/budget-action": action} if action else None, **fields)
    condition = {"type": "BudgetExhausted", "status": status, "reason": "BudgetExhausted", "message": MESSAGE}
    found["status"]["conditions"] = [condition]
    return found


def waiting_job(where: str, phase: str = "Pending") -> Any:
    return job("new", 1, queue=where, phase=phase)


def test_a_new_job_waits_and_says_why() -> None:
    result = schedule(
        nodes=[node("n", cpu=4)], queues=[exhausted("research")], jobs=[waiting_job("research")]
    )
    assert result.bound() == {}
    diagnosis = result.diagnosis("new")
    assert diagnosis is not None
    assert diagnosis.message == f"queue research: {MESSAGE}"


def test_the_budget_of_an_ancestor_counts() -> None:
    queues = [queue("root"), exhausted("research", parent="root"), queue("vision", parent="research")]
    result = schedule(nodes=[node("n", cpu=4)], queues=queues, jobs=[waiting_job("vision")])
    assert result.bound() == {}


@pytest.mark.parametrize(
    ("where", "phase"),
    [
        pytest.param(exhausted("research", action=""), "Pending", id="without the action, it only warns"),
        pytest.param(exhausted("research", action="warn"), "Pending", id="warn"),
        pytest.param(exhausted("research", status="False"), "Pending", id="within the budget"),
        pytest.param(exhausted("research"), "Inqueue", id="admitted before"),
    ],
)
def test_other_jobs_start(where: Manifest, phase: str) -> None:
    result = schedule(nodes=[node("n", cpu=4)], queues=[where], jobs=[waiting_job("research", phase)])
    assert len(result.bound()) == 1
