"""vcctl job wait: 0 when the job gets there, 1 when it never will or time is up, 3 without a job."""

import math
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, start
from tests.cli.terminal import Terminal
from volcano.cli.errors import UsageError
from volcano.cli.job.wait import parse_goals, parse_timeout
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options
from volcano.services.job_watch import goal_reached, goal_unreachable


def at_phase(phase: str, *before: str, message: str = "") -> Manifest:
    conditions = [{"status": each} for each in (*before, phase)]
    return {"status": {"state": {"phase": phase, "message": message}, "conditions": conditions}}


@pytest.mark.parametrize(
    ("manifest", "goals", "reached", "lost"),
    [
        pytest.param(at_phase("Running"), ("Running",), "is Running", "", id="there"),
        pytest.param(at_phase("Pending"), ("Running",), "", "", id="on its way"),
        pytest.param({}, ("Pending",), "is Pending", "", id="no status yet"),
        pytest.param(at_phase("Failed"), ("Completed", "Failed"), "is Failed", "", id="one of several"),
        pytest.param(
            at_phase("Completed", "Pending", "Running"), ("Running",), "was Running and is Completed", "",
            id="quicker than we are",
        ),
        pytest.param(at_phase("Pending", "Running", "Restarting"), ("Running",), "", "", id="it runs no more, but may"),
        pytest.param(
            at_phase("Failed", message="out of memory"), ("Completed",), "",
            "ended Failed, not Completed: out of memory", id="never any more",
        ),
        pytest.param(
            at_phase("Aborted"), ("Completed",), "",
            "ended Aborted, not Completed; `vcctl job resume` would start it again", id="suspended",
        ),
        pytest.param(at_phase("Failed"), ("Deleted",), "", "", id="it may still be deleted"),
    ],
)  # fmt: skip
def test_a_job_is_judged(manifest: Manifest, goals: tuple[str, ...], reached: str, lost: str) -> None:
    assert goal_reached(manifest, goals) == reached
    assert reached or goal_unreachable(manifest, goals) == lost


def test_goals_are_spelled_freely() -> None:
    assert parse_goals("completed,FAILED") == ("Completed", "Failed")
    assert parse_goals("delete") == ("Deleted",)
    with pytest.raises(UsageError, match=r"'Runing' is none of .*did you mean 'Running'"):
        parse_goals("Runing")


@pytest.mark.parametrize(
    ("text", "seconds"), [("", math.inf), ("0", math.inf), ("90", 90.0), ("1m30s", 90.0)]
)
def test_timeouts(text: str, seconds: float) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-5s"])
def test_bad_timeouts_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        parse_timeout(text)


def test_it_comes_back_when_the_job_is_completed(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    embedded.create(JOB, job("short", namespace, seconds=0.5))
    result = vcctl("job", "wait", "short", "--for=Completed", "--timeout", "15s")
    assert (result.code, result.out) == (0, f"job {namespace}/short is Completed\n")
    assert f"job {namespace}/short: Running, 2 running of 2" in result.err


def test_a_job_that_fails_is_told_at_once(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    embedded.create(JOB, job("bad", namespace, seconds=0.2, exit_code=3))
    result = vcctl("job", "wait", "-N", "bad", "--timeout", "15s")
    assert (result.code, result.out) == (1, "")
    assert f"job {namespace}/bad ended Failed, not Completed" in result.err.splitlines()[-1]


def test_time_is_up_with_the_reason(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("big", namespace, cpu="9999"), "Pending")
    result = vcctl("job", "wait", "big", "--for", "Running", "--timeout", "300ms")
    assert (result.code, result.out) == (1, "")
    last = result.err.splitlines()[-1]
    assert f"job {namespace}/big is not Running after 300ms: it is Pending" in last


def test_deletion_ends_the_wait(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("deleted-job", namespace), "Running")
    key = Key(namespace, "deleted-job")
    timer = threading.Timer(
        0.3, lambda: embedded.run(embedded.client.delete(JOB, key, options=Options(propagation="Background")))
    )
    timer.start()
    result = vcctl("job", "wait", "deleted-job", "--timeout", "15s")
    timer.join()
    assert result.code == 1
    assert f"job {namespace}/deleted-job was deleted before it was Completed" in result.err
    gone = vcctl("job", "wait", "deleted-job", "--for=delete")
    assert (gone.code, gone.out) == (0, f"job {namespace}/deleted-job is deleted\n")


def test_no_such_job_suggests_the_near_one(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("training", namespace), "Running")
    result = vcctl("job", "wait", "trainnig")
    assert (result.code, result.out) == (3, "")
    assert "did you mean 'training'?" in result.err


@pytest.mark.parametrize(
    ("words", "code"),
    [((), 2), (("x", "--for=Nowhere"), 2), (("x", "--timeout=soon"), 2), (("x", "--fro=Running"), 2)],
)
def test_bad_input_is_a_usage_error(vcctl: Vcctl, words: tuple[str, ...], code: int) -> None:
    result = vcctl("job", "wait", *words)
    assert (result.code, result.out) == (code, "")
    assert "Traceback" not in result.err


def test_no_server_is_4(run_command: Vcctl) -> None:
    assert run_command("job", "wait", "x").code == 4


def test_on_a_terminal_the_progress_is_one_line(embedded: Embedded, kubeconfig: Path, namespace: str) -> None:
    embedded.create(JOB, job("seen", namespace, seconds=1.5))
    with Terminal("job", "wait", "seen", kubeconfig=kubeconfig) as terminal:
        terminal.until("Running, 2 running of 2")
        assert terminal.ends() == 0
        assert "\r\x1b[K" in terminal.output
        assert terminal.output.rstrip().endswith(f"job {namespace}/seen is Completed")
        assert terminal.output.count("\n") == 1
