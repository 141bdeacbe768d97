"""The chart on a real API server: upgrade of an existing Volcano, uninstall, install from a file server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installer import container, existing
from tests.installer import workload as work
from tests.installer.helm import NAMESPACE, served
from tests.installer.installation import Installation
from tests.installer.rendered import DEPLOYMENTS
from tests.k8s.control_plane import build, cluster
from tests.k8s.plain import until
from tests.k8s.programs import ELECTION, programs_on
from tools.installer.places import SINGLE_FILE
from tools.package_chart import package
from volcano.kube.api import crds

pytestmark = pytest.mark.k8s

KEPT = ("crd", "queue", "vcjob", "podgroup")
WEBHOOKS = ("validatingwebhookconfiguration", "mutatingwebhookconfiguration")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A cluster with nodes and a chart repository named volcano-sh, and nothing installed."""
    if build.missing():
        pytest.skip(f"not built: {', '.join(build.missing())}")
    directory = tmp_path_factory.mktemp("install")
    running = cluster.start(
        directory / "control-plane", controllers=True, scheduler=True, service_accounts=True
    )
    package(build.program("helm"), directory / "repository")
    try:
        with (
            programs_on(running, tmp_path_factory) as programs,
            served(directory / "repository") as address,
        ):
            nodes = ("--nodes", "4", "--node", "cpu=4,memory=8Gi", "--sim-duration", work.FOREVER)
            programs.start("nodes", *nodes)
            installed = Installation(running, directory, programs)
            installed.helm.run("repo", "add", "volcano-sh", address)
            yield installed
    finally:
        running.stop()


def phase(installation: Installation, name: str) -> str:
    path = "jsonpath={.status.state.phase}"
    return installation.programs.kubectl("get", "vcjob", name, "-n", work.NAMESPACE, "-o", path).stdout


def wait_for(installation: Installation, name: str, wanted: str) -> None:
    until(lambda: phase(installation, name) == wanted, 40.0, installation.programs.logs)


def pods_of(installation: Installation, name: str) -> list[tuple[str, str]]:
    selector = ("-l", f"volcano.sh/job-name={name}", "-n", work.NAMESPACE)
    found = json.loads(installation.kubectl("get", "pods", *selector, "-o", "json"))["items"]
    return sorted((pod["metadata"]["uid"], pod["spec"].get("nodeName", "")) for pod in found)


def bundles(installation: Installation) -> list[str]:
    """The CA bundle of each webhook."""
    found = installation.get(",".join(WEBHOOKS))["items"]
    return [each["webhooks"][0]["clientConfig"].get("caBundle", "") for each in found]


@pytest.fixture(scope="module")
def volcano(installation: Installation) -> Installation:
    """An existing release of Volcano with its own chart, CRDs, certificates and leases.

    The programs are ours, which tests them with CRDs that are not ours.
    """
    chart = existing.write_chart(installation.directory / "existing")
    install = ("install", "volcano", str(chart), "-n", NAMESPACE, "--create-namespace")
    installation.helm.run(*install, "--wait", "--timeout=60s")
    installation.kubectl("create", "namespace", work.NAMESPACE)
    for name in ("scheduler", "controllers"):
        installation.programs.start(name, *ELECTION)
    installation.apply(work.queue("team"))
    until(
        lambda: "Open" in installation.kubectl("get", "queue", "team", "-o", "yaml"),
        40.0,
        installation.programs.logs,
    )
    return installation


def test_the_programs_work_with_the_crds_of_volcano(volcano: Installation) -> None:
    gang = work.job(
        "before", 3, runs=work.FOREVER, queue="team", minAvailable=3, plugins={"svc": [], "ssh": []}
    )
    volcano.apply(gang, work.job("done", queue="team"), *work.flow())
    wait_for(volcano, "before", "Running")
    wait_for(volcano, "done", "Completed")
    flow = ("get", "jobflow", "flow", "-n", work.NAMESPACE, "-o", "jsonpath={.status.state.phase}")
    until(lambda: volcano.kubectl(*flow) == "Succeed", 40.0, volcano.programs.logs)
    suspended = volcano.programs.vcctl("job", "suspend", "-N", "before", "-n", work.NAMESPACE)
    assert suspended.returncode == 0, suspended.stderr
    wait_for(volcano, "before", "Aborted")
    volcano.programs.vcctl("job", "resume", "-N", "before", "-n", work.NAMESPACE)
    wait_for(volcano, "before", "Running")


def test_an_existing_volcano_is_upgraded_in_place(volcano: Installation) -> None:
    secret, authority = existing.certificates()
    volcano.apply(secret)
    for name in ("scheduler", "controllers"):
        volcano.programs.end(name, graceful=False)  # the leases are not released
    holder = volcano.programs.holder("volcano")
    kinds = (*KEPT, "deployment", "service", "serviceaccount", *WEBHOOKS)
    before, pods = volcano.uids(*kinds), pods_of(volcano, "before")
    volcano.helm.run("upgrade", "volcano", "volcano-sh/volcano", "-n", NAMESPACE, "--wait", "--timeout=60s")
    after = volcano.uids(*kinds)
    assert {name: uid for name, uid in after.items() if name in before} == before
    found = {each["metadata"]["name"]: each["spec"] for each in volcano.get("crd")["items"]}
    for crd in crds.load():
        assert found[crd["metadata"]["name"]]["versions"] == crd["spec"]["versions"], crd["metadata"]["name"]
    volcano.start_all()
    until(lambda: volcano.programs.holder("volcano") not in ("", holder), 20.0, volcano.programs.logs)
    volcano.apply(work.job("after", queue="team"))
    wait_for(volcano, "after", "Completed")
    assert phase(volcano, "before") == "Running"
    assert pods_of(volcano, "before") == pods, "the upgrade changed a running job"
    webhook = volcano.get("validatingwebhookconfiguration", "volcano-admission-service-jobs-validate")
    assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == authority, (
        "the upgrade replaced valid certificates"
    )


def test_admission_is_reached_through_the_service_of_the_chart(volcano: Installation) -> None:
    wrong = work.job("wrong", queue="nowhere")
    denied = volcano.programs.kubectl("apply", "-f", "-", stdin=json.dumps(wrong))
    assert 'admission webhook "validatejob.volcano.sh" denied the request' in denied.stderr


def test_an_upgrade_to_two_replicas_keeps_objects_and_ca_bundles(volcano: Installation) -> None:
    before, trusted = volcano.uids(*KEPT), bundles(volcano)
    volcano.programs.end("webhooks")  # which would write the bundles again
    replicas = [f"--set=custom.{one}_replicas=2" for one in ("scheduler", "controller", "admission")]
    upgrade = ("upgrade", "volcano", "volcano-sh/volcano", "-n", NAMESPACE, "--wait", "--timeout=60s")
    volcano.helm.run(*upgrade, *replicas)
    assert volcano.uids(*KEPT) == before
    assert bundles(volcano) == trusted
    assert all(trusted)
    for deployment in volcano.get("deployment")["items"]:
        assert deployment["status"]["readyReplicas"] == 2, deployment["metadata"]["name"]
    assert len(volcano.get("pods", "--field-selector=status.phase=Running")["items"]) == 6
    assert volcano.get("pdb", "volcano-scheduler")["status"]["disruptionsAllowed"] == 1


def test_an_upgrade_with_an_unsupported_value_changes_nothing(volcano: Installation) -> None:
    before = volcano.helm.run("history", "volcano", "-n", NAMESPACE, "--output", "json").stdout
    upgrade = (
        "upgrade",
        "volcano",
        "volcano-sh/volcano",
        "-n",
        NAMESPACE,
        "--set=custom.agent_scheduler_enable=true",
    )
    failed = volcano.helm.run(*upgrade, check=False)
    assert "custom.agent_scheduler_enable=true: this part of Volcano is not available here" in failed.stderr
    assert volcano.helm.run("history", "volcano", "-n", NAMESPACE, "--output", "json").stdout == before


def test_uninstall_keeps_crds_and_objects_and_deletes_the_webhooks(volcano: Installation) -> None:
    before = volcano.uids(*KEPT)
    for name in ("webhooks", "scheduler", "controllers"):
        volcano.programs.end(name)
    uninstalled = volcano.helm.run("uninstall", "volcano", "-n", NAMESPACE, "--wait", "--timeout=60s")
    assert "kept" in uninstalled.stdout + uninstalled.stderr
    assert volcano.uids(*KEPT) == before
    assert volcano.uids(*WEBHOOKS) == {}
    assert volcano.get("deployment")["items"] == []
    volcano.apply(work.queue("later"))  # no webhook denies it


def test_the_chart_is_installed_from_a_plain_file_server(volcano: Installation) -> None:
    before = volcano.uids(*KEPT)
    settings = [f"--set=basic.{one}.enabled=true" for one in ("scheduler", "controller", "admission")]
    install = ("install", "volcano", "volcano-sh/volcano", "-n", NAMESPACE, "--create-namespace", *settings)
    volcano.helm.run(*install, "--wait", "--timeout=60s")
    deployments = volcano.get("deployment")["items"]
    assert {each["metadata"]["name"] for each in deployments} == set(DEPLOYMENTS)
    pods = volcano.get("pods")["items"]
    running = {pod["spec"]["serviceAccountName"] for pod in pods if pod["status"]["phase"] == "Running"}
    assert running == set(DEPLOYMENTS)
    assert volcano.uids(*KEPT) == before


def test_programs_run_unprivileged_on_a_read_only_root_as_in_their_pods(volcano: Installation) -> None:
    if not container.possible():
        pytest.skip("namespaces cannot be created on this machine")
    volcano.route_webhooks()
    volcano.health.clear()
    started = {name: volcano.start_contained(name) for name in DEPLOYMENTS}
    try:
        until(volcano.ready, 60.0, volcano.programs.logs)
        volcano.apply(work.job("contained", queue="team"))
        wait_for(volcano, "contained", "Completed")
        for process in started.values():
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert "CapEff:\t0000000000000000" in status
            assert "NoNewPrivs:\t1" in status
    finally:
        for process in started.values():
            process.terminate()
    assert {name: process.wait(timeout=20) for name, process in started.items()} == dict.fromkeys(
        DEPLOYMENTS, 0
    )


def test_kubectl_installs_the_single_file(volcano: Installation) -> None:
    volcano.helm.run("uninstall", "volcano", "-n", NAMESPACE, "--wait", "--timeout=60s")
    before = volcano.uids(*KEPT)
    for _ in range(2):
        volcano.kubectl("apply", "-f", str(SINGLE_FILE))
    for name in DEPLOYMENTS:
        volcano.kubectl("rollout", "status", "deployment", name, "-n", NAMESPACE, "--timeout=30s")
    assert volcano.uids(*KEPT) == before
    assert len(volcano.uids(*WEBHOOKS)) == 14
