"""`vcctl plan`: says what would happen, is right about it, and creates nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Embedded, Vcctl, eventually
from tests.cli.jobs import job, start
from volcano.analysis.plan.tables import pod_names
from volcano.cli.plan import NOT_NOW
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.pools import parse_pools
from volcano.scheduler.engine.config import PRESETS, shipped


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A small cluster of its own, whose scheduler preempts."""
    cluster = Embedded(
        tmp_path_factory.mktemp("small"),
        pools=parse_pools([], ["cpu=8,memory=32Gi,name=small,count=2"]),
        scheduler_conf=shipped(PRESETS["preempt"]),
    )
    cluster.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.create(QUEUE, {"metadata": {"name": "narrow"}, "spec": {"capability": {"cpu": "2"}}})
    yield cluster
    cluster.close()


def write(path: Path, *manifests: Manifest) -> str:
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


def job_file(path: Path, name: str = "train", **options: Any) -> str:
    manifest = job(name, "", **options)
    del manifest["metadata"]["namespace"]
    return write(path, {"apiVersion": JOB.api_version, "kind": "Job", **manifest})


def objects(embedded: Embedded, namespace: str) -> list[str]:
    async def names() -> list[str]:
        return [
            item["metadata"]["name"]
            for kind in (JOB, POD_GROUP, POD)
            for item in (await embedded.client.list(kind)).items
            if item["metadata"]["namespace"] == namespace
        ]

    return embedded.run(names())


def remove(embedded: Embedded, key: Key) -> None:
    """Deletes a job and waits until its pods are gone."""
    embedded.delete(JOB, key)
    assert eventually(lambda: objects(embedded, key.namespace) == [])


def test_a_job_that_fits_would_start_and_nothing_is_created(
    vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path
) -> None:
    path = job_file(tmp_path / "job.yaml", replicas=4, cpu="2")
    result = vcctl("plan", "-f", path)
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == f"Job {namespace}/train would start now: 4 of 4 pods placed"
    assert "small-" in result.out
    assert "Queue default:" in result.lines
    assert objects(embedded, namespace) == []


def test_the_nodes_are_those_the_scheduler_chooses(
    vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path
) -> None:
    path = job_file(tmp_path / "job.yaml", name="real", replicas=3, cpu="3")
    result = vcctl("plan", "-f", path, "-o", "json")
    (planned,) = json.loads(result.out)["jobs"]
    assert planned["starts"]
    made = start(embedded, job("real", namespace, replicas=3, cpu="3"), "Running")

    async def nodes() -> list[str]:
        pods = (await embedded.client.list(POD)).items
        return sorted(p["spec"]["nodeName"] for p in pods if p["metadata"]["namespace"] == namespace)

    # Which of two equal nodes gets two of the pods is left to chance.
    found = embedded.run(nodes())
    wanted = sorted(each["node"] for each in planned["placements"] for _ in each["pods"])
    assert sorted(map(found.count, set(found))) == sorted(map(wanted.count, set(wanted))) == [1, 2]
    remove(embedded, Key(namespace, made["metadata"]["name"]))


def test_a_job_that_does_not_fit_has_an_exit_code_a_reason_and_changes_that_help(
    vcctl: Vcctl, namespace: str, tmp_path: Path
) -> None:
    path = job_file(tmp_path / "job.yaml", replicas=4, cpu="6")
    result = vcctl("plan", "-f", path)
    assert result.code == NOT_NOW == 5
    assert result.lines[0].startswith(f"Job {namespace}/train would not start now: ")
    assert "  - reduce the replicas of task worker from 4 to 2" in result.lines
    assert "  - add 2 more nodes of pool small" in result.lines
    data = json.loads(vcctl("plan", "-f", path, "-o", "json").out)["jobs"][0]
    assert data["starts"] is False
    assert data["reason"]
    assert data["suggestions"][0]["change"] == "reduce the replicas of task worker from 4 to 2"
    assert yaml.safe_load(vcctl("plan", "-f", path, "-o", "yaml").out)["jobs"][0]["starts"] is False


def test_admission_rejects_what_the_server_would_reject(vcctl: Vcctl, namespace: str, tmp_path: Path) -> None:
    result = vcctl("plan", "-f", job_file(tmp_path / "job.yaml", queue="none"))
    assert result.code == 1
    assert f"cannot plan: Job {namespace}/train is invalid: " in result.err
    assert 'queues.scheduling.volcano.sh "none" not found' in result.err


def test_the_limit_of_a_queue_is_respected_and_shown(vcctl: Vcctl, tmp_path: Path) -> None:
    path = job_file(tmp_path / "job.yaml", replicas=2, cpu="2", queue="narrow")
    result = vcctl("plan", "-f", path)
    assert result.code == NOT_NOW
    assert "  - move it to queue default" in result.lines
    fits = vcctl("plan", "-f", job_file(tmp_path / "job.yaml", replicas=1, cpu="2", queue="narrow"))
    assert fits.code == 0
    (row,) = [line.split() for line in fits.lines if line.startswith("cpu")]
    assert row[:3] == ["cpu", "0", "2"]
    assert row[4] == "2"


def test_a_queue_in_the_same_file_counts(vcctl: Vcctl, embedded: Embedded, tmp_path: Path) -> None:
    manifest = job("train", "", replicas=1, cpu="1", queue="new")
    del manifest["metadata"]["namespace"]
    path = write(
        tmp_path / "both.yaml",
        {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "new"}},
        {"apiVersion": JOB.api_version, "kind": "Job", **manifest},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}},
    )
    result = vcctl("plan", "-f", path)
    assert result.code == 0
    assert result.err == "note: Secret token is not scheduled and has no part in the plan\n"
    with pytest.raises(NotFound):
        embedded.get(QUEUE, Key("", "new"))


def test_pod_groups_with_pods_and_plain_pods_can_be_planned(
    vcctl: Vcctl, namespace: str, tmp_path: Path
) -> None:
    def pod(name: str, cpu: str, **metadata: Any) -> Manifest:
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"schedulerName": "volcano", "containers": [container]},
        }

    note = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    group = {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"minMember": 2},
    }
    path = write(
        tmp_path / "pods.yaml",
        group,
        pod("a", "1", **note),
        pod("b", "1", **note),
        pod("alone", "1"),
        pod("huge", "64"),
    )
    result = vcctl("plan", "-f", path)
    assert result.code == NOT_NOW
    assert f"PodGroup {namespace}/gang would start now: 2 of 2 pods placed" in result.lines
    assert f"Pod {namespace}/alone would start now: 1 of 1 pod placed" in result.lines
    assert any(line.startswith(f"Pod {namespace}/huge would not start now: ") for line in result.lines)


def test_victims_are_shown_only_when_they_are_allowed(
    vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path
) -> None:
    low = job("low", namespace, replicas=8, cpu="2")
    low["spec"]["minAvailable"] = 1
    low["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    start(embedded, low, "Running")
    path = job_file(tmp_path / "job.yaml", name="high", replicas=2, cpu="4", priorityClassName="urgent")
    refused = vcctl("plan", "-f", path)
    assert refused.code == NOT_NOW
    assert "It would start if the scheduler evicted 4 pods; --allow-preempt shows which." in refused.lines
    allowed = vcctl("plan", "-f", path, "--allow-preempt")
    assert allowed.code == 0
    assert "Evicted for it (4):" in allowed.lines
    assert sum(f"{namespace}/low-worker-" in line for line in allowed.lines) == 4
    assert len(objects(embedded, namespace)) == 1 + 1 + 8
    remove(embedded, Key(namespace, "low"))


def test_a_running_job_can_be_planned_with_more_replicas(
    vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path
) -> None:
    start(embedded, job("grow", namespace, replicas=2, cpu="2"), "Running")
    more = vcctl("plan", "--from-running", "grow", "--replicas", "6")
    assert more.code == 0, more.err
    assert (
        more.lines[0]
        == f"Job {namespace}/grow with 6 replicas would start now: 4 of 6 pods placed, 2 run already"
    )
    too_many = vcctl("plan", "--from-running", "grow", "--replicas", "16")
    assert too_many.code == NOT_NOW
    assert len(objects(embedded, namespace)) == 1 + 1 + 2
    again = vcctl("plan", "-f", job_file(tmp_path / "job.yaml", name="grow", replicas=2, cpu="2"))
    assert again.code == 1
    assert f"Job {namespace}/grow: pod {namespace}/grow-worker-0 exists already; " in again.err
    missing = vcctl("plan", "--from-running", "grwo", "--replicas", "3")
    assert missing.code == 3
    assert "did you mean 'grow'?" in missing.err
    remove(embedded, Key(namespace, "grow"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give either a file with -f, or a job that exists with --from-running"),
        (("-f", "a.yaml", "--from-running", "b"), "give either a file"),
        (("-f", "a.yaml", "--replicas", "2"), "--replicas belongs to --from-running"),
        (("--from-running", "b"), "--from-running needs --replicas N"),
        (("--from-running", "b", "--replicas", "0"), "--replicas: 0 is less than 1"),
        (("-f", "a.yaml", "-o", "wide"), "-o: 'wide' is none of table, json, yaml"),
    ],
)
def test_wrong_flags_are_explained(vcctl: Vcctl, words: tuple[str, ...], message: str) -> None:
    result = vcctl("plan", *words)
    assert result.code == 2
    assert message in result.err


def test_a_file_that_does_not_exist_and_one_without_jobs_are_errors(vcctl: Vcctl, tmp_path: Path) -> None:
    assert "no such file" in vcctl("plan", "-f", str(tmp_path / "none.yaml")).err
    secret = write(
        tmp_path / "secret.yaml", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    )
    result = vcctl("plan", "-f", secret)
    assert result.code == 1
    assert "there is no Job, PodGroup or Pod in this file" in result.err


def test_what_a_restricted_user_may_not_list_is_named(vcctl: Vcctl, tmp_path: Path) -> None:
    result = vcctl("plan", "-f", job_file(tmp_path / "job.yaml"), "--as", "somebody")
    assert result.code == 4
    assert (
        "you may not list pods, nodes, podgroups, queues, priorityclasses in the whole cluster" in result.err
    )


@pytest.mark.parametrize(
    ("pods", "shown"),
    [
        (["train-worker-3"], "train-worker-3"),
        (["train-worker-0", "train-worker-1", "train-worker-8"], "train-worker-[0-1,8]"),
        (["train-worker-10", "train-worker-9", "train-worker-8"], "train-worker-[8-10]"),
        (["a", "b"], "a, b"),
        (["a-0", "b-0"], "a-0, b-0"),
    ],
)
def test_names_of_pods_are_short(pods: list[str], shown: str) -> None:
    assert pod_names(pods) == shown
