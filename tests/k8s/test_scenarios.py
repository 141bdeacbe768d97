"""End to end on a real API server, every program a process: gangs, queues, policies, job plugins and admission."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.k8s.conftest import CPUS
from tests.k8s.load import job, task
from tests.k8s.plain import GROUPS, JOBS, PODS, QUEUES, Object, StatusError, until
from tests.k8s.programs import Programs

pytestmark = pytest.mark.k8s

SOON = 60.0
FOREVER = 3600.0
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_numbers = itertools.count(1)


@pytest.fixture
def programs(installed: Programs) -> Programs:
    return installed


class Scenario:
    """A test's own namespace, with its jobs and pods."""

    def __init__(self, programs: Programs) -> None:
        self.programs, self.api = programs, programs.api
        self.namespace = f"scenario-{next(_numbers)}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def submit(self, manifest: Object) -> Object:
        return self.api.create(JOBS.format(self.namespace), manifest)

    def job(self, name: str) -> Object:
        return self.api.get(f"{JOBS.format(self.namespace)}/{name}")

    def phase(self, name: str) -> str:
        return str(self.job(name).get("status", {}).get("state", {}).get("phase", ""))

    def pods(self, name: str = "") -> list[Object]:
        """The pods of a job that are not being deleted."""
        query = f"?labelSelector=volcano.sh/job-name%3D{name}" if name else ""
        found = self.api.items(PODS.format(self.namespace) + query)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def running(self, name: str) -> int:
        return sum(1 for pod in self.pods(name) if pod["status"]["phase"] == "Running")

    def until(self, true: Any) -> None:
        until(true, SOON, lambda: "\n".join([json.dumps(self.summary(), indent=1), self.programs.logs()]))

    def summary(self) -> Object:
        jobs = self.api.items(JOBS.format(self.namespace))
        pods = Counter(
            f"{pod['metadata']['labels'].get('volcano.sh/job-name')} {pod['status']['phase']} "
            f"{'bound' if pod['spec'].get('nodeName') else 'unbound'}"
            for pod in self.pods()
        )
        return {"jobs": {j["metadata"]["name"]: j.get("status") for j in jobs}, "pods": dict(pods)}

    def clean_up(self) -> None:
        """Deletes jobs, Deployments and pods, and waits until the pods are removed."""
        for manifest in self.api.items(JOBS.format(self.namespace)):
            self.api.delete(f"{JOBS.format(self.namespace)}/{manifest['metadata']['name']}")
        self.programs.kubectl("delete", "deploy,pods", "--all", "-n", self.namespace, "--wait=false")
        self.until(lambda: self.api.items(PODS.format(self.namespace)) == [])


@pytest.fixture
def scenario(programs: Programs) -> Iterator[Scenario]:
    created = Scenario(programs)
    yield created
    created.clean_up()


@pytest.fixture
def queues(programs: Programs) -> Iterator[list[str]]:
    """Names of queues that are deleted afterwards."""
    names: list[str] = []
    yield names
    for name in names:
        programs.vcctl("queue", "operate", "-n", name, "-a", "close")
        until(partial(_queue_deleted, programs, name), SOON, programs.logs)


def _queue_deleted(programs: Programs, name: str) -> bool:
    try:
        programs.api.delete(f"{QUEUES}/{name}")
    except StatusError as error:
        return error.code == 404
    return False


def make_queue(programs: Programs, queues: list[str], **spec: Any) -> str:
    name = f"queue-{next(_numbers)}"
    programs.api.create(
        QUEUES,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, **spec},
        },
    )
    queues.append(name)
    until(lambda: programs.api.get(f"{QUEUES}/{name}")["status"]["state"] == "Open", SOON, programs.logs)
    return name


def test_a_gang_that_does_not_fit_stays_pending_and_does_not_block_smaller_ones(scenario: Scenario) -> None:
    scenario.submit(job("first", 12, seconds=FOREVER))
    scenario.until(lambda: scenario.running("first") == 12)
    scenario.submit(job("second", 12, seconds=1))
    scenario.submit(job("small", 2, seconds=1))  # fits beside the first
    scenario.until(lambda: scenario.phase("small") == "Completed")
    assert [pod["spec"].get("nodeName") for pod in scenario.pods("second")] in ([], [None] * 12)
    assert scenario.phase("second") == "Pending"
    scenario.api.delete(f"{JOBS.format(scenario.namespace)}/first")
    scenario.until(lambda: scenario.phase("second") == "Completed")


def test_a_queue_uses_no_more_than_its_capability(
    scenario: Scenario, programs: Programs, queues: list[str]
) -> None:
    queue = make_queue(programs, queues, capability={"cpu": "3"})
    scenario.submit(job("wide", 8, seconds=FOREVER, minAvailable=1, queue=queue))
    scenario.until(lambda: scenario.running("wide") == 3)
    scenario.submit(job("other", 13, seconds=1))  # other queues use the rest
    scenario.until(lambda: scenario.phase("other") == "Completed")
    assert scenario.running("wide") == 3
    scenario.until(lambda: programs.api.get(f"{QUEUES}/{queue}")["status"]["allocated"].get("cpu") == "3")


def test_queues_share_resources_by_weight(scenario: Scenario, programs: Programs, queues: list[str]) -> None:
    light, heavy = make_queue(programs, queues, weight=1), make_queue(programs, queues, weight=3)
    scenario.submit(job("blocker", CPUS, seconds=FOREVER))
    scenario.until(lambda: scenario.running("blocker") == CPUS)
    scenario.submit(job("light", CPUS, seconds=FOREVER, minAvailable=1, queue=light))
    scenario.submit(job("heavy", CPUS, seconds=FOREVER, minAvailable=1, queue=heavy))
    scenario.until(lambda: len(scenario.pods("light")) == len(scenario.pods("heavy")) == CPUS)
    scenario.api.delete(f"{JOBS.format(scenario.namespace)}/blocker")
    scenario.until(lambda: (scenario.running("light"), scenario.running("heavy")) == (4, 12))


def test_a_queue_reclaims_its_deserved_share(
    scenario: Scenario, programs: Programs, queues: list[str]
) -> None:
    borrower, owner = make_queue(programs, queues, weight=1), make_queue(programs, queues, weight=1)
    scenario.submit(job("borrows", CPUS, seconds=FOREVER, minAvailable=1, queue=borrower))
    scenario.until(lambda: scenario.running("borrows") == CPUS)
    scenario.submit(job("owns", 4, seconds=FOREVER, queue=owner))
    scenario.until(lambda: scenario.running("owns") == 4)
    scenario.until(lambda: scenario.running("borrows") == CPUS - 4)


def test_a_gang_of_higher_priority_preempts_pods_of_lower_priority(scenario: Scenario) -> None:
    for name, value in (("low", 1), ("high", 1000)):
        scenario.api.create_persistently(PRIORITIES, {"metadata": {"name": name}, "value": value})
    scenario.submit(job("low", CPUS, seconds=FOREVER, minAvailable=1, priorityClassName="low"))
    scenario.until(lambda: scenario.running("low") == CPUS)
    scenario.submit(job("high", 6, seconds=FOREVER, priorityClassName="high"))
    scenario.until(lambda: scenario.running("high") == 6)
    scenario.until(lambda: scenario.running("low") == CPUS - 6)


def test_a_job_is_aborted_and_resumed_by_command(scenario: Scenario, programs: Programs) -> None:
    scenario.submit(job("suspended", 3, seconds=FOREVER))
    scenario.until(lambda: scenario.phase("suspended") == "Running")
    first = {pod["metadata"]["uid"] for pod in scenario.pods("suspended")}
    suspended = programs.vcctl("job", "suspend", "-N", "suspended", "-n", scenario.namespace)
    assert suspended.returncode == 0, suspended.stderr
    scenario.until(lambda: scenario.phase("suspended") == "Aborted" and scenario.pods("suspended") == [])
    resumed = programs.vcctl("job", "resume", "-N", "suspended", "-n", scenario.namespace)
    assert resumed.returncode == 0, resumed.stderr
    scenario.until(lambda: scenario.phase("suspended") == "Running" and scenario.running("suspended") == 3)
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in scenario.pods("suspended"))


@pytest.mark.parametrize(
    ("policies", "exit_code", "phase", "retries"),
    [
        pytest.param([], 0, "Completed", 0, id="all succeed"),
        pytest.param([], 1, "Failed", 0, id="all fail, and no policy"),
        pytest.param([{"event": "PodFailed", "action": "AbortJob"}], 1, "Aborted", 0, id="abort"),
        pytest.param([{"event": "PodFailed", "action": "TerminateJob"}], 1, "Terminated", 0, id="terminate"),
        pytest.param([{"event": "PodFailed", "action": "CompleteJob"}], 1, "Completed", 0, id="complete"),
        pytest.param(
            [{"event": "PodFailed", "action": "RestartJob"}], 1, "Failed", 2, id="restart too often"
        ),
        pytest.param([{"exitCode": 3, "action": "AbortJob"}], 3, "Aborted", 0, id="by exit code"),
        pytest.param([{"exitCode": 3, "action": "AbortJob"}], 4, "Failed", 0, id="by another exit code"),
    ],
)
def test_policies_determine_the_final_phase(
    scenario: Scenario, policies: list[Object], exit_code: int, phase: str, retries: int
) -> None:
    scenario.submit(job("ends", 2, seconds=0.2, exit_code=exit_code, policies=policies, maxRetry=2))
    scenario.until(lambda: scenario.phase("ends") == phase)
    assert scenario.job("ends")["status"].get("retryCount", 0) == retries


def test_a_deleted_pod_restarts_a_job_with_a_policy_for_evictions(scenario: Scenario) -> None:
    scenario.submit(
        job("restarted", 2, seconds=FOREVER, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    )
    scenario.until(lambda: scenario.running("restarted") == 2)
    before = {pod["metadata"]["uid"] for pod in scenario.pods("restarted")}
    scenario.api.delete(f"{PODS.format(scenario.namespace)}/restarted-work-0")
    scenario.until(
        lambda: (
            scenario.running("restarted") == 2
            and before.isdisjoint(pod["metadata"]["uid"] for pod in scenario.pods("restarted"))
        )
    )
    scenario.until(lambda: scenario.job("restarted")["status"]["retryCount"] == 1)


def test_job_plugins_create_hosts_files_keys_and_environment(scenario: Scenario) -> None:
    manifest = job("cluster", 3, plugins={"svc": [], "env": [], "ssh": []})
    manifest["spec"]["tasks"] = [task("head", 1, seconds=FOREVER), task("worker", 2, seconds=FOREVER)]
    scenario.submit(manifest)
    scenario.until(lambda: scenario.running("cluster") == 3)
    core = f"/api/v1/namespaces/{scenario.namespace}"
    assert scenario.api.get(f"{core}/services/cluster")["spec"]["clusterIP"] == "None"
    hosts = scenario.api.get(f"{core}/configmaps/cluster-svc")["data"]
    assert hosts["worker.host"].split() == ["cluster-worker-0.cluster", "cluster-worker-1.cluster"]
    secret = scenario.api.get(f"{core}/secrets/cluster-ssh")["data"]
    assert {"id_rsa", "id_rsa.pub", "authorized_keys", "config"} <= set(secret)
    (pod,) = (pod for pod in scenario.pods("cluster") if pod["metadata"]["name"] == "cluster-worker-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("cluster-worker-1", "cluster")
    environment = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    assert (environment["VC_TASK_INDEX"], environment["VK_TASK_INDEX"]) == ("1", "1")
    assert "VC_WORKER_HOSTS" in environment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"queue": "nowhere"}, "nowhere", id="a queue that does not exist"),
        pytest.param({"minAvailable": 5}, "minAvailable", id="a minimum above the replicas"),
        pytest.param({"plugins": {"magic": []}}, "magic", id="a plugin that does not exist"),
        pytest.param(
            {"policies": [{"event": "PodFailed", "action": "Dance"}]}, "Dance", id="an unknown action"
        ),
    ],
)
def test_admission_denies_an_invalid_job_with_the_reason(
    scenario: Scenario, change: Object, message: str
) -> None:
    with pytest.raises(StatusError, match=message):
        scenario.submit(job("wrong", 2, **change))


def test_admission_denies_changes_of_immutable_fields(scenario: Scenario, programs: Programs) -> None:
    scenario.submit(job("fixed", 2, seconds=FOREVER))
    path = f"{JOBS.format(scenario.namespace)}/fixed"
    with pytest.raises(StatusError, match="spec"):
        scenario.api.patch(path, {"spec": {"queue": "root", "maxRetry": 7, "schedulerName": "other"}})
    with pytest.raises(StatusError, match="default"):
        programs.api.delete(f"{QUEUES}/default")


def test_pods_of_a_deployment_get_one_pod_group(scenario: Scenario) -> None:
    """Pods without a Volcano job get a PodGroup, and the webhook admits pods of other schedulers."""
    template = task("x", 1, seconds=FOREVER)["template"]["spec"] | {
        "schedulerName": "volcano",
        "restartPolicy": "Always",
    }
    labels = {"app": "web"}
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }
    scenario.api.create(f"/apis/apps/v1/namespaces/{scenario.namespace}/deployments", deployment)
    scenario.until(lambda: Counter(pod["status"]["phase"] for pod in scenario.pods()) == {"Running": 3})
    groups = scenario.api.items(GROUPS.format(scenario.namespace))
    assert len(groups) == 1
    assert groups[0]["spec"]["minMember"] == 1


def test_a_flow_runs_one_job_after_the_other(scenario: Scenario) -> None:
    flows = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{scenario.namespace}"
    for name in ("first", "then"):
        spec = job(name, 1, seconds=0.5)["spec"]
        template = {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobTemplate",
            "metadata": {"name": name},
        }
        scenario.api.create(f"{flows}/jobtemplates", {**template, "spec": spec})
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "flow"}}
    steps = [{"name": "first"}, {"name": "then", "dependsOn": {"targets": ["first"]}}]
    scenario.api.create(f"{flows}/jobflows", {**flow, "spec": {"jobRetainPolicy": "retain", "flows": steps}})
    scenario.until(
        lambda: scenario.api.get(f"{flows}/jobflows/flow")["status"]["state"]["phase"] == "Succeed"
    )
    first, then = scenario.job("flow-first"), scenario.job("flow-then")
    assert then["metadata"]["creationTimestamp"] >= first["status"]["state"]["lastTransitionTime"]


def test_vcctl_manages_jobs_and_queues(scenario: Scenario, programs: Programs) -> None:
    def vcctl(*arguments: str) -> str:
        done = programs.vcctl(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    name, namespace = f"queue-{next(_numbers)}", scenario.namespace
    vcctl("queue", "create", "-n", name, "-w", "2")
    assert name in vcctl("queue", "list")
    vcctl("job", "run", "-N", "hello", "-n", namespace, "-r", "2", "-m", "2", "-i", "busybox")
    scenario.until(lambda: scenario.phase("hello") == "Completed")
    assert "Completed" in vcctl("job", "list", "-n", namespace)
    assert "hello" in vcctl("job", "view", "-N", "hello", "-n", namespace)
    vcctl("job", "delete", "-N", "hello", "-n", namespace)
    scenario.until(lambda: scenario.api.items(JOBS.format(namespace)) == [])
    vcctl("queue", "operate", "-n", name, "-a", "close")
    scenario.until(lambda: scenario.api.get(f"{QUEUES}/{name}")["status"]["state"] == "Closed")
    vcctl("queue", "delete", "-n", name)
    with pytest.raises(StatusError, match="404"):
        scenario.api.get(f"{QUEUES}/{name}")
