"""Operators on a real API server: their controllers and webhooks, our scheduler and controllers, and simulated pods."""

import re
import socket
from collections.abc import Iterator

import pytest

from tests.conftest import started
from tests.frameworks.control_parts import ControlPart, Started, control_part
from tests.frameworks.examples import needs
from tests.frameworks.simulated_pods import (
    WITHIN,
    bound,
    conditions,
    end,
    endless,
    example,
    gang,
    groups,
    holds,
    pod_templates,
    unexpected,
)
from tests.k8s.plain import GROUPS, JOBS, PODS, StatusError, until
from tests.k8s.programs import ELECTION, Programs, programs_on
from volcano.kube.api.manifest import Manifest

pytestmark = [pytest.mark.frameworks, pytest.mark.k8s]

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
TRAINING = Started(
    arguments={
        "training-operator": (
            "--webhook-server-port={webhook}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:{health}",
        )
    }
)
KUBERAY = Started(
    arguments={
        "kuberay-operator": (
            "--enable-leader-election=false",
            "--metrics-addr=0",
            "--health-probe-bind-address=127.0.0.1:{health}",
        )
    },
    # Nothing listens there. The name of Ray's dashboard must not be asked for outside of this host.
    environment={"HTTP_PROXY": "http://127.0.0.1:9"},
)
ARGO = Started(
    data={"workflow-controller-configmap": {"metricsConfig": "{enabled: false}"}},
    environment={"LEADER_ELECTION_DISABLE": "true"},
)
MPI_HEALTH = 8080  # the MPI operator has no option for this port, and ends if it is taken


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


def completes_with(
    programs: Programs, operator: ControlPart, name: str, path: str, *, pods: list[str], last: str
) -> None:
    """Runs a job of an example whose pods are a gang, and that succeeds when the pod `last` does."""
    operator.apply(endless(example(name)))
    group = path.rpartition("/")[2]
    assert gang(programs, operator, group, len(pods)) == pods
    assert "Succeeded" not in conditions(programs, path)
    end(programs, last)
    holds(programs, operator, path, "Succeeded")
    assert unexpected(operator) == []


def test_a_pytorch_job_completes_as_a_gang_and_an_invalid_one_is_denied(programs: Programs) -> None:
    jobs = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    pods = ["allreduce-master-0", "allreduce-worker-0", "allreduce-worker-1"]
    with control_part(programs, "training-operator", TRAINING) as operator:
        completes_with(
            programs,
            operator,
            "training-operator/pytorchjob",
            f"{jobs}/allreduce",
            pods=pods,
            last="allreduce-master-0",
        )
        (invalid,) = example("training-operator/pytorchjob")
        invalid["metadata"]["name"] = "other"
        for template in pod_templates(invalid):
            template["spec"]["containers"][0]["name"] = "other"
        with pytest.raises(StatusError, match=r"validator\.pytorchjob.* denied the request.*name pytorch"):
            programs.api.create(jobs, invalid)


def test_a_tf_job_completes_as_a_gang(programs: Programs) -> None:
    with control_part(programs, "training-operator", TRAINING) as operator:
        completes_with(
            programs,
            operator,
            "training-operator/tfjob",
            "/apis/kubeflow.org/v1/namespaces/default/tfjobs/mirrored",
            pods=["mirrored-worker-0", "mirrored-worker-1"],
            last="mirrored-worker-0",
        )


def test_an_mpi_job_of_the_training_operator_completes_as_a_gang(programs: Programs) -> None:
    with control_part(programs, "training-operator", TRAINING) as operator:
        completes_with(
            programs,
            operator,
            "training-operator/mpijob",
            "/apis/kubeflow.org/v1/namespaces/default/mpijobs/mpi",
            pods=["mpi-launcher", "mpi-worker-0", "mpi-worker-1"],
            last="mpi-launcher",
        )


def test_an_mpi_job_starts_its_launcher_when_its_gang_runs_and_completes(programs: Programs) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", MPI_HEALTH)) == 0:
            pytest.skip(f"port {MPI_HEALTH} is taken, on which the MPI operator always listens")
    with control_part(programs, "mpi-operator") as operator:
        operator.apply(endless(example("mpi-operator/mpijob")))
        path = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/mpi"
        assert {"mpi-worker-0", "mpi-worker-1"} <= set(gang(programs, operator, "mpi", 2))

        def launcher() -> list[str]:
            return [name for name in bound(programs) if name.startswith("mpi-launcher-")]

        holds(programs, operator, path, "Running")
        (name,) = launcher()
        end(programs, name)
        holds(programs, operator, path, "Succeeded")
        # By the policy of the example, workers go at the end, and their PodGroup with them.
        until(
            lambda: list(bound(programs)) == [name] and not groups(programs),
            WITHIN,
            lambda: f"{bound(programs)}\n{groups(programs)}\n{operator.log[-4000:]}",
        )
        assert unexpected(operator) == []


def test_a_ray_cluster_becomes_ready_as_a_gang(programs: Programs) -> None:
    documents = [each for each in example("kuberay/raycluster") if each["kind"] != "RayJob"]
    with control_part(programs, "kuberay", KUBERAY) as operator:
        operator.apply(endless(documents))
        path = "/apis/ray.io/v1/namespaces/default/rayclusters/shared"
        assert len(gang(programs, operator, "ray-shared-pg", 3)) == 3
        for condition in ("HeadPodReady", "RayClusterProvisioned"):
            holds(programs, operator, path, condition)
        status = programs.api.get(path)["status"]
        assert (status["state"], status["availableWorkerReplicas"]) == ("ready", 2)
        assert unexpected(operator) == []


def test_a_ray_job_gets_a_gang_that_goes_when_it_is_suspended(programs: Programs) -> None:
    with control_part(programs, "kuberay", KUBERAY) as operator:
        operator.apply(endless(example("kuberay/rayjob")))
        path = "/apis/ray.io/v1/namespaces/default/rayjobs/squares"

        def status() -> Manifest:
            found: Manifest = programs.api.get(path).get("status", {})
            return found

        def reaches(phase: str) -> None:
            until(
                lambda: bool(status()["jobDeploymentStatus"] == phase),
                WITHIN,
                lambda: f"{status()}\n{operator.log[-4000:]}\n{programs.logs()}",
            )

        reaches("Running")
        assert len(gang(programs, operator, f"ray-{status()['rayClusterName']}-pg", 3)) == 3
        # It stays so: simulated pods have no dashboard, to which the operator submits the program.
        dashboard = status()["dashboardURL"]
        assert dashboard == f"{status()['rayClusterName']}-head-svc.default.svc.cluster.local:8265"
        until(lambda: f"http://{dashboard}/api/jobs/" in operator.log, WITHIN, lambda: operator.log[-4000:])
        programs.api.patch(path, {"spec": {"suspend": True}})
        reaches("Suspended")
        until(lambda: not bound(programs) and not groups(programs), WITHIN, programs.logs)
        assert [line for line in unexpected(operator) if dashboard not in line] == []


def test_a_workflow_runs_steps_as_a_gang_and_a_job_as_a_step(programs: Programs) -> None:
    documents = example("argo/workflow")
    (spec,) = [each["spec"] for each in documents if each["kind"] == "Workflow"]
    spec["podMetadata"] = {"annotations": {"volcano.sh/sim-duration": "forever"}}
    for template in spec["templates"]:
        template.pop("outputs", None)  # of programs that simulated pods do not run
        for (each,) in template.get("steps", ()):
            for parameter in each.get("arguments", {}).get("parameters", ()):
                parameter["value"] = re.sub(r"{{steps\..*}}", "1229", parameter["value"])
    with control_part(programs, "argo", ARGO) as argo:
        argo.apply(documents)
        path = "/apis/argoproj.io/v1alpha1/namespaces/default/workflows/primes"

        def step(name: str, count: int = 1) -> list[Manifest]:
            """Pods of a step, when all of them run."""
            chosen = f"{PODS.format('default')}?labelSelector=workflows.argoproj.io/workflow=primes"

            def pods() -> list[Manifest]:
                found = [pod for pod in programs.api.items(chosen) if pod["status"]["phase"] == "Running"]
                nodes = [pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"] for pod in found]
                return [pod for pod, node in zip(found, nodes, strict=True) if f"].{name}" in node]

            until(lambda: len(pods()) == count, WITHIN, lambda: f"{argo.log[-4000:]}\n{programs.logs()}")
            return pods()

        (creator,) = step("gang")
        argo.run(creator)
        end(programs, creator["metadata"]["name"])
        names = sorted(pod["metadata"]["name"] for pod in step("count", 2))
        assert gang(programs, argo, "primes-count", 2) == names
        for name in names:
            end(programs, name)
        (adder,) = step("add")
        end(programs, adder["metadata"]["name"])
        (creator,) = step("train")
        argo.run(creator)  # returns when the job that it creates has completed
        end(programs, creator["metadata"]["name"])
        job = programs.api.get(f"{JOBS.format('default')}/primes-train")
        assert job["status"]["state"]["phase"] == "Completed"
        until(
            lambda: programs.api.get(path)["status"]["phase"] == "Succeeded",
            WITHIN,
            lambda: f"{programs.api.get(path)['status']}\n{argo.log[-4000:]}",
        )
        assert unexpected(argo) == []
