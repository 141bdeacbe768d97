"""Least privilege: a complete workload under the chart's ServiceAccounts, and its audit log compared with the roles."""

import json
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from tests.installer import workload as work
from tests.installer.audit import Permission, Request, granted, requests, unused
from tests.installer.helm import NAMESPACE
from tests.installer.installation import Installation
from tests.installer.rendered import Rendered
from tests.k8s.control_plane import build, cluster
from tests.k8s.plain import until
from tests.k8s.programs import programs_on
from tools.installer.places import CHART

pytestmark = pytest.mark.k8s

SCHEDULER, CONTROLLERS, ADMISSION = "volcano-scheduler", "volcano-controllers", "volcano-admission"
RACE = "another writer created the object after our read: it is read back"
OWNER = "required by the admission plugin OwnerReferencesPermissionEnforcement, which is enabled here"
# Permissions that the workload does not use, and the reason to grant them.
ADAPTOR = "read when metrics.type is prometheus_adaptor"
EXPLAINED: dict[Permission, str] = {
    Permission(SCHEDULER, "patch", "events"): "the count of an event that occurs again with the same text",
    Permission(SCHEDULER, "delete", "numatopologies.nodeinfo.volcano.sh"): "that of a node that was deleted",
    # Checked when the allocation of a claim changes; the audit log shows the request for the status.
    Permission(SCHEDULER, "patch", "resourceclaims.resource.k8s.io/binding"): "the allocation of a claim",
    Permission(CONTROLLERS, "get", "jobs.batch.volcano.sh"): RACE,
    Permission(CONTROLLERS, "get", "podgroups.scheduling.volcano.sh"): RACE,
    Permission(CONTROLLERS, "get", "queues.scheduling.volcano.sh"): RACE,
    Permission(CONTROLLERS, "get", "hypernodes.topology.volcano.sh"): RACE,
    Permission(CONTROLLERS, "get", "persistentvolumeclaims"): RACE,
    Permission(ADMISSION, "list", "hypernodes.topology.volcano.sh"): "warnings about unknown names of tiers",
    Permission(CONTROLLERS, "update", "jobs.batch.volcano.sh/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "cronjobs.batch.volcano.sh/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "jobflows.flow.volcano.sh/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "replicasets.apps/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "statefulsets.apps/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "daemonsets.apps/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "jobs.batch/finalizers"): OWNER,
    Permission(CONTROLLERS, "update", "pods/finalizers"): OWNER,
    Permission(SCHEDULER, "get", "nodes.custom.metrics.k8s.io/node_cpu_usage_avg"): ADAPTOR,
    Permission(SCHEDULER, "get", "nodes.custom.metrics.k8s.io/node_memory_usage_avg"): ADAPTOR,
}
CONFIGURATION = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: usage
metrics:
  type: metrics-server
"""
DISCOVERY = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      racks:
      - nodeLabel: rack
      - nodeLabel: kubernetes.io/hostname
"""


@dataclass(frozen=True, slots=True)
class Observed:
    """The granted permissions, and the requests of a complete workload."""

    granted: set[Permission]
    requests: list[Request]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    if build.missing():
        pytest.skip(f"not built: {', '.join(build.missing())}")
    directory = tmp_path_factory.mktemp("rights")
    running = cluster.start(
        directory / "control-plane", controllers=True, scheduler=True, service_accounts=True
    )
    enforce_owner_references(running)
    try:
        with programs_on(running, tmp_path_factory) as programs:
            shape = f"cpu=4,memory=8Gi,dra={work.DRIVER}:1"
            nodes = ("--nodes", "4", "--node", shape, "--sim-duration", work.FOREVER)
            programs.start("nodes", *nodes)
            installed = Installation(running, directory, programs)
            files = {"scheduler": CONFIGURATION, "controller": DISCOVERY}
            options = []
            for component, text in files.items():
                (directory / f"{component}.txt").write_text(text)
                options.append(f"--set-file=custom.{component}_config_override={directory}/{component}.txt")
            gate = "SchedulingGatesQueueAdmission=true"
            options += [
                f"--set-string=custom.{one}_feature_gates={gate}" for one in ("scheduler", "admission")
            ]
            installed.helm.run(
                "install", "volcano", str(CHART), "-n", NAMESPACE, "--create-namespace", *options
            )
            installed.start_all()
            yield installed
    finally:
        running.stop()


def enforce_owner_references(running: cluster.RealCluster) -> None:
    """Enables the admission plugin, as some distributions do."""
    running.kill("kube-apiserver")
    flags = running.commands["kube-apiserver"][1:]
    running.spawn("kube-apiserver", *flags, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    running.wait_ready()


@pytest.fixture(scope="module")
def observed(installation: Installation) -> Observed:
    installation.kubectl("create", "namespace", work.NAMESPACE)
    jobs_and_other_workloads(installation)
    cron_jobs_and_flows(installation)
    queues_and_commands(installation)
    evictions(installation)
    elections_and_certificates(installation)
    release = Rendered.of(installation.helm.run("get", "manifest", "volcano", "-n", NAMESPACE).stdout)
    time.sleep(0.5)  # the audit log is written after the responses
    found = list(requests(installation.cluster.directory / "audit.log", NAMESPACE))
    return Observed(granted(release, NAMESPACE), found)


def wait(installation: Installation, *arguments: str, shows: str, seconds: float = 40.0) -> None:
    """Waits until the output of `kubectl get` contains `shows`."""
    command = ("get", *arguments, "-n", work.NAMESPACE)
    until(
        lambda: shows in installation.programs.kubectl(*command).stdout,
        seconds,
        lambda: f"{shows!r} in {installation.programs.kubectl(*command)}\n{installation.programs.logs()}",
    )


def wait_job(installation: Installation, name: str, phase: str) -> None:
    wait(installation, "vcjob", name, "-o", "jsonpath={.status.state.phase}", shows=phase)


def jobs_and_other_workloads(installation: Installation) -> None:
    installation.apply(*work.storage(), *work.foreign_objects(), work.hyper_node())
    installation.kubectl("label", "node", "node-0", "node-1", "rack=a")
    foreign = work.job("foreign", plugins={"svc": [], "ssh": []})
    grows = work.job("grows", 2, runs=work.FOREVER, plugins={"svc": [], "ssh": []})
    installation.apply(
        work.plugins_job(),
        foreign,
        grows,
        work.claims_job(),
        work.provisioned_job(),
        work.gated_job(),
        *work.devices(),
    )
    installation.apply(work.deployment(), *work.other_workloads())
    wait_job(installation, "grows", "Running")
    installation.kubectl("label", "node", "node-2", "rack=a")  # a HyperNode changes
    for replicas, needed in ((3, 2), (1, 1)):
        wanted = {"/spec/tasks/0/replicas": replicas, "/spec/minAvailable": needed}
        change = [{"op": "replace", "path": path, "value": value} for path, value in wanted.items()]
        patch = ("--type=json", "-p", json.dumps(change))
        installation.kubectl("patch", "vcjob", "grows", "-n", work.NAMESPACE, *patch)
        wait(installation, "vcjob", "grows", "-o", "jsonpath={.status.running}", shows=str(replicas))
    wait_job(installation, "claims", "Completed")
    wait_job(installation, "devices", "Completed")
    wait_job(installation, "gated", "Completed")
    wait_job(installation, "foreign", "Pending")  # until the names that its plugins need are free
    for taken in work.foreign_objects():
        name = taken["metadata"]["name"]
        installation.kubectl("delete", taken["kind"], name, "-n", work.NAMESPACE)
    wait_job(installation, "foreign", "Completed")
    wait(
        installation,
        "pods",
        "-l",
        "app=web",
        "-o",
        "jsonpath={.items[*].status.phase}",
        shows="Running Running",
    )
    for name in work.OTHERS:
        running = ("-l", f"app={name}", "-o", "jsonpath={.items[*].status.phase}")
        wait(installation, "pods", *running, shows="Running")
    wait(installation, "pvc", "provisioned", "-o", "yaml", shows="selected-node")
    wait(installation, "hypernode", "-o", "jsonpath={.items[*].status.nodeCount}", shows="3")
    installation.kubectl("label", "node", "node-0", "node-1", "node-2", "rack-")  # and is deleted
    installation.apply(work.deployment(replicas=0))
    installation.kubectl("delete", "vcjob", "grows", "provisioned", "-n", work.NAMESPACE)
    installation.kubectl(
        "delete", "sts,ds,job.batch,pod", "-l", "others=yes", "-n", work.NAMESPACE, "--wait=false"
    )


def cron_jobs_and_flows(installation: Installation) -> None:
    """Puts the controllers' clock forward by an hour: a CronJob is due, and the TTL of finished jobs has expired."""
    installation.programs.signal("controllers", signal.SIGUSR2)
    installation.apply(work.cron_job(), *work.flow())
    wait(installation, "cronjob.batch.volcano.sh", "cron", "-o", "yaml", shows="lastScheduleTime")
    wait(installation, "jobflow", "flow", "-o", "jsonpath={.status.state.phase}", shows="Succeed")
    installation.kubectl("delete", "cronjob.batch.volcano.sh", "cron", "-n", work.NAMESPACE)


def queues_and_commands(installation: Installation) -> None:
    programs = installation.programs
    installation.apply(work.queue("parent"))
    installation.apply(work.queue("child", parent="parent"))
    installation.apply(work.job("commanded", runs=work.FOREVER, queue="child"))
    wait_job(installation, "commanded", "Running")
    for verb, phase in (("suspend", "Aborted"), ("resume", "Running")):
        done = programs.vcctl("job", verb, "-N", "commanded", "-n", work.NAMESPACE)
        assert done.returncode == 0, done.stderr
        wait_job(installation, "commanded", phase)
    for action, state in (("close", "Clos"), ("open", "Open")):
        done = programs.vcctl("queue", "operate", "-n", "child", "-a", action)
        assert done.returncode == 0, done.stderr
        wait(installation, "queue", "child", "-o", "jsonpath={.status.state}", shows=state)
    installation.kubectl("delete", "vcjob", "commanded", "-n", work.NAMESPACE)


def evictions(installation: Installation) -> None:
    """Fills the cluster, then submits a job of higher priority and a job in a queue without any pods."""
    installation.apply(work.priority("high", 1000), work.priority("low", 1), work.queue("other"))
    low = {"priorityClassName": "low"}
    installation.apply(work.job("filler", 20, cpu="1", runs=work.FOREVER, pod=low, **low))
    wait_job(installation, "filler", "Running")
    wait(installation, "events", "--field-selector=reason=FailedScheduling", shows="filler")
    high = {"priorityClassName": "high"}
    installation.apply(work.job("preemptor", 2, cpu="1", runs=work.FOREVER, pod=high, minAvailable=2, **high))
    wait_job(installation, "preemptor", "Running")
    installation.apply(work.job("reclaimer", 6, cpu="1", runs=work.FOREVER, queue="other"))
    wait_job(installation, "reclaimer", "Running")
    wait(installation, "events", "--field-selector=reason=Evict", shows="filler")
    installation.kubectl("delete", "vcjob", "filler", "preemptor", "reclaimer", "-n", work.NAMESPACE)


def elections_and_certificates(installation: Installation) -> None:
    programs = installation.programs
    for deployment, name, lease in (
        (SCHEDULER, "scheduler", "volcano"),
        (CONTROLLERS, "controllers", "vc-controller-manager"),
    ):
        before = programs.holder(lease)
        installation.start(deployment, replica="-2")
        standby = f"{name}-2"
        until(lambda: installation.probe(standby, "/readyz"), 20.0, programs.logs)  # noqa: B023
        programs.end(name)
        until(lambda: programs.holder(lease) not in ("", before), 20.0, programs.logs)  # noqa: B023
    secret = ("secret", "volcano-admission-secret", "-n", NAMESPACE)
    corrupt = json.dumps({"data": {"tls.crt": "bm9uc2Vuc2U="}})
    installation.kubectl("patch", *secret, "-p", corrupt)
    until(lambda: certificate(installation) not in ("", "bm9uc2Vuc2U="), 20.0, programs.logs)
    installation.kubectl("delete", *secret)
    until(lambda: certificate(installation) != "", 20.0, programs.logs)
    last = work.job("last", plugins={"svc": [], "ssh": []})
    until(
        lambda: programs.kubectl("apply", "-f", "-", stdin=json.dumps(last)).returncode == 0,
        20.0,
        programs.logs,
    )
    wait_job(installation, "last", "Completed")
    owned = (
        "get",
        "svc,cm,secret,netpol",
        "-l",
        "volcano.sh/job-name=last",
        "-n",
        work.NAMESPACE,
        "-o",
        "name",
    )
    until(lambda: installation.kubectl(*owned) == "", 20.0, programs.logs)


def certificate(installation: Installation) -> str:
    path = "jsonpath={.data.tls\\.crt}"
    secret = ("secret", "volcano-admission-secret", "-n", NAMESPACE)
    return installation.programs.kubectl("get", *secret, "-o", path).stdout


def lines(permissions: Iterable[Permission]) -> str:
    """One permission per line, so that a failure shows them all."""
    return "\n".join(sorted(" ".join(permission) for permission in permissions))


def test_no_request_was_forbidden(observed: Observed) -> None:
    assert lines({request.permission for request in observed.requests if request.code == 403}) == ""


def test_every_account_made_requests(observed: Observed) -> None:
    writes = {
        (request.permission.account, request.permission.verb)
        for request in observed.requests
        if request.code in (200, 201)
    }
    assert {(SCHEDULER, "create"), (CONTROLLERS, "create"), (ADMISSION, "patch")} <= writes


def test_every_permission_is_used_or_explained(observed: Observed) -> None:
    used = (request.permission for request in observed.requests if request.code != 403)
    assert lines(unused(observed.granted, used) - EXPLAINED.keys()) == ""


def test_only_granted_permissions_are_explained(observed: Observed) -> None:
    assert lines(EXPLAINED.keys() - observed.granted) == ""
    assert all(EXPLAINED.values())
