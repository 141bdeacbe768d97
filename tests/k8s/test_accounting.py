"""Accounting on a real API server: the chart's rights, PostgreSQL, the aggregated API group, and who may read it."""

import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from tests.accounting import postgresql
from tests.installer.helm import NAMESPACE
from tests.installer.installation import Installation
from tests.k8s.control_plane import build, cluster
from tests.k8s.load import job
from tests.k8s.plain import JOBS, QUEUES, until
from tests.k8s.programs import free_port, programs_on
from tests.k8s.test_scenarios import SOON
from tools.installer.places import CHART

pytestmark = pytest.mark.k8s

API = "/apis/accounting.volcano.sh/v1alpha1"
SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.accounting.volcano.sh"
TEAM = "team"


@dataclass(frozen=True, slots=True)
class Accounting:
    """An installation with accounting, and the port of its API."""

    installation: Installation
    port: int

    def vcctl(self, *arguments: str, user: str = "") -> subprocess.CompletedProcess[str]:
        acting = ["--as", user] if user else []
        return self.installation.programs.vcctl(*arguments, *acting)


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounting]:
    if build.missing():
        pytest.skip(f"not built: {', '.join(build.missing())}")
    binaries = postgresql.programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    directory = tmp_path_factory.mktemp("accounting")
    running = cluster.start(directory / "control-plane", controllers=True, service_accounts=True)
    try:
        with postgresql.server(binaries) as database, programs_on(running, tmp_path_factory) as programs:
            installed = Installation(running, directory, programs)
            values = {
                "custom": {
                    "accounting_enable": True,
                    "accounting_database_url": database.new_database(),
                    "admission_enable": False,
                }
            }
            (directory / "values.yaml").write_text(yaml.safe_dump(values))
            options = ("-n", NAMESPACE, "--create-namespace", f"--values={directory}/values.yaml")
            installed.helm.run("install", "volcano", str(CHART), *options)
            port = free_port()
            # The Service leads to this process: pods have no network here.
            installed.kubectl("-n", NAMESPACE, "delete", "service", "volcano-accounting")
            installed.kubectl(
                "-n",
                NAMESPACE,
                "create",
                "service",
                "externalname",
                "volcano-accounting",
                "--external-name=localhost",
            )
            installed.kubectl("create", "namespace", TEAM)
            programs.start_nodes(2)
            installed.start("volcano-scheduler")
            flags = (
                f"--accounting-address=127.0.0.1:{port}",
                f"--accounting-service={NAMESPACE}/volcano-accounting:{port}",
            )
            installed.start("volcano-controllers", *flags)
            until(lambda: programs.api.items(QUEUES) != [], SOON, programs.logs)
            until(lambda: available(installed), SOON, programs.logs)
            programs.api.create(JOBS.format(TEAM), owned(job("train", 2), "jane"))
            yield Accounting(installed, port)
    finally:
        running.stop()


def owned(manifest: dict[str, object], user: str) -> dict[str, object]:
    metadata = {**manifest["metadata"], "annotations": {"volcano.sh/user": user}}  # type: ignore[dict-item]
    return {**manifest, "metadata": metadata}


def available(installed: Installation) -> bool:
    conditions = (installed.programs.api.get(SERVICE).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def usage(accounting: Accounting, *more: str, user: str = "") -> list[dict[str, object]]:
    done = accounting.vcctl("usage", "--from", "1h", "-o", "json", *more, user=user)
    assert done.returncode == 0, done.stderr
    items: list[dict[str, object]] = json.loads(done.stdout)["items"]
    return items


def test_pods_that_run_are_recorded_and_shown_through_the_api_server(accounting: Accounting) -> None:
    programs = accounting.installation.programs

    def completed() -> bool:
        return any(row["runs"] == 2 for row in usage(accounting, "--by", "queue,user,namespace"))

    until(completed, SOON, programs.logs)
    (row,) = usage(accounting, "--by", "queue,user,namespace")
    assert row["group"] == {"queue": "default", "user": "jane", "namespace": TEAM}
    raw = json.loads(accounting.installation.kubectl("get", "--raw", f"{API}/namespaces/{TEAM}/runs"))
    assert {run["job"] for run in raw["items"]} == {"train"}
    decayed = json.loads(
        accounting.installation.kubectl("get", "--raw", f"{API}/decayedusage?halfLifeSeconds=60")
    )
    assert [(item["queue"], item["user"]) for item in decayed["items"]] == [("default", "jane")]


def test_the_group_is_discovered(accounting: Accounting) -> None:
    listed = accounting.installation.kubectl("api-resources", "--api-group=accounting.volcano.sh")
    assert {line.split()[0] for line in listed.splitlines()[1:]} == {"usage", "runs", "jobs", "decayedusage"}


def test_viewers_of_a_namespace_see_its_usage_and_nothing_else(accounting: Accounting) -> None:
    installed = accounting.installation
    installed.kubectl("create", "rolebinding", "viewers", "-n", TEAM, "--clusterrole=view", "--user=bob")
    until(
        lambda: accounting.vcctl("usage", "-n", TEAM, user="bob").returncode == 0,
        SOON,
        installed.programs.logs,
    )
    everywhere = accounting.vcctl("usage", user="bob")
    assert everywhere.returncode == 4
    assert 'User "bob" cannot list resource "usage" in API group "accounting.volcano.sh"' in everywhere.stderr
    assert "with -n NAMESPACE, the usage in one namespace is shown" in everywhere.stderr
    assert accounting.vcctl("usage", "-n", "default", user="bob").returncode == 4


def test_only_the_api_server_may_connect(accounting: Accounting) -> None:
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", accounting.port, timeout=10, context=context)
    try:
        connection.request("GET", f"{API}/usage", headers={"X-Remote-User": "admin"})
        reply = connection.getresponse()
        assert (reply.status, json.loads(reply.read())["reason"]) == (403, "Forbidden")
    finally:
        connection.close()


def test_a_wrong_parameter_is_explained_by_the_api(accounting: Accounting) -> None:
    done = accounting.installation.programs.kubectl("get", "--raw", f"{API}/usage?by=colour")
    assert "by='colour' is unknown; choose from queue, user, namespace, job, gpu-type" in done.stderr


def test_deleted_jobs_stay_in_the_history(accounting: Accounting) -> None:
    installed = accounting.installation
    installed.kubectl("delete", "vcjob", "-n", TEAM, "train")

    def deleted() -> bool:
        found = json.loads(accounting.vcctl("job", "list", "--history", "-n", TEAM, "-o", "json").stdout)[
            "items"
        ]
        return [job["deleted"] is not None for job in found if job["name"] == "train"] == [True]

    until(deleted, SOON, installed.programs.logs)
    shown = accounting.vcctl("job", "view", "train", "-n", TEAM)
    assert shown.returncode == 0, shown.stderr
    assert "(deleted " in shown.stdout
    assert shown.stdout.count("train-") >= 2
