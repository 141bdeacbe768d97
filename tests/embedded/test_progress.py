"""What `volcano run` says of jobs and pods while they run and when they are done."""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.embedded.test_cluster import cluster, gang
from volcano.embedded.progress import ProgressRow, ProgressWatcher, never_ends, table_of
from volcano.embedded.reasons import exit_code, failure_reason, waiting_reason
from volcano.kube.api.kinds import BATCH_JOB, JOB, JOB_FLOW, JOB_TEMPLATE, POD, Kind
from volcano.kube.api.manifest import Manifest


def pod_with(name: str = "web", phase: str = "Failed", **status: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": {}, "status": {"phase": phase, **status}}


def ended(code: int, at: str = "2026-01-01T00:00:00Z", **more: Any) -> Manifest:
    return {"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": at, **more}}}


def waits(reason: str, message: str = "") -> Manifest:
    return {"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}


NOT_PLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
TOO_OFTEN = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}


@pytest.mark.parametrize(
    ("pods", "owner", "expected"),
    [
        pytest.param([pod_with(containerStatuses=[ended(3)])], {}, "web: exit code 3", id="an exit code"),
        pytest.param(
            [pod_with(containerStatuses=[ended(128, reason="StartError", message="no\nsuch program")])],
            {},
            "web: exit code 128: StartError: no such program",
            id="a program that is not there",
        ),
        pytest.param(
            [
                pod_with("late", containerStatuses=[ended(1, "2026-01-01T00:00:09Z", reason="Error")]),
                pod_with("early", initContainerStatuses=[ended(2, "2026-01-01T00:00:01Z", reason="Error")]),
            ],
            {},
            "early: exit code 2",
            id="the first that failed",
        ),
        pytest.param(
            [pod_with(reason="DeadlineExceeded", message="too slow")],
            {},
            "web: DeadlineExceeded: too slow",
            id="a pod that was ended",
        ),
        pytest.param(
            [], {"status": {"conditions": [TOO_OFTEN]}}, "BackoffLimitExceeded: too often", id="no pod left"
        ),
        pytest.param([], {"status": {"state": {"message": "as told"}}}, "as told", id="a job's own words"),
        pytest.param([], {}, "", id="no reason"),
    ],
)
def test_a_failure_is_told_in_one_line(pods: list[Manifest], owner: Manifest, expected: str) -> None:
    assert failure_reason(owner, pods) == expected


def test_the_exit_code_is_that_of_the_first_failure() -> None:
    late = pod_with(containerStatuses=[ended(1, "2026-01-01T00:00:09Z"), ended(0)])
    early = pod_with(containerStatuses=[{"name": "c", "lastState": ended(7)["state"]}])
    assert exit_code([late, early]) == 7
    assert exit_code([pod_with(containerStatuses=[ended(0)])]) == 0


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            pod_with(containerStatuses=[waits("CrashLoopBackOff", "back-off 10s")]),
            "web: CrashLoopBackOff: back-off 10s",
            id="a container that cannot start",
        ),
        pytest.param(pod_with(containerStatuses=[waits("ContainerCreating")]), "", id="one that is about to"),
        pytest.param(pod_with(conditions=[NOT_PLACED]), "web: no room", id="a pod without a node"),
        pytest.param(pod_with(phase="Running"), "", id="a pod that runs"),
    ],
)
def test_what_is_waited_for_is_told_in_one_line(pod: Manifest, expected: str) -> None:
    assert waiting_reason([pod], ()) == expected


def test_words_in_brackets_are_shown_as_they_are() -> None:
    row = ProgressRow(
        "Job", "default", "a", "Failed", {}, "", 0, 1.0, over=True, good=False, remark="[/red] [x]"
    )
    out = io.StringIO()
    Console(file=out, width=200).print(table_of([row]))
    assert "[/red] [x]" in out.getvalue()


def test_pods_that_restart_never_end() -> None:
    assert never_ends(POD, {"spec": {}})
    assert not never_ends(POD, {"spec": {"restartPolicy": "Never"}})
    assert not never_ends(BATCH_JOB, {"spec": {}})


async def followed(tmp_path: Path, *objects: tuple[Kind, Manifest]) -> tuple[list[ProgressRow], str]:
    out = io.StringIO()
    async with cluster(tmp_path) as running:
        made = [(kind, await running.client.create(kind, manifest)) for kind, manifest in objects]
        follower = ProgressWatcher(running.client, running.clock, made)
        console = Console(file=out, width=200)
        rows = await asyncio.wait_for(follower.follow(timeout=20.0, console=console, quiet=False), 30.0)
    return rows, out.getvalue()


def failing(name: str, kind: Kind = POD) -> Manifest:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default", "annotations": {"volcano.sh/sim-exit-code": "3"}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


async def test_a_job_that_is_deleted_when_it_is_done_has_completed(tmp_path: Path) -> None:
    [row], _ = await followed(tmp_path, (JOB, gang("brief", 1, ttlSecondsAfterFinished=0)))
    assert (row.phase, row.good) == ("Completed", True)


async def test_a_pod_that_fails_says_so_and_its_time_is_its_own(tmp_path: Path) -> None:
    [row], said = await followed(tmp_path, (POD, failing("solo")))
    assert (row.phase, row.good, row.exit_code, row.remark) == ("Failed", False, 3, "solo: exit code 3")
    assert "solo: exit code 3" in said


async def test_a_flow_is_followed_with_the_pods_of_its_jobs(tmp_path: Path) -> None:
    job = gang("step", 2)
    metadata = {"namespace": "default"}
    template = {
        "apiVersion": JOB_TEMPLATE.api_version,
        "kind": "JobTemplate",
        "metadata": {"name": "step", **metadata},
        "spec": job["spec"],
    }
    flow = {
        "apiVersion": JOB_FLOW.api_version,
        "kind": "JobFlow",
        "metadata": {"name": "flow", **metadata},
        "spec": {"jobRetainPolicy": "retain", "flows": [{"name": "step"}]},
    }
    rows, _ = await followed(tmp_path, (JOB_TEMPLATE, template), (JOB_FLOW, flow))
    assert [(row.kind, row.phase, row.good, dict(row.pods)) for row in rows] == [
        ("JobFlow", "Succeed", True, {"Succeeded": 2})
    ]
