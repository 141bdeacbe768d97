"""Pods and podgroups from the command line."""

import json

import pytest

from tests.cli.conftest import Embedded, Vcctl, eventually
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Key


@pytest.fixture
def gang(vcctl: Vcctl, embedded: Embedded, namespace: str) -> str:
    """A job of two pods that run."""
    vcctl("job", "run", "-N", "gang", "-r", "2", "-m", "2")
    embedded.until(JOB, Key(namespace, "gang"), lambda job: job.get("status", {}).get("running") == 2)
    return "gang"


def test_pods_of_jobs_are_listed_with_roomy_columns(vcctl: Vcctl, gang: str) -> None:
    lines = vcctl("pod", "list").lines
    name = "gang-default0-0"
    assert lines[0] == f"{'Name':{len(name) + 8}}{'Ready':11}{'Status':15}{'Restart':9}{'Age':10}"
    assert lines[1].startswith(f"{name:{len(name) + 8}}{'1/1':11}{'Running':15}{'0':9}")
    assert [line.split()[0] for line in lines[1:]] == ["gang-default0-0", "gang-default0-1"]


def test_pods_are_filtered_by_job_and_queue(
    vcctl: Vcctl, embedded: Embedded, namespace: str, gang: str
) -> None:
    embedded.create(POD, {
        "metadata": {
            "name": "lonely",
            "namespace": namespace,
            "annotations": {"scheduling.volcano.sh/queue-name": "default"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })  # fmt: skip
    assert len(vcctl("pod", "list", "-j", "gang", "-o", "name").lines) == 2
    assert vcctl("pod", "list", "-j", "other").out == "No resources found\n"
    assert vcctl("pod", "list", "-q", "default", "-o", "name").lines == [
        "pod/gang-default0-0",
        "pod/gang-default0-1",
        "pod/lonely",
    ]
    assert "pod/lonely" not in vcctl("pod", "list", "-o", "name").lines


def test_a_job_of_another_queue_is_an_error(vcctl: Vcctl, gang: str) -> None:
    result = vcctl("pod", "list", "-j", "gang", "-q", "other")
    assert (result.code, result.out) == (1, "")
    assert result.err == "Failed to list pod: the input vcjob gang does not match the queue other\n"


def test_all_namespaces_put_the_namespace_first(vcctl: Vcctl, namespace: str, gang: str) -> None:
    lines = vcctl("pod", "list", "-A").lines
    assert lines[0].split()[:2] == ["Namespace", "Name"]
    assert any(line.split()[:2] == [namespace, "gang-default0-0"] for line in lines)


def test_podgroups_are_listed(vcctl: Vcctl, embedded: Embedded, namespace: str, gang: str) -> None:
    uid = embedded.get(JOB, Key(namespace, "gang"))["metadata"]["uid"]
    assert eventually(lambda: "Running" in vcctl("podgroup", "list").lines[1].split())
    header, row = vcctl("podgroup", "list").lines
    assert header.split() == ["Name", "Phase", "Min", "Running", "Succeeded", "Failed", "Queue", "Age"]
    assert row.split()[:3] == [f"gang-{uid}", "Running", "2"]
    assert vcctl("podgroup", "list", "-q", "other").out == "No resources found\n"


@pytest.mark.parametrize("by", ["own", "job"])
def test_a_podgroup_is_found_by_its_own_or_its_jobs_name(
    vcctl: Vcctl, embedded: Embedded, namespace: str, gang: str, by: str
) -> None:
    uid = embedded.get(JOB, Key(namespace, "gang"))["metadata"]["uid"]
    name = f"gang-{uid}" if by == "own" else "gang"
    found = json.loads(vcctl("podgroup", "get", name, "-o", "json").out)
    assert found["metadata"]["name"] == f"gang-{uid}"
    assert vcctl("podgroup", "get", "-n", name).lines[1].split()[0] == f"gang-{uid}"


def test_a_podgroup_is_described_with_its_members_and_events(vcctl: Vcctl, gang: str) -> None:
    assert eventually(lambda: "pod group is ready" in vcctl("podgroup", "describe", "gang").out)
    result = vcctl("podgroup", "describe", "gang")
    assert result.code == 0
    assert {"Owner:            Job/gang", "Queue:            default", "Min Member:       2"} <= set(
        result.lines
    )
    members = result.lines[result.lines.index("Members:") + 2 :]
    assert [line.split()[0] for line in members[:2]] == ["gang-default0-0", "gang-default0-1"]
    assert any("Scheduled=True" in line for line in result.lines)
    assert any(line.startswith("Normal") and "pod group is ready" in line for line in result.lines)


def test_no_such_podgroup_suggests_the_near_job(vcctl: Vcctl, namespace: str, gang: str) -> None:
    result = vcctl("podgroup", "describe", "gan")
    assert (result.code, result.out) == (3, "")
    assert f"in namespace {namespace!r}; did you mean 'gang'?" in result.err
    assert vcctl("podgroup", "get").code == 2
