"""Operators on a real API server: their controllers and webhooks, our scheduler and controllers, and simulated pods."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.conftest import started
from tests.frameworks.control_parts import ControlPart, Started, control_part
from tests.frameworks.examples import needs
from tests.k8s.plain import GROUPS, PODS, StatusError, until
from tests.k8s.programs import ELECTION, Programs, programs_on
from volcano.entry.example_files import path_of
from volcano.kube.manifest import Manifest

pytestmark = [pytest.mark.frameworks, pytest.mark.k8s]

WITHIN = 120.0
EXPECTED = (
    # A controller has written again before its cache had followed.
    "the object has been modified",
    "already exists",
    "StorageError: invalid object",
    # Before the certificate of the webhook is made.
    "secret is not well-formed",
)
ERROR = re.compile(r"(?m)^.*(?:\bERROR\b|\blevel\"?[:=]\"?error|^E\d{4} |TLS handshake error).*$")
JOBSET = Started(
    replaced={
        "leaderElect: true": "leaderElect: false\nwebhook:\n  host: 127.0.0.1\n  port: {webhook}\n"
        'health:\n  healthProbeBindAddress: 127.0.0.1:{health}\nmetrics:\n  bindAddress: "0"'
    }
)
KUEUE = Started(
    replaced={
        "healthProbeBindAddress: :8081": "healthProbeBindAddress: 127.0.0.1:{health}",
        "bindAddress: :8080": 'bindAddress: "0"',
        "port: 9443": "host: 127.0.0.1\n  port: {webhook}",
        "leaderElect: true": "leaderElect: false",
    }
)
TRAINER = Started(
    arguments={
        "manager": ("--webhook-server-port={webhook}", "--health-probe-bind-address=127.0.0.1:{health}")
    }
)

SPARK = Started(
    arguments={
        "controller": ("--leader-election=false", "--health-probe-bind-address=0"),
        "webhook": (
            "--leader-election=false",
            "--webhook-port={webhook}",
            "--webhook-cert-dir=/etc/k8s-webhook-server/serving-certs",
            "--health-probe-bind-address=127.0.0.1:{health}",
        ),
    },
    # For spark-submit, which the controller runs.
    environment={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "{api}"},
)


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """A control plane of its own for each test: webhooks of an operator that has ended would reject pods."""
    for cluster in started(tmp_path_factory, controllers=True):
        with programs_on(cluster, tmp_path_factory) as running:
            running.prepare()
            running.start("controllers", *ELECTION)
            running.start("scheduler", *ELECTION)
            running.start_webhook()
            running.start_nodes(2)
            running.wait_ready(2)
            yield running


def example(name: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path_of(name).read_text()) if each]


def conditions(programs: Programs, path: str) -> set[str]:
    """Types of the conditions of an object that are true."""
    found: list[Any] = programs.api.get(path).get("status", {}).get("conditions", [])
    return {each["type"] for each in found if each["status"] == "True"}


def bound(programs: Programs, scheduler: str = "volcano") -> dict[str, str]:
    """Nodes of the pods that our scheduler has placed."""
    pods = programs.api.items(PODS.format("default"))
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == scheduler
    }


def unexpected(part: ControlPart) -> list[str]:
    """Errors in the log of an operator that a correct server does not cause."""
    return [line for line in ERROR.findall(part.log) if not any(text in line for text in EXPECTED)]


def holds(programs: Programs, part: ControlPart, path: str, condition: str) -> None:
    until(
        lambda: condition in conditions(programs, path),
        WITHIN,
        lambda: f"{programs.api.get(path).get('status')}\n{part.log[-4000:]}\n{programs.logs()}",
    )


def test_a_job_set_completes_as_a_gang(programs: Programs) -> None:
    with control_part(programs, "jobset", JOBSET) as jobset:
        jobset.apply(example("jobset/jobset"))
        path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/pi"
        assert programs.api.get(path)["spec"]["network"]["enableDNSHostnames"] is True  # by its webhook
        holds(programs, jobset, path, "Completed")
        assert len(bound(programs)) == 3
        assert unexpected(jobset) == []
        (invalid,) = [each for each in example("jobset/jobset") if each["kind"] == "JobSet"]
        invalid["metadata"]["name"] = "other"
        invalid["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["missing"]}
        with pytest.raises(StatusError, match=r"vjobset\.kb\.io.* denied the request.*missing"):
            programs.api.create(path.removesuffix("/pi"), invalid)


def test_a_train_job_completes_through_its_job_set(programs: Programs) -> None:
    with (
        control_part(programs, "jobset", JOBSET) as jobset,
        control_part(programs, "trainer", TRAINER) as trainer,
    ):
        trainer.apply(example("trainer/trainjob"))
        path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/torch"
        holds(programs, trainer, path, "Complete")
        assert len(bound(programs)) == 2
        assert unexpected(trainer) == []
        assert unexpected(jobset) == []


def test_a_leader_worker_set_becomes_available_as_a_gang(programs: Programs) -> None:
    documents = [each for each in example("lws/leaderworkerset") if each["kind"] != "Job"]
    (lws,) = [each["spec"]["leaderWorkerTemplate"] for each in documents if each["kind"] == "LeaderWorkerSet"]
    for template in (lws["leaderTemplate"], lws["workerTemplate"]):
        template["metadata"] = {
            "annotations": {**template["metadata"]["annotations"], "volcano.sh/sim-duration": "1h"}
        }
    with control_part(programs, "lws", JOBSET) as part:
        part.apply(documents)
        path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets/squares"
        holds(programs, part, path, "Available")
        assert sorted(bound(programs)) == ["squares-0", "squares-0-1", "squares-0-2"]
        group = f"{GROUPS.format('default')}/squares"
        until(lambda: programs.api.get(group)["status"]["phase"] == "Running", WITHIN, programs.logs)
        assert unexpected(part) == []


def test_kueue_admits_jobs_one_after_the_other_and_our_scheduler_places_them(programs: Programs) -> None:
    with control_part(programs, "kueue", KUEUE) as kueue:
        kueue.apply(example("kueue/job"))
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        for name in ("pair-a", "pair-b"):
            holds(programs, kueue, f"{jobs}/{name}", "Complete")
        started_at, ended_at = (
            {job["metadata"]["name"]: job["status"][field] for job in programs.api.items(jobs)}
            for field in ("startTime", "completionTime")
        )
        first, second = sorted(started_at, key=lambda name: started_at[name])
        assert ended_at[first] <= started_at[second]  # the quota is that of one
        assert len(bound(programs)) == 4
        assert [
            line for line in unexpected(kueue) if "Provisioning Requests are not supported" not in line
        ] == []


def test_a_spark_application_completes_in_the_pod_group_of_its_operator(programs: Programs) -> None:
    needs("spark")
    with control_part(programs, "spark-operator", SPARK) as operator:
        operator.apply(example("spark-operator/pi"))
        path = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications/pi"

        def state() -> object:
            return programs.api.get(path).get("status", {}).get("applicationState")

        def completed() -> bool:
            return state() == {"state": "COMPLETED"}

        until(completed, WITHIN, lambda: f"{state()}\n{operator.log[-6000:]}\n{programs.logs()}")
        driver = programs.api.get(f"{PODS.format('default')}/pi-driver")
        assert driver["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "spark-pi-pg"
        assert "program" in [volume["name"] for volume in driver["spec"]["volumes"]]  # by its webhook
        assert bound(programs) == {"pi-driver": driver["spec"]["nodeName"]}
        assert unexpected(operator) == []


def test_the_flink_operator_deploys_a_session_cluster_as_a_gang(programs: Programs) -> None:
    documents = [
        each for each in example("flink-operator/session") if each["kind"] not in ("Job", "ConfigMap")
    ]
    (session,) = [each for each in documents if each["kind"] == "FlinkDeployment"]
    session["spec"]["podTemplate"]["metadata"]["annotations"]["volcano.sh/sim-duration"] = "1h"
    with control_part(programs, "flink-operator") as operator:
        operator.apply(documents)
        path = "/apis/flink.apache.org/v1beta1/namespaces/default/flinkdeployments/session"

        def status() -> Manifest:
            found: Manifest = programs.api.get(path).get("status", {})
            return found

        def deployed() -> bool:
            return status()["jobManagerDeploymentStatus"] in ("DEPLOYING", "DEPLOYED_NOT_READY")

        until(deployed, WITHIN, lambda: f"{status()}\n{operator.log[-6000:]}")
        until(lambda: len(bound(programs)) == 3, WITHIN, lambda: f"{bound(programs)}\n{programs.logs()}")
        group = f"{GROUPS.format('default')}/session"
        until(lambda: programs.api.get(group)["status"]["phase"] == "Running", WITHIN, programs.logs)
        assert unexpected(operator) == []
