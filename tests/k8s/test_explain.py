"""`vcctl explain` reads the record of cycles of a scheduler on a real API server, through its `services/proxy`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.k8s.control_plane.build import program

pytestmark = pytest.mark.k8s

NEEDED = ("etcd", "kube-apiserver", "kubectl")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of commands in a network namespace of their own; see tests.k8s.scheduler_service."""
    if os.geteuid() != 0:
        pytest.skip("only root can create a network namespace with an address that an API server proxies to")
    missing = [name for name in NEEDED if not program(name).exists()]
    if missing:
        pytest.skip(f"not built: {', '.join(missing)}; `make test-k8s` builds them where Go is installed")
    directory: Path = tmp_path_factory.mktemp("service")
    done = subprocess.run(
        [sys.executable, "-m", "tests.k8s.scheduler_service", str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_the_cycles_are_listed_through_the_service_of_the_installer(found: dict[str, Any]) -> None:
    cycles = json.loads(found["cycles"]["output"])["cycles"]
    assert sum(each["placed"] for each in cycles) == 1
    assert found["one cycle"]["code"] == 0
    assert "team/large" in found["one cycle"]["output"]


def test_a_past_pod_and_the_history_of_a_job_come_from_the_record(found: dict[str, Any]) -> None:
    assert "small-0 was placed on n1 in cycle" in found["pod"]["output"]
    assert "binpack" in found["pod"]["output"]
    job = found["job"]["output"]
    assert "NodeTooSmall (NEVER)" in job
    assert "admitted" in job.partition("\nHistory")[2]
    assert "no history of cycles" not in job


def test_what_cannot_be_answered_is_said_as_the_scheduler_says_it(found: dict[str, Any]) -> None:
    unknown, without = found["a number that is unknown"], found["without a Service"]
    assert (unknown["code"], without["code"]) == (1, 1)
    assert "cannot explain cycle: cycle 9999999 is not in the history, which has" in unknown["errors"]
    assert "no Service has the labels app=volcano-scheduler" in without["errors"]
