"""`vcctl submit` with the options of batch systems."""

import subprocess
import time

import pytest
import yaml

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, phase_of, start
from volcano.cli.errors import UsageError
from volcano.cli.job.batch_options import parse_array, parse_time
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query


def submitted(run_command: Vcctl, *words: str) -> Manifest:
    result = run_command("submit", *words, "--dry-run", "--", "./work.sh", "x")
    assert result.code == 0, result.err
    return dict(yaml.safe_load(result.out))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200), ("1h30m", 5400), ("90", 5400), ("90:30", 5430), ("1:02:03", 3723),
        ("1-12", 129600), ("1-12:30", 131400), ("2-00:00:10", 172810),
    ],
)  # fmt: skip
def test_times_of_go_and_of_slurm(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "1:2:3:4"])
def test_other_times_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="--time"):
        parse_time(text)


def test_arrays() -> None:
    assert parse_array("1-10:3,20%4") == ([1, 4, 7, 10, 20], 4)
    assert parse_array("7") == ([7], 0)
    for wrong in ("", "5-1", "1-3:0", "a", "1-3%", "1-3%0", "0-999999999"):
        with pytest.raises(UsageError, match="--array"):
            parse_array(wrong)


def test_a_time_limit_is_an_annotation_and_a_policy(run_command: Vcctl) -> None:
    made = submitted(run_command, "--time", "2h")
    assert made["metadata"]["annotations"] == {"volcano.sh/walltime": "2h0m0s"}
    assert {"event": "PodRunning", "action": "TerminateJob", "timeout": "2h0m0s"} in made["spec"]["policies"]


def test_elements_of_an_array_are_limited_and_restarted_alone(run_command: Vcctl) -> None:
    made = submitted(run_command, "--array", "0-9%3", "--time", "10m", "--requeue")
    (task,) = made["spec"]["tasks"]
    assert (task["replicas"], made["spec"]["minAvailable"]) == (10, 1)
    assert made["metadata"]["annotations"]["volcano.sh/max-running-pods"] == "3"
    assert task["template"]["spec"]["activeDeadlineSeconds"] == 600
    assert {policy["action"] for policy in made["spec"]["policies"]} == {"RestartPod"}


@pytest.mark.parametrize(("index", "identity"), [(0, "1"), (2, "7"), (4, "20")])
def test_the_command_of_an_element_sees_its_id(run_command: Vcctl, index: int, identity: str) -> None:
    (task,) = submitted(run_command, "--array", "1-10:3,20")["spec"]["tasks"]
    container = task["template"]["spec"]["containers"][0]
    variables = {item["name"]: item["value"] for item in container["env"]} | {"VC_TASK_INDEX": str(index)}
    assert container["command"][3:] == ["./work.sh", "x"]
    command = [
        *container["command"][:3],
        "/bin/sh",
        "-c",
        'echo "$SLURM_ARRAY_TASK_ID $LSB_JOBINDEX $1"',
        "sh",
        "a b",
    ]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == f"{identity} {identity} a b\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dependency", "after:x"), "--dependency: 'after' is none of afterok, afternotok, afterany"),
        (("--array", "1-4", "--workers", "2"), "every id is one pod"),
    ],
)
def test_bad_options_are_usage_errors(run_command: Vcctl, words: tuple[str, ...], message: str) -> None:
    result = run_command("submit", *words, "--dry-run", "--", "true")
    assert result.code == 2
    assert message in result.err


def test_a_job_starts_after_the_job_that_it_depends_on(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    start(embedded, job("first", namespace, seconds=2), "Running")
    assert vcctl("submit", "--name", "second", "--dependency", "afterok:first", "--", "sleep", "0").code == 0
    waiting = embedded.until(JOB, Key(namespace, "second"), lambda job: bool(message_of(job)))
    assert message_of(waiting) == "waits for job 'first' (afterok:first), which is Running"
    assert embedded.until(JOB, Key(namespace, "second"), lambda job: phase_of(job) == "Completed")


def test_a_dependency_that_cannot_be_fulfilled_is_reported(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    start(embedded, job("bad", namespace, seconds=0, exit_code=3), "Failed")
    vcctl("submit", "--name", "after", "--dependency", "afterok:bad", "--", "sleep", "0")
    found = embedded.until(JOB, Key(namespace, "after"), lambda job: bool(message_of(job)))
    assert "cannot be fulfilled" in message_of(found)
    vcctl("submit", "--name", "cleanup", "--dependency", "afternotok:bad", "--", "sleep", "0")
    assert embedded.until(JOB, Key(namespace, "cleanup"), lambda job: phase_of(job) == "Completed")


def test_no_more_pods_run_together_than_the_array_allows(embedded: Embedded, namespace: str) -> None:
    manifest = job("many", namespace, seconds=1, replicas=6, minAvailable=1)
    manifest["metadata"]["annotations"] = {"volcano.sh/max-running-pods": "2"}
    embedded.create(JOB, manifest)
    most, deadline = 0, time.monotonic() + 60
    while phase_of(embedded.get(JOB, Key(namespace, "many"))) != "Completed":
        pods = embedded.run(embedded.client.list(POD, Query(namespace=namespace))).items
        most = max(most, sum(pod["status"].get("phase") in ("Pending", "Running") for pod in pods))
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert most == 2
    assert embedded.get(JOB, Key(namespace, "many"))["status"]["succeeded"] == 6


def test_a_job_ends_when_its_time_is_over(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    vcctl("submit", "--name", "long", "--time", "1s", "--", "sleep", "600")
    assert embedded.until(JOB, Key(namespace, "long"), lambda job: phase_of(job) == "Terminated")


def message_of(job: Manifest) -> str:
    return str(job.get("status", {}).get("state", {}).get("message") or "")
