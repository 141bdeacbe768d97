"""`vcctl job requeue`, `hold`, `release` and `update`."""

import pytest

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, phase_of, start
from volcano.kube.api.kinds import JOB, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key, uid_of


def test_a_running_job_is_requeued(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("train", namespace), "Running")
    result = vcctl("job", "requeue", "train")
    assert (result.code, result.out) == (0, "requeue job train successfully\n")
    assert embedded.until(
        JOB,
        Key(namespace, "train"),
        lambda job: job["status"].get("version", 0) > 0 and phase_of(job) == "Running",
    )


def test_a_waiting_job_is_held_and_released(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("big", namespace, cpu="9999"), "Pending")
    assert vcctl("job", "hold", "big").code == 0
    assert embedded.until(JOB, Key(namespace, "big"), lambda job: phase_of(job) == "Aborted")
    assert vcctl("job", "release", "big").code == 0
    assert embedded.until(JOB, Key(namespace, "big"), lambda job: phase_of(job) == "Pending")


def test_a_running_job_cannot_be_held(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("busy", namespace), "Running")
    result = vcctl("job", "hold", "busy")
    assert result.code == 1
    assert "only a waiting job can be held, and suspend stops a running one" in result.err


def test_the_number_of_workers_is_changed(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("grow", namespace), "Running")
    assert vcctl("job", "update", "grow", "--workers", "3").out == "update job grow successfully\n"
    found = embedded.until(JOB, Key(namespace, "grow"), lambda job: job["status"].get("running") == 3)
    assert (found["spec"]["tasks"][0]["replicas"], found["spec"]["minAvailable"]) == (3, 3)


def test_a_waiting_job_moves_to_another_queue(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    name = f"other-{namespace}"
    embedded.create(QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1}})
    waiting = start(embedded, job("big", namespace, cpu="9999"), "Pending")
    assert vcctl("job", "update", "big", "--queue", name).code == 0
    group = Key(namespace, f"big-{uid_of(waiting)}")
    assert embedded.until(POD_GROUP, group, lambda group: group["spec"]["queue"] == name)
    missing = vcctl("job", "update", "big", "--queue", "nowhere")
    assert missing.code == 1
    assert "nowhere" in missing.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "nothing to change"),
        (("--workers", "0"), 2, "--workers: must be 1 or more (got 0)"),
        (("--queue", "default"), 1, "the queue can be changed only while the job waits"),
        (("--priority", "no-such-class"), 3, "no-such-class"),
    ],
)
def test_invalid_updates_are_errors(
    vcctl: Vcctl, embedded: Embedded, namespace: str, words: tuple[str, ...], code: int, message: str
) -> None:
    start(embedded, job("busy", namespace), "Running")
    result = vcctl("job", "update", "busy", *words)
    assert result.code == code
    assert message in result.err
