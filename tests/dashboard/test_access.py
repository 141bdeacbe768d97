"""What viewers may see and do: exactly what the API server allows them."""

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.cluster import SOURCE, UserCluster, in_thread
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import JOB, NAMESPACE, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

TEAMS = ("team-a", "team-b")


@pytest.fixture(scope="module")
def token(cluster: UserCluster) -> str:
    """The token of an account that may read the jobs, PodGroups and pods of team-a, and nothing else."""
    return in_thread(_create_teams(cluster))


async def _create_teams(cluster: UserCluster) -> str:
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
    try:
        for team in TEAMS:
            await client.create(NAMESPACE, named("v1", "Namespace", team))
            await client.create(JOB, job(team, f"secret-of-{team}"))
        await client.create(SERVICE_ACCOUNT, named("v1", "ServiceAccount", "reader", "team-a"))
        rules = [
            {
                "apiGroups": ["", "batch.volcano.sh", "scheduling.volcano.sh"],
                "resources": ["jobs", "podgroups", "pods"],
                "verbs": ["get", "list", "watch"],
            }
        ]
        rbac = "rbac.authorization.k8s.io/v1"
        await client.create(ROLE, {**named(rbac, "Role", "reader", "team-a"), "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
        for subject in (
            {"kind": "ServiceAccount", "name": "reader", "namespace": "team-a"},
            {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"},
            {"kind": "Group", "name": "researchers", "apiGroup": "rbac.authorization.k8s.io"},
        ):
            binding = named(rbac, "RoleBinding", f"reader-{subject['kind'].lower()}", "team-a")
            await client.create(ROLE_BINDING, {**binding, "subjects": [subject], "roleRef": reference})
        return await new_token(client)
    finally:
        await client.close()


async def new_token(client: Client) -> str:
    request = {
        **named("authentication.k8s.io/v1", "TokenRequest", "reader", "team-a"),
        "spec": {"expirationSeconds": 3600},
    }
    answer = await client.create(SERVICE_ACCOUNT, request, subresource="token")
    return str(answer["status"]["token"])


def named(version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def job(namespace: str, name: str) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    tasks = [{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}]
    return {
        **named("batch.volcano.sh/v1alpha1", "Job", name, namespace),
        "spec": {"minAvailable": 1, "tasks": tasks},
    }


@contextmanager
def dashboard(cluster: UserCluster, *flags: str) -> Iterator[str]:
    """Runs `volcano dashboard` with the administrator's kubeconfig; yields its address."""
    command = [sys.executable, "-m", "volcano.cmd.volcano", "dashboard", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(cluster.kubeconfig), *flags],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(SOURCE), "HOME": str(cluster.home)},
        cwd=cluster.home,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+:\d+", process.stdout.readline())
        assert found is not None
        yield found.group()
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM


def read(url: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(
        url, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def by_token(cluster: UserCluster) -> Iterator[str]:
    with dashboard(cluster, "--auth", "token") as url:
        yield url


@pytest.fixture(scope="module")
def by_proxy(cluster: UserCluster) -> Iterator[str]:
    with dashboard(cluster, "--auth", "proxy") as url:
        yield url


def test_a_viewer_sees_only_the_namespaces_that_may_be_listed(by_token: str, token: str) -> None:
    code, text = read(f"{by_token}/jobs", Authorization=f"Bearer {token}")
    assert code == 200
    assert "secret-of-team-a" in text
    assert "team-b" not in text


def test_a_token_that_the_api_server_rejects_shows_nothing(by_token: str) -> None:
    assert read(f"{by_token}/jobs", Authorization="Bearer eyJhbGciOiJub25lIn0.e30.")[0] == 401
    assert read(f"{by_token}/jobs")[0] == 401


def test_a_token_is_entered_in_a_form(browser: "Browser", by_token: str, token: str) -> None:
    context = browser.new_context(base_url=by_token)
    page = context.new_page()
    page.goto("/jobs")
    page.get_by_label("Bearer token").fill("not a token")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("The API server does not accept this token.").wait_for()
    page.get_by_label("Bearer token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("secret-of-team-a").wait_for()
    assert page.get_by_text("secret-of-team-b").count() == 0
    assert page.url.endswith("/jobs")
    context.close()


def test_a_proxy_names_the_user_and_the_groups(by_proxy: str, token: str) -> None:
    for headers in (
        {"X_Forwarded_User": "alice"},
        {"X_Forwarded_User": "bob", "X_Forwarded_Groups": "users, researchers"},
    ):
        code, text = read(f"{by_proxy}/jobs", **headers)
        assert code == 200
        assert "secret-of-team-a" in text
        assert "team-b" not in text
    code, text = read(f"{by_proxy}/jobs", X_Forwarded_User="bob")
    assert code == 200
    assert "secret-of" not in text


def test_a_request_without_a_user_is_rejected(by_proxy: str) -> None:
    assert read(f"{by_proxy}/jobs")[0] == 401


def test_only_the_trusted_proxy_names_users(cluster: UserCluster, token: str) -> None:
    with dashboard(cluster, "--auth", "proxy", "--trusted-proxy", "10.0.0.0/8") as url:
        assert read(f"{url}/jobs", X_Forwarded_User="alice")[0] == 401


def test_pages_of_the_whole_cluster_say_what_a_viewer_may_not_see(
    browser: "Browser", by_token: str, token: str
) -> None:
    context = browser.new_context(base_url=by_token)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("Bearer token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("You may not list queues and nodes.").wait_for()
    page.get_by_text("It is shown to viewers who may list all nodes and pods.").wait_for()
    assert (
        page.get_by_text("1 running", exact=True).or_(page.get_by_text("0 running", exact=True)).count() == 1
    )
    page.goto("/scheduler")
    page.get_by_role("alert").filter(has_text="the scheduler's Service cannot be found").wait_for()
    page.goto("/scheduler?tab=configuration")
    page.get_by_text("the default configuration is used").wait_for()
    page.goto("/usage")
    page.get_by_text("You may not list usage.accounting.volcano.sh").wait_for()
    assert "team-b" not in page.content()
    context.close()
