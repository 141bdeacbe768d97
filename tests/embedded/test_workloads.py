"""Workloads of operators: their phase, their pods, and operators that have to be available first."""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.embedded.test_cluster import cluster
from volcano.embedded import operators
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.files import Document, FileError
from volcano.embedded.operators import apply_with_operators
from volcano.embedded.progress import ProgressWatcher, tracked
from volcano.embedded.workloads import end_of, workload_of
from volcano.kube.api.kinds import BATCH_JOB, CRD, DEPLOYMENT, POD, VALIDATING_WEBHOOK, Kind
from volcano.kube.api.manifest import Key, Manifest


def condition(name: str, status: str = "True", at: str = "2026-01-01T00:00:00Z") -> Manifest:
    return {"type": name, "status": status, "lastTransitionTime": at}


@pytest.mark.parametrize(
    ("group", "kind", "status", "phase"),
    [
        ("argoproj.io", "Workflow", {}, "Pending"),
        ("argoproj.io", "Workflow", {"phase": "Running"}, "Running"),
        ("argoproj.io", "Workflow", {"phase": "Succeeded"}, "Completed"),
        ("argoproj.io", "Workflow", {"phase": "Error"}, "Failed"),
        ("ray.io", "RayJob", {"jobDeploymentStatus": "Initializing"}, "Running"),
        ("ray.io", "RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Completed"),
        ("ray.io", "RayJob", {"jobDeploymentStatus": "Failed"}, "Failed"),
        ("kubeflow.org", "PyTorchJob", {"conditions": [condition("Created")]}, "Running"),
        (
            "kubeflow.org",
            "TFJob",
            {"conditions": [condition("Running"), condition("Succeeded")]},
            "Completed",
        ),
        (
            "kubeflow.org",
            "MPIJob",
            {"conditions": [condition("Succeeded", "False"), condition("Failed")]},
            "Failed",
        ),
        ("jobset.x-k8s.io", "JobSet", {"conditions": [condition("Completed")]}, "Completed"),
        ("trainer.kubeflow.org", "TrainJob", {"conditions": [condition("Complete")]}, "Completed"),
        ("sparkoperator.k8s.io", "SparkApplication", {"applicationState": None}, "Pending"),
        (
            "sparkoperator.k8s.io",
            "SparkApplication",
            {"applicationState": {"state": "COMPLETED"}},
            "Completed",
        ),
        ("sparkoperator.k8s.io", "SparkApplication", {"applicationState": {"state": "FAILED"}}, "Failed"),
    ],
)
def test_the_phase_of_a_workload_is_read_from_its_status(
    group: str, kind: str, status: Manifest, phase: str
) -> None:
    workload = workload_of(Kind(group, "v1", kind, f"{kind.lower()}s", True))
    assert workload is not None
    assert workload.phase(status) == phase


def test_kinds_that_do_not_end_are_no_workloads() -> None:
    assert workload_of(Kind("ray.io", "v1", "RayCluster", "rayclusters", True)) is None
    assert workload_of(DEPLOYMENT) is None


def test_the_end_of_a_workload_is_given_or_its_last_condition() -> None:
    assert end_of({"status": {"finishedAt": "2026-01-01T00:00:03Z", "conditions": [condition("A")]}}) == (
        "2026-01-01T00:00:03Z"
    )
    later = condition("B", at="2026-01-01T00:00:09Z")
    assert end_of({"status": {"conditions": [condition("A"), later]}}) == "2026-01-01T00:00:09Z"
    assert end_of({}) is None


def crd(group: str, kind: str) -> Manifest:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.{group}"}
    return {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": metadata, "spec": spec}


def owned_by(owner: Manifest, name: str) -> Manifest:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"name": name, "namespace": "default", "ownerReferences": [reference]}


async def create(running: LocalCluster, kind: Kind, metadata: Manifest, **fields: Any) -> Manifest:
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
    return await running.client.create(kind, manifest)


async def test_pods_that_a_workload_owns_through_other_objects_are_followed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as running:
        await running.apply(
            [
                Document("file:1", crd("trainer.kubeflow.org", "TrainJob")),
                Document("file:2", crd("jobset.x-k8s.io", "JobSet")),
            ]
        )
        kinds = {(s.kind.api_version, s.kind.kind): s.kind for s in running.registry.kinds}
        train, jobset = kinds["trainer.kubeflow.org/v1", "TrainJob"], kinds["jobset.x-k8s.io/v1", "JobSet"]
        job = await create(running, train, {"name": "train", "namespace": "default"})
        between = await create(running, jobset, owned_by(job, "set"))
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        template = {"spec": {**pod, "schedulerName": "volcano"}}
        await create(running, BATCH_JOB, owned_by(between, "node"), spec={"template": template})
        out = io.StringIO()
        seen: list[str] = []
        follower = ProgressWatcher(
            running.client,
            running.clock,
            tracked([job, between], kinds),
            on_pod=lambda pod: seen.append(pod["metadata"]["name"]),
            served=kinds.values(),
        )
        following = asyncio.create_task(
            follower.follow(timeout=20.0, console=Console(file=out, width=200), quiet=False)
        )
        for _ in range(400):
            if seen:
                break
            await asyncio.sleep(0.02)
        assert not following.done()
        job["status"] = {"conditions": [condition("Complete")]}
        await running.client.update(train, job)
        rows = await asyncio.wait_for(following, 20.0)
    assert [(row.kind, row.phase, row.good, sum(row.pods.values())) for row in rows] == [
        ("TrainJob", "Completed", True, 1)
    ]
    assert {name.rpartition("-")[0] for name in seen} == {"node"}


def deployment(fits: bool = True) -> Document:
    pod = {"containers": [{"name": "manager", "image": "operator:1"}], "schedulerName": "default-scheduler"}
    labels = {"app": "operator"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    if not fits:
        pod["nodeSelector"] = {"there": "is-none"}  # type: ignore[assignment]
    metadata = {"name": "operator", "namespace": "default"}
    return Document(
        "operator.yaml:1", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    )


def config_map(name: str) -> Document:
    return Document(
        "file.yaml:1",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}},
    )


async def test_files_are_applied_when_the_operator_is_available(tmp_path: Path) -> None:
    async with cluster(tmp_path, sim_duration=float("inf")) as running:
        applied = await apply_with_operators(running, [deployment()], [config_map("a")])
        pods = (await running.client.list(POD)).items
        assert [one["metadata"]["name"] for one in applied] == ["a"]
        assert [pod["status"]["phase"] for pod in pods if pod["metadata"]["namespace"] == "default"] == [
            "Running"
        ]


async def test_an_operator_that_does_not_become_available_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "AVAILABLE_WITHIN", 0.2)
    async with cluster(tmp_path) as running:
        with pytest.raises(FileError, match="Deployment default/operator is not available after 0 s"):
            await apply_with_operators(running, [deployment(fits=False)], [config_map("a")])


async def test_objects_wait_for_the_webhook_of_an_operator(tmp_path: Path) -> None:
    hook = {
        "name": "deny.example.com",
        "clientConfig": {"service": {"name": "operator", "namespace": "default"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    }
    async with cluster(tmp_path, sim_duration=float("inf")) as running:
        await create(running, VALIDATING_WEBHOOK, {"name": "deny"}, webhooks=[hook])
        with pytest.raises(FileError, match="failed calling webhook"):
            await running.apply([config_map("a")])
        waiting = asyncio.create_task(apply_with_operators(running, [deployment()], [config_map("a")]))
        await asyncio.sleep(1.5)
        assert not waiting.done()
        await running.client.delete(VALIDATING_WEBHOOK, Key("", "deny"))
        assert len(await asyncio.wait_for(waiting, 20.0)) == 1
