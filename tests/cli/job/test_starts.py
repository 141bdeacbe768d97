"""`vcctl job list --start`: the interval in which jobs that wait are expected to start."""

import json

from tests.cli.conftest import Embedded, Vcctl, eventually
from tests.cli.jobs import job
from volcano.analysis.estimate.estimates import Estimate
from volcano.kube.api.kinds import JOB
from volcano.services.starts import JobStart


def test_jobs_that_wait_are_shown_with_their_expected_start(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    huge = job("huge", namespace, replicas=1)
    huge["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "100000"}
    }
    embedded.create(JOB, huge)
    assert eventually(lambda: "huge" in vcctl("job", "list", "--start").out)
    result = vcctl("job", "list", "--start")
    assert result.code == 0, result.err
    assert result.lines[0].split() == ["Name", "Queue", "Earliest", "Latest", "Basis", "WaitsFor"]
    assert result.lines[1].split()[:4] == ["huge", "default", "unknown", "unknown"]
    (found,) = json.loads(vcctl("job", "list", "--start", "-o", "json").out)["items"]
    assert (found["name"], found["earliest"], found["basis"]) == ("huge", None, None)


def test_without_waiting_jobs_there_is_nothing_to_show(vcctl: Vcctl) -> None:
    assert vcctl("job", "list", "--start").out == "No jobs wait\n"


def test_the_jobs_that_it_waits_for_are_named_as_users_named_them() -> None:
    found = Estimate(
        1000.0, 2000.0, "walltime", ("team/first-46b16194-b041-4621-ad75-871d2d52b532", "team/other")
    )
    shown = JobStart(job("next", "team", replicas=1), found, None)
    assert shown.waits_for == ["team/first", "team/other"]
