"""Counts and durations that cannot be used are rejected with the field and the reason."""

from typing import Any

import pytest

from tests.webhooks.reviews import found, job, review, task
from volcano.kube.api.kinds import JOB
from volcano.webhooks.rules import validate


def pending(timeout: Any) -> Any:
    return job(policies=[{"event": "PodPending", "action": "AbortJob", "timeout": timeout}])


def failed(timeout: Any) -> Any:
    return job(policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": timeout}])


@pytest.mark.parametrize(
    "timeout", ["soon", "5", "5 m", "1y", "-5m", "NaN", "inf", "1e400s", "9" * 30 + "h", "", None]
)
def test_a_timeout_that_is_no_duration_is_rejected(timeout: str | None) -> None:
    violations = found(review(JOB, failed(timeout)))
    assert (
        violations == {}
        if not timeout
        else "time: invalid duration" in violations["spec.policies[0].timeout"]
    )


@pytest.mark.parametrize(
    ("timeout", "is_valid"), [("10m", True), ("1h30m", True), ("0s", False), ("-1s", False)]
)
def test_a_pending_policy_needs_a_positive_timeout(timeout: str, is_valid: bool) -> None:
    assert (found(review(JOB, pending(timeout))) == {}) == is_valid


def test_the_timeouts_of_tasks_are_validated_too() -> None:
    given = task(policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": "soon"}])
    assert "time: invalid duration" in found(review(JOB, job(given)))["spec.tasks[0].policies[0].timeout"]


@pytest.mark.parametrize("estimate", ["tomorrow", "-1h", "NaN", "10"])
def test_a_running_estimate_that_is_no_duration_is_rejected(estimate: str) -> None:
    assert (
        "time: invalid duration" in found(review(JOB, job(runningEstimate=estimate)))["spec.runningEstimate"]
    )


def test_a_running_estimate_is_accepted() -> None:
    assert found(review(JOB, job(runningEstimate="1h30m"))) == {}


@pytest.mark.parametrize("value", [-7, 2**31, 10**30, 1.5, float("nan"), float("inf"), "3", True])
@pytest.mark.parametrize("name", ["maxRetry", "minSuccess", "ttlSecondsAfterFinished", "minAvailable"])
def test_counts_of_a_job_are_whole_numbers_within_their_range(name: str, value: Any) -> None:
    violations = {v.field: v.message for v in validate(review(JOB, job(**{name: value})))}
    assert f"spec.{name}" in violations
    assert f"'{name}'" in violations[f"spec.{name}"]


@pytest.mark.parametrize("value", [-7, 2**31, 1.5, float("nan"), "3", True])
@pytest.mark.parametrize("name", ["replicas", "minAvailable", "maxRetry"])
def test_counts_of_a_task_are_whole_numbers_within_their_range(name: str, value: Any) -> None:
    violations = {v.field: v.message for v in validate(review(JOB, job(task(**{name: value}))))}
    assert f"'{name}'" in violations[f"spec.tasks[0].{name}"]


def test_a_task_may_restart_without_limit() -> None:
    assert found(review(JOB, job(task(maxRetry=-1)))) == {}


def test_more_pods_than_can_be_counted_are_rejected() -> None:
    violations = found(review(JOB, job(task("a", 2**31 - 1), task("b", 2**31 - 1))))
    assert "is too large; 2147483647 is the most" in violations["spec.tasks"]


@pytest.mark.parametrize("code", [1.5, float("nan"), 2**40, "1", True])
def test_an_exit_code_is_a_whole_number(code: Any) -> None:
    violations = found(review(JOB, job(policies=[{"exitCode": code, "action": "AbortJob"}])))
    assert "whole number from 1 to 255" in violations["spec.policies[0].exitCode"]


@pytest.mark.parametrize(
    ("plugin", "argument", "is_valid"),
    [
        ("pytorch", "--port=0", False),
        ("pytorch", "--port=65536", False),
        ("pytorch", "--port=23456", True),
        ("pytorch", "--wait-master-timeout=-1", False),
        ("pytorch", "--wait-master-timeout=99999999999", False),
        ("ray", "--dashboardPort=-1", False),
        ("tensorflow", "--port=1e3", False),
        ("ssh", "--ssh-port=-10", True),
    ],
)
def test_ports_and_timeouts_of_plugins_are_within_their_range(
    plugin: str, argument: str, is_valid: bool
) -> None:
    violations = found(review(JOB, job(plugins={plugin: [argument]})))
    assert (violations == {}) == is_valid
