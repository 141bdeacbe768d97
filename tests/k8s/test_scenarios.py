"""End to end on a real API server, every program a process: what users see of gangs, queues, policies and plugins."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.k8s.conftest import CPUS
from tests.k8s.load import job, task
from tests.k8s.plain import GROUPS, JOBS, PODS, QUEUES, Object, Refused, until
from tests.k8s.programs import Programs

pytestmark = pytest.mark.k8s

SOON = 60.0
FOREVER = 3600.0
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_numbers = itertools.count(1)


@pytest.fixture
def programs(installed: Programs) -> Programs:
    return installed


class Room:
    """A namespace of a test's own, and what happens in it."""

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
        """The pods of a job that are not on their way out."""
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

    def leave(self) -> None:
        """Deletes everything and waits until its pods have left the nodes."""
        for manifest in self.api.items(JOBS.format(self.namespace)):
            self.api.delete(f"{JOBS.format(self.namespace)}/{manifest['metadata']['name']}")
        self.programs.kubectl("delete", "deploy,pods", "--all", "-n", self.namespace, "--wait=false")
        self.until(lambda: self.api.items(PODS.format(self.namespace)) == [])


@pytest.fixture
def room(programs: Programs) -> Iterator[Room]:
    made = Room(programs)
    yield made
    made.leave()


@pytest.fixture
def queues(programs: Programs) -> Iterator[list[str]]:
    """Names of queues that are deleted afterwards."""
    names: list[str] = []
    yield names
    for name in names:
        programs.vcctl("queue", "operate", "-n", name, "-a", "close")
        until(partial(_queue_gone, programs, name), SOON, programs.logs)


def _queue_gone(programs: Programs, name: str) -> bool:
    try:
        programs.api.delete(f"{QUEUES}/{name}")
    except Refused as error:
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


def test_of_two_gangs_that_do_not_fit_together_one_waits_whole(room: Room) -> None:
    room.submit(job("first", 12, seconds=FOREVER))
    room.until(lambda: room.running("first") == 12)
    room.submit(job("second", 12, seconds=1))
    room.submit(job("small", 2, seconds=1))  # fits beside the first: the large one does not block it
    room.until(lambda: room.phase("small") == "Completed")
    assert [pod["spec"].get("nodeName") for pod in room.pods("second")] in ([], [None] * 12)
    assert room.phase("second") == "Pending"
    room.api.delete(f"{JOBS.format(room.namespace)}/first")
    room.until(lambda: room.phase("second") == "Completed")


def test_a_queue_uses_no_more_than_its_capability(room: Room, programs: Programs, queues: list[str]) -> None:
    queue = make_queue(programs, queues, capability={"cpu": "3"})
    room.submit(job("wide", 8, seconds=FOREVER, minAvailable=1, queue=queue))
    room.until(lambda: room.running("wide") == 3)
    room.submit(job("other", 13, seconds=1))  # what the queue may not use others do
    room.until(lambda: room.phase("other") == "Completed")
    assert room.running("wide") == 3
    room.until(lambda: programs.api.get(f"{QUEUES}/{queue}")["status"]["allocated"].get("cpu") == "3")


def test_queues_share_by_weight(room: Room, programs: Programs, queues: list[str]) -> None:
    light, heavy = make_queue(programs, queues, weight=1), make_queue(programs, queues, weight=3)
    room.submit(job("blocker", CPUS, seconds=FOREVER))
    room.until(lambda: room.running("blocker") == CPUS)
    room.submit(job("light", CPUS, seconds=FOREVER, minAvailable=1, queue=light))
    room.submit(job("heavy", CPUS, seconds=FOREVER, minAvailable=1, queue=heavy))
    room.until(lambda: len(room.pods("light")) == len(room.pods("heavy")) == CPUS)
    room.api.delete(f"{JOBS.format(room.namespace)}/blocker")
    room.until(lambda: (room.running("light"), room.running("heavy")) == (4, 12))


def test_a_queue_takes_back_what_is_its_own(room: Room, programs: Programs, queues: list[str]) -> None:
    borrower, owner = make_queue(programs, queues, weight=1), make_queue(programs, queues, weight=1)
    room.submit(job("borrows", CPUS, seconds=FOREVER, minAvailable=1, queue=borrower))
    room.until(lambda: room.running("borrows") == CPUS)
    room.submit(job("owns", 4, seconds=FOREVER, queue=owner))
    room.until(lambda: room.running("owns") == 4)
    room.until(lambda: room.running("borrows") == CPUS - 4)


def test_the_more_important_gang_takes_the_place_of_the_less(room: Room) -> None:
    for name, value in (("low", 1), ("high", 1000)):
        room.api.create_persistently(PRIORITIES, {"metadata": {"name": name}, "value": value})
    room.submit(job("low", CPUS, seconds=FOREVER, minAvailable=1, priorityClassName="low"))
    room.until(lambda: room.running("low") == CPUS)
    room.submit(job("high", 6, seconds=FOREVER, priorityClassName="high"))
    room.until(lambda: room.running("high") == 6)
    room.until(lambda: room.running("low") == CPUS - 6)


def test_a_job_is_aborted_and_resumed_by_command(room: Room, programs: Programs) -> None:
    room.submit(job("patient", 3, seconds=FOREVER))
    room.until(lambda: room.phase("patient") == "Running")
    first = {pod["metadata"]["uid"] for pod in room.pods("patient")}
    suspended = programs.vcctl("job", "suspend", "-N", "patient", "-n", room.namespace)
    assert suspended.returncode == 0, suspended.stderr
    room.until(lambda: room.phase("patient") == "Aborted" and room.pods("patient") == [])
    resumed = programs.vcctl("job", "resume", "-N", "patient", "-n", room.namespace)
    assert resumed.returncode == 0, resumed.stderr
    room.until(lambda: room.phase("patient") == "Running" and room.running("patient") == 3)
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in room.pods("patient"))


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
def test_policies_say_how_a_job_ends(
    room: Room, policies: list[Object], exit_code: int, phase: str, retries: int
) -> None:
    room.submit(job("ends", 2, seconds=0.2, exit_code=exit_code, policies=policies, maxRetry=2))
    room.until(lambda: room.phase("ends") == phase)
    assert room.job("ends")["status"].get("retryCount", 0) == retries


def test_a_pod_that_is_taken_away_restarts_the_job_that_asked_for_it(room: Room) -> None:
    room.submit(
        job("restless", 2, seconds=FOREVER, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    )
    room.until(lambda: room.running("restless") == 2)
    before = {pod["metadata"]["uid"] for pod in room.pods("restless")}
    room.api.delete(f"{PODS.format(room.namespace)}/restless-work-0")
    room.until(
        lambda: (
            room.running("restless") == 2
            and before.isdisjoint(pod["metadata"]["uid"] for pod in room.pods("restless"))
        )
    )
    room.until(lambda: room.job("restless")["status"]["retryCount"] == 1)


def test_job_plugins_prepare_pods_to_find_each_other(room: Room) -> None:
    manifest = job("cluster", 3, plugins={"svc": [], "env": [], "ssh": []})
    manifest["spec"]["tasks"] = [task("head", 1, seconds=FOREVER), task("worker", 2, seconds=FOREVER)]
    room.submit(manifest)
    room.until(lambda: room.running("cluster") == 3)
    core = f"/api/v1/namespaces/{room.namespace}"
    assert room.api.get(f"{core}/services/cluster")["spec"]["clusterIP"] == "None"
    hosts = room.api.get(f"{core}/configmaps/cluster-svc")["data"]
    assert hosts["worker.host"].split() == ["cluster-worker-0.cluster", "cluster-worker-1.cluster"]
    secret = room.api.get(f"{core}/secrets/cluster-ssh")["data"]
    assert {"id_rsa", "id_rsa.pub", "authorized_keys", "config"} <= set(secret)
    (pod,) = (pod for pod in room.pods("cluster") if pod["metadata"]["name"] == "cluster-worker-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("cluster-worker-1", "cluster")
    environment = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    assert (environment["VC_TASK_INDEX"], environment["VK_TASK_INDEX"]) == ("1", "1")
    assert "VC_WORKER_HOSTS" in environment


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"queue": "nowhere"}, "nowhere", id="a queue that is not there"),
        pytest.param({"minAvailable": 5}, "minAvailable", id="a minimum above the replicas"),
        pytest.param({"plugins": {"magic": []}}, "magic", id="a plugin that is not there"),
        pytest.param(
            {"policies": [{"event": "PodFailed", "action": "Dance"}]}, "Dance", id="an unknown action"
        ),
    ],
)
def test_admission_refuses_with_the_reason(room: Room, change: Object, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        room.submit(job("wrong", 2, **change))


def test_admission_keeps_what_must_not_change(room: Room, programs: Programs) -> None:
    room.submit(job("fixed", 2, seconds=FOREVER))
    path = f"{JOBS.format(room.namespace)}/fixed"
    with pytest.raises(Refused, match="spec"):
        room.api.patch(path, {"spec": {"queue": "root", "maxRetry": 7, "schedulerName": "other"}})
    with pytest.raises(Refused, match="default"):
        programs.api.delete(f"{QUEUES}/default")


def test_a_deployments_pods_are_a_gang_of_ones(room: Room) -> None:
    """Pods that no job of ours made get a PodGroup, and the webhook never stands in the way of others' pods."""
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
    room.api.create(f"/apis/apps/v1/namespaces/{room.namespace}/deployments", deployment)
    room.until(lambda: Counter(pod["status"]["phase"] for pod in room.pods()) == {"Running": 3})
    groups = room.api.items(GROUPS.format(room.namespace))
    assert len(groups) == 1
    assert groups[0]["spec"]["minMember"] == 1


def test_a_flow_runs_one_job_after_the_other(room: Room) -> None:
    flows = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{room.namespace}"
    for name in ("first", "then"):
        spec = job(name, 1, seconds=0.5)["spec"]
        template = {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobTemplate",
            "metadata": {"name": name},
        }
        room.api.create(f"{flows}/jobtemplates", {**template, "spec": spec})
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "flow"}}
    steps = [{"name": "first"}, {"name": "then", "dependsOn": {"targets": ["first"]}}]
    room.api.create(f"{flows}/jobflows", {**flow, "spec": {"jobRetainPolicy": "retain", "flows": steps}})
    room.until(lambda: room.api.get(f"{flows}/jobflows/flow")["status"]["state"]["phase"] == "Succeed")
    first, then = room.job("flow-first"), room.job("flow-then")
    assert then["metadata"]["creationTimestamp"] >= first["status"]["state"]["lastTransitionTime"]


def test_vcctl_manages_jobs_and_queues(room: Room, programs: Programs) -> None:
    def vcctl(*arguments: str) -> str:
        done = programs.vcctl(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    name, namespace = f"queue-{next(_numbers)}", room.namespace
    vcctl("queue", "create", "-n", name, "-w", "2")
    assert name in vcctl("queue", "list")
    vcctl("job", "run", "-N", "hello", "-n", namespace, "-r", "2", "-m", "2", "-i", "busybox")
    room.until(lambda: room.phase("hello") == "Completed")
    assert "Completed" in vcctl("job", "list", "-n", namespace)
    assert "hello" in vcctl("job", "view", "-N", "hello", "-n", namespace)
    vcctl("job", "delete", "-N", "hello", "-n", namespace)
    room.until(lambda: room.api.items(JOBS.format(namespace)) == [])
    vcctl("queue", "operate", "-n", name, "-a", "close")
    room.until(lambda: room.api.get(f"{QUEUES}/{name}")["status"]["state"] == "Closed")
    vcctl("queue", "delete", "-n", name)
    with pytest.raises(Refused, match="404"):
        room.api.get(f"{QUEUES}/{name}")
