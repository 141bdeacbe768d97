"""The chart's admission policies on a real API server: what they reject, and what they complete."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.conformance import RealServer
from tests.installer.helm import Helm
from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.plain import until
from volcano.kube.api import crds
from volcano.kube.api.manifest import Manifest

pytestmark = pytest.mark.k8s

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
FLOWS = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server(fresh_apiserver: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server with our CRDs and all policies."""
    found = RealServer(fresh_apiserver.url, fresh_apiserver.token)
    for crd in crds.load():
        found.call("POST", CRDS, crd)
    until(lambda: found.call("GET", JOBS).get("kind") == "JobList", 30.0, str)
    helm = Helm(tmp_path_factory.mktemp("helm"))
    has_v1 = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
    gate = "custom.admission_feature_gates=SchedulingGatesQueueAdmission\\=true"
    rendered = helm.template("custom.vap_enable=true", "custom.map_enable=true", gate, has_v1)
    created = []
    for kind, plural in PATHS.items():
        for manifest in rendered.all(kind):
            base = f"/apis/{manifest['apiVersion']}/{plural}"
            answer = found.call("POST", base, manifest)
            assert answer["kind"] == kind, json.dumps(answer)
            created.append(f"{base}/{manifest['metadata']['name']}")
    assert len(created) == 2 * (6 + 4)
    twice = job(tasks=[task(), task()])
    until(lambda: "duplicated" in str(found.call("POST", f"{JOBS}?dryRun=All", twice)), 30.0, str)

    def completed() -> bool:
        return found.call("POST", f"{QUEUES}?dryRun=All", queue())["spec"].get("reclaimable") is True

    until(completed, 30.0, str)
    yield found
    for path in created:
        found.call("DELETE", path)
    for crd in crds.load():
        found.call("DELETE", f"{CRDS}/{crd['metadata']['name']}")


def job(**spec: Any) -> Manifest:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": spec,
    }


def task(name: str = "main", replicas: int = 2, **more: Any) -> Manifest:
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def queue(name: str = "q", annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": metadata,
        "spec": spec,
    }


def group(**spec: Any) -> Manifest:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }


def flow(*flows: Manifest) -> Manifest:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": "default"},
        "spec": {"flows": list(flows)},
    }


def hypernode(pattern: str) -> Manifest:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "h"},
        "spec": {"tier": 1, "members": members},
    }


def pod(scheduler: str = "volcano", **annotations: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


BOTH_TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}
MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"


@pytest.mark.parametrize(
    ("path", "manifest", "message"),
    [
        (JOBS, job(), "No task specified in job spec"),
        (JOBS, job(tasks=[task(), task()]), "duplicated task name"),
        (JOBS, job(tasks=[task(minAvailable=3)]), "'minAvailable' is greater than 'replicas' in task"),
        (JOBS, job(minAvailable=3, tasks=[task()]), "job 'minAvailable' should not be greater than total replicas"),
        (JOBS, job(tasks=[task()], plugins={"nonsense": []}), "unable to find job plugin"),
        (JOBS, job(tasks=[task(dependsOn={"name": ["other"]})]), "directed acyclic graph(DAG)"),
        (JOBS, job(tasks=[task()], policies=[{"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}]),
         "must not specify event and exitCode simultaneously"),
        (JOBS, job(tasks=[task()], policies=[{"action": "AbortJob"}]), "either event and exitCode should be specified"),
        (JOBS, job(tasks=[task(policies=[{"exitCode": 0, "action": "AbortJob"}])]), "0 is not a valid error code"),
        (JOBS, job(tasks=[task()], volumes=[{"mountPath": "/a"}]), "either VolumeClaim or VolumeClaimName"),
        (JOBS, job(tasks=[task()], networkTopology=BOTH_TIERS), "must not specify 'highestTierAllowed'"),
        (JOBS, job(tasks=[task(partitionPolicy={"totalPartitions": 2, "partitionSize": 2})]),
         "'Replicas' are not equal to TotalPartitions*PartitionSize"),
        (QUEUES, queue(parent="q"), "a queue cannot use itself as parent"),
        (QUEUES, queue(guarantee={"resource": {"cpu": "2"}}, deserved={"cpu": 1}), "every guarantee must be"),
        (QUEUES, queue(deserved={"cpu": "2"}, capability={"cpu": "1500m"}), "deserved must be <= capability"),
        (QUEUES, queue(annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1"}),
         "must have the same length"),
        (GROUPS, group(networkTopology=BOTH_TIERS), "must not specify 'highestTierAllowed'"),
        (FLOWS, flow({"name": "a", "dependsOn": {"targets": ["b"]}}), "jobflow Flow is not DAG"),
        (FLOWS, flow({"name": "a", "dependsOn": {"targets": ["a"]}}), "jobflow Flow is not DAG"),
        (HYPERNODES, hypernode("a("), "hypernode-validation-policy"),
        (PODS, pod(**{MIN: "1", MAX: "1"}), "not allow configure multiple annotations"),
        (PODS, pod(**{MIN: "100%"}), "valid percentage which between 1% ~ 99%"),
    ],
)  # fmt: skip
def test_invalid_objects_are_rejected(
    server: RealServer, path: str, manifest: Manifest, message: str
) -> None:
    answer = server.call("POST", f"{path}?dryRun=All", manifest)
    assert (answer["kind"], message in answer.get("message", "")) == ("Status", True), json.dumps(answer)


@pytest.mark.parametrize(
    ("path", "manifest"),
    [
        (JOBS, job(tasks=[task(), task("other", dependsOn={"name": ["main"]})], plugins={"svc": []},
                   policies=[{"event": "PodEvicted", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
                   volumes=[{"mountPath": "/a", "volumeClaimName": "claim"}])),
        (QUEUES, queue(guarantee={"resource": {"cpu": 1}}, deserved={"cpu": "2"}, capability={"cpu": 3})),
        (GROUPS, group(minMember=1, networkTopology={"mode": "hard", "highestTierAllowed": 1})),
        (FLOWS, flow({"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}})),
        (HYPERNODES, hypernode("node-[0-9]+")),
        (PODS, pod(**{MIN: "30%"})),
        (PODS, pod("default-scheduler", **{MIN: "nonsense"})),
    ],
)  # fmt: skip
def test_valid_objects_are_admitted(server: RealServer, path: str, manifest: Manifest) -> None:
    answer = server.call("POST", f"{path}?dryRun=All", manifest)
    assert answer["kind"] == manifest["kind"], json.dumps(answer)


def test_the_default_queues_are_not_deleted_and_tasks_not_added(server: RealServer) -> None:
    assert server.call("POST", QUEUES, queue("default"))["kind"] == "Queue"
    assert "can not be deleted" in server.call("DELETE", f"{QUEUES}/default")["message"]
    assert server.call("POST", QUEUES, queue("other"))["kind"] == "Queue"
    stored = server.call("POST", JOBS, job(tasks=[task()]))
    changed = {**stored, "spec": {**stored["spec"], "tasks": [*stored["spec"]["tasks"], task("more")]}}
    answer = server.call("PUT", f"{JOBS}/j?dryRun=All", changed)
    assert "job updates may not add or remove tasks" in answer["message"]
    server.call("DELETE", f"{JOBS}/j")


def test_jobs_are_completed(server: RealServer) -> None:
    tasks = [task(replicas=3), task("other", 4, minAvailable=1)]
    spec = server.call("POST", f"{JOBS}?dryRun=All", job(tasks=tasks, plugins={"mpi": []}))["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        4,
    )
    assert spec["plugins"] == {"mpi": [], "svc": [], "ssh": []}
    given = job(tasks=tasks, queue="q", schedulerName="s", maxRetry=7, minAvailable=2)
    spec = server.call("POST", f"{JOBS}?dryRun=All", given)["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == ("q", "s", 7, 2)


def test_queues_are_completed(server: RealServer) -> None:
    notes = {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/3"}
    created = server.call("POST", f"{QUEUES}?dryRun=All", queue(annotations=notes))
    assert created["spec"]["reclaimable"] is True
    assert created["spec"]["weight"] == 1
    assert created["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/a/b",
        "volcano.sh/hierarchy-weights": "1/2/3",
    }
    assert (
        server.call("POST", f"{QUEUES}?dryRun=All", queue(reclaimable=False))["spec"]["reclaimable"] is False
    )


def test_podgroups_get_the_queue_of_their_namespace(server: RealServer) -> None:
    assert server.call("POST", f"{GROUPS}?dryRun=All", group(minMember=1))["spec"]["queue"] == "default"
    patch = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "research"}}}
    kind = "application/merge-patch+json"
    server.call("PATCH", "/api/v1/namespaces/default", patch, kind)

    def assigned() -> bool:
        answer = server.call("POST", f"{GROUPS}?dryRun=All", group(minMember=1))
        return bool(answer["spec"]["queue"] == "research")

    until(assigned, 20.0, str)
    other = server.call("POST", f"{GROUPS}?dryRun=All", group(minMember=1, queue="own"))
    assert other["spec"]["queue"] == "own"
    patch["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = None  # type: ignore[assignment]
    server.call("PATCH", "/api/v1/namespaces/default", patch, kind)


def test_pods_get_the_gate_of_their_queue(server: RealServer) -> None:
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    created = server.call("POST", f"{PODS}?dryRun=All", pod(**{gate: "true"}))
    assert created["spec"]["schedulingGates"] == [{"name": gate}]
    own = pod(**{gate: "true"})
    own["spec"]["schedulingGates"] = [{"name": "example.com/own"}]
    created = server.call("POST", f"{PODS}?dryRun=All", own)
    assert created["spec"]["schedulingGates"] == [{"name": "example.com/own"}, {"name": gate}]
    assert "schedulingGates" not in server.call("POST", f"{PODS}?dryRun=All", pod())["spec"]


def test_policies_are_rendered_on_request_only(tmp_path: Path) -> None:
    helm = Helm(tmp_path)
    for kind in PATHS:
        assert helm.template().names(kind) == set()
    beta = helm.template("custom.map_enable=true")
    assert {manifest["apiVersion"] for manifest in beta.all("MutatingAdmissionPolicy")} == {
        "admissionregistration.k8s.io/v1beta1"
    }
    assert beta.names("MutatingAdmissionPolicy") == {
        f"volcano-{kind}-mutation-policy" for kind in ("job", "podgroup", "queue")
    }
